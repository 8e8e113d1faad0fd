"""LayoutOptions: options for the layout of a model on the PEs of wafers, except for its mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.studies.options import known_names
from wse.studies.options.option import Option

DEFAULT_EXPERTS: Final = "auto"
DEFAULT_SCHEDULE: Final = "optimized"

ExpertPlacement = Annotated[
    str,
    Option(
        doc="Store each expert on all columns of a region (distributed), on columns of its own (dedicated), or on one "
        "of several groups of columns: GROUPS of them, or the fewest with little padding (grouped). auto: distributed, "
        "or grouped if --mapping auto finds no room for distributed.",
        panel="Wafer and mapping",
        metavar="auto|distributed|grouped|dedicated|GROUPS",
        known_values=("auto", "distributed", "grouped", "dedicated"),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """Options for the layout of a model on the PEs of wafers.

    They set the size of PE regions, the placement of experts, the order of steps in a layer, and
    the all-reduce pattern.
    """

    region: Annotated[
        str | None,
        Option(
            doc="Size of a region in PEs. Default: chosen by the mapping.",
            panel="Wafer and mapping",
            metavar="ROWSxCOLS",
        ),
    ] = None
    experts: ExpertPlacement = DEFAULT_EXPERTS
    schedule: Annotated[
        str,
        Option(
            doc="Run the steps of a layer as in the released research decode (baseline), with every rewrite that saves "
            "cycles (optimized), or with named rewrites, separated by commas.",
            panel="Wafer and mapping",
            metavar="baseline|optimized|REWRITES",
        ),
    ] = DEFAULT_SCHEDULE
    all_reduce: Annotated[
        str | None,
        Option(
            doc="Pattern of all-reduces over lines of PEs: a reduce or all-reduce of `wse pattern`, or your own as "
            "FILE.py:NAME. Default: K-trees, fitted to the number of words.",
            panel="Wafer and mapping",
            metavar="PATTERN",
            known_values=known_names.patterns,
        ),
    ] = None
