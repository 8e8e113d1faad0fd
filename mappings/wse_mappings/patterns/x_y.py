"""X-Y reduce: a one-dimensional reduce along every row, then one along the first column, to the north-west corner.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from collections.abc import Callable

from wse_mappings.schedule import Arrival, LineSchedule

Reduce = Callable[[int, int, Arrival], LineSchedule]
"""A reduce into PE 0 by (length, lines, arrival): ``chain``, ``star``, ``binary_tree`` or ``two_phase``."""


def x_y(rows: int, cols: int, arrival: Arrival, reduce: Reduce) -> tuple[LineSchedule, LineSchedule]:
    """The pattern of all rows, and then that of column 0."""
    return reduce(cols, rows, arrival), reduce(rows, 1, arrival)
