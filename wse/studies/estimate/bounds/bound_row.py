"""BoundRow: cycles per generated token, or per token in a group of steps, with lower bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.studies.results.phases import CyclesBy

BoundName = Literal["sram", "arithmetic", "hops", "crossing"]
"""Names of the lower bounds that no software on a placement can beat, in JSON order.

They are computed by `wse.backends.fabric.bounds`.
"""


@dataclass(frozen=True, kw_only=True)
class BoundRow(Result):
    """Cycles and lower bounds for a group of steps of a decoded token, averaged over all tokens.

    The bounds are the minimum cycles that any software with the same placement needs. Ops that
    neither multiply nor send have no bound. In their rows, ``limit``, ``ratio``, ``bound_grade``
    and ``bound_source`` are None.
    """

    op: Annotated[str | None, Doc("kind of op; of the rows of `ops`")] = None
    layers: Annotated[str | None, Doc("kind of layer; of the rows of `layers`")] = None
    stage: Annotated[int | None, Doc("index of the stage; of the rows of `stages`")] = None
    cycles: Annotated[float, Doc("cycles of these steps", "cycles")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles by cause", "cycles")]
    bounds: Annotated[Mapping[BoundName, float], Doc("cycles that no software on this placement can beat", "cycles")]
    source: Annotated[str, Doc("the weakest kind of source among the constants: measured, vendor, fitted, assumed")]
    sources: Annotated[Mapping[str, float], Doc("fraction of the cycles that rests on each kind of source")]
    limit: Annotated[BoundName | None, Doc("the largest of the bounds")] = None
    ratio: Annotated[float | None, Doc("the cycles over that bound")] = None
    bound_grade: Annotated[Grade | None, Doc("grade of the weakest constant of that bound")] = None
    bound_source: Annotated[str | None, Doc("kind of source of that constant: measured, vendor, fitted or assumed")] = (
        None
    )
    count: Annotated[int | None, Doc("ops or layers of this kind")] = None
    wafer: Annotated[int | None, Doc("index of the stage's wafer")] = None
