"""The region strategy: one region per wafer, whose layers run sequentially on all PEs."""

from __future__ import annotations

from wse_mappings.strategies.strategy import Strategy


class Region(Strategy):
    """Mapping strategy that distributes layers across wafers in order, with one region per wafer.

    The layers of a wafer run sequentially on all PEs of its region (a rectangle of PEs).
    """

    name = "region"
    summary = "All layers of a wafer time-share one rectangle of PEs; every op is distributed over all of it."
    source = "He et al., WaferLLM, OSDI 2025, arXiv 2502.04563"
    regions = "one"


STRATEGY = Region()
