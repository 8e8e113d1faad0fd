"""Transfer kernels for exchanges, in which every PE receives the words of at most one other PE.

The other PE is in the same row or column. Words are sent and received at different addresses, so
the order does not matter. The operands ``a`` are those of `along_columns`: 0 first row, 1 rows, 2
blocks per row, 3 source address, 4 target address, 5 elements, 7 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.chosen_lanes import LaneChoice, LanePlace, copy_chosen
from wse_kernels.codegen.jit import prange


def exchange_along_rows(view: Any, runs: Any, first: Any, chosen: Any, variant: Any, a: Any) -> None:
    """Move elements between PEs of each mesh row, where each PE receives from at most one other PE.

    An exchange is a list of runs. Each run has a ``shift``: column c receives the elements of
    column c + shift if ``chosen[run, c]`` is not 0. Rows may execute different exchanges.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        runs: int32 ``[run, 3]``: shift, first column that may receive, and column after the last.
            The runs of an exchange are consecutive.
        first: Index of the first run of each exchange, and finally the total number of runs.
        chosen: uint8 ``[run, column]``, nonzero for columns that receive.
        variant: Index of the exchange that each mesh row executes.
        a: Operands: a[0] first row, a[1] rows, a[2] blocks per row, a[3] source address,
            a[4] target address, a[5] elements.
    """
    for row in prange(a[0], a[0] + a[1]):
        base, lanes, source, target, n, kind = row * a[2], view.shape[2], a[3], a[4], a[5], variant[row]
        for i in range(first[kind], first[kind + 1]):
            shift, col, end = np.int64(runs[i, 0]), np.int64(runs[i, 1]), np.int64(runs[i, 2])
            while col < end:  # up to the end of the source block or of the target block
                lane, from_lane = col % lanes, (col + shift) % lanes
                count = min(end - col, lanes - max(lane, from_lane))
                to = LanePlace(base + col // lanes, target, lane)
                origin = LanePlace(base + (col + shift) // lanes, source, from_lane)
                copy_chosen(view, to, origin, chosen, LaneChoice(np.int64(i), col), count, n)
                col += count


def exchange_along_columns(view: Any, sources: Any, chosen: Any, a: Any) -> None:
    """Move elements between PEs of each mesh column. A PE receives from at most one other PE.

    An exchange says from which row each row receives elements. Columns may execute different
    exchanges.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        sources: int32 ``[exchange, row]``: the row from which each row receives elements, or -1 if
            there is none.
        chosen: uint8 ``[exchange, column]``, nonzero for columns that execute the exchange.
        a: Operands: a[0] first row, a[1] rows, a[2] blocks per row, a[3] source address,
            a[4] target address, a[5] elements, a[7] columns.
    """
    for row in prange(a[0], a[0] + a[1]):
        per_row, lanes = a[2], view.shape[2]
        for kind in range(len(sources)):
            origin = np.int64(sources[kind, row])
            for first in range(0, a[7] if origin >= 0 else 0, lanes):
                block = first // lanes
                to = LanePlace(row * per_row + block, a[4], 0)
                start = LanePlace(origin * per_row + block, a[3], 0)
                copy_chosen(view, to, start, chosen, LaneChoice(kind, first), min(lanes, a[7] - first), a[5])
