"""What pictures of a wafer show: a number for each PE, and the regions that stages were placed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.errors import BadTrace, UnknownName
from wse_traces.read import Array, Trace
from wse_traces.schema import DIRECTIONS, USES

KINDS: Final = ("sram", "busy", "links", *DIRECTIONS)
_PLANES: Final = {"sram": "sram/bytes_per_pe", "busy": "pe/busy_cycles"}
_LINKS: Final = "links/words"


@dataclass(frozen=True, slots=True)
class Outline:
    """A stage's rectangle of PEs."""

    stage: int
    row: int
    col: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True, eq=False)
class WaferMap:
    """A number for each PE of a wafer.

    Attributes:
        kind: One of ``KINDS``.
        wafer: The wafer.
        title: What the numbers are.
        unit: What they are counted in.
        values: int64 ``[row, col]``.
        most: The largest value that can be; 0 where nothing limits it.
        outlines: The stages on the wafer; none on maps of links where PEs are dead, since links are then in rows and
            columns of the wafer, and stages, as all else, in those of the mesh that programs see.
    """

    kind: str
    wafer: int
    title: str
    unit: str
    values: Array
    most: int
    outlines: tuple[Outline, ...]


def check_maps(kinds: tuple[str, ...]) -> None:
    """Raise UnknownName for a kind of picture that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("picture", kind, KINDS, where="--what")


def map_kinds(trace: Trace, kinds: tuple[str, ...]) -> list[str]:
    """The kinds of maps to draw: these, or without any all that were recorded.

    Raises:
        BadTrace: what a map shows was not recorded: links and busy times are known when a run is complete.
    """
    wanted: list[str] = [kind for kind in KINDS if kind in kinds] or [
        kind for kind in KINDS if trace.rows(_plane_of(kind))
    ]
    missing = [kind for kind in wanted if not trace.rows(_plane_of(kind))]
    if missing or not wanted:
        what, state = ", ".join(missing) or "nothing to draw", "" if trace.complete else ", whose run was not completed"
        held = f"--what {what}: not recorded" if missing else what
        message = f"{held} in {trace.path}{state}; choose another, or run again to the end"
        raise BadTrace(message)
    return wanted


def wafer_maps(trace: Trace, kinds: list[str]) -> Iterator[WaferMap]:
    """The maps of these kinds of each wafer; ``links`` are those of all directions together.

    Raises:
        TraceError: the trace is damaged.
    """
    for wafer in range(trace.header.wafers):
        outlines = _outlines(trace, wafer)
        for kind in kinds:
            if wafer < trace.rows(_plane_of(kind)):
                elsewhere = kind not in _PLANES and "defects" in trace.header.options
                yield WaferMap(kind, wafer, *_values(trace, kind, wafer), () if elsewhere else outlines)


def _plane_of(kind: str) -> str:
    return _PLANES.get(kind, _LINKS)


def _values(trace: Trace, kind: str, wafer: int) -> tuple[str, str, Array, int]:
    """Title, unit, values and their limit."""
    plane = trace.column(_plane_of(kind), wafer, wafer + 1)[0].astype(np.int64)
    if kind == "sram":
        used = plane[[use for use, name in enumerate(USES) if name != "free"]].sum(axis=0)
        size = int(plane.sum(axis=0).max(initial=0))
        return f"SRAM in use, of {size:,} bytes in a PE", "bytes", used, size
    if kind == "busy":
        return "busy cycles over the run", "cycles", plane, 0
    if kind == "links":
        return "words that leave on all four links, over the run (wavelet-hops)", "words", plane.sum(axis=0), 0
    return f"words that leave to the {kind}, over the run", "words", plane[DIRECTIONS.index(kind)], 0


def _outlines(trace: Trace, wafer: int) -> tuple[Outline, ...]:
    stages = trace.table("stage")
    places = zip(*(stages[name].tolist() for name in ("wafer", "row", "col", "rows", "cols")), strict=True)
    return tuple(Outline(stage, *place[1:]) for stage, place in enumerate(places) if place[0] == wafer)
