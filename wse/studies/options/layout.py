"""LayoutOptions: how a model is laid out on the PEs of wafers, besides its mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.studies.options import known_names
from wse.studies.options.option import Option

DEFAULT_EXPERTS: Final = "auto"
DEFAULT_SCHEDULE: Final = "fused"

ExpertPlacement = Annotated[
    str,
    Option(
        doc="Each expert over all columns of a region; over those of one of as many groups as are given, or of as few "
        "as leave little padding; or on columns of its own. auto: spread, or few where --mapping auto has no room so.",
        panel="Wafer and mapping",
        metavar="auto|spread|few|own|GROUPS",
        known_values=("auto", "spread", "few", "own"),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """Options of the layout: the PEs of a region, experts, the steps of a layer, and sums over lines."""

    region: Annotated[
        str | None,
        Option(doc="PEs of one region. Default: the mapping's choice.", panel="Wafer and mapping", metavar="ROWSxCOLS"),
    ] = None
    experts: ExpertPlacement = DEFAULT_EXPERTS
    schedule: Annotated[
        str,
        Option(
            doc="Steps of a layer as the released research decode runs them, rewritten wherever that takes fewer "
            "cycles, or with the rewrites that are named, separated by commas.",
            panel="Wafer and mapping",
            metavar="released|fused|REWRITES",
        ),
    ] = DEFAULT_SCHEDULE
    all_reduce: Annotated[
        str | None,
        Option(
            doc="The pattern of sums over lines that all PEs get: a reduce or all-reduce as `wse pattern` names them, "
            "or your own as FILE.py:NAME. Default: K-trees, fitted to their words.",
            panel="Wafer and mapping",
            metavar="PATTERN",
            known_values=known_names.patterns,
        ),
    ] = None
