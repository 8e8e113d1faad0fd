"""Exchanges along lines: every PE of a row or column gets the words of one PE of it at the most, all at once.

What is sent is not where anything arrives, so that no order matters. Operands are those of `wse_kernels.transfers`: 0
first row, 1 rows, 2 blocks a row, 3 source address, 4 target address, 5 elements; 7 is the number of columns.
"""

from __future__ import annotations

from typing import Any

from wse_kernels._chosen_lanes import copy_chosen
from wse_kernels._jit import prange


def exchange_along_rows(view: Any, runs: Any, first: Any, chosen: Any, variant: Any, a: Any) -> None:
    """An exchange along each mesh row; row r does variant v = ``variant[r]``, runs ``first[v]`` to ``first[v + 1]``.

    ``runs`` int32 ``[run, 3]`` are (shift, first column, end): the columns c that uint8 ``chosen[run]`` marks get what
    column c + shift sends.
    """
    for row in prange(a[0], a[0] + a[1]):
        base, lanes, source, target, n, kind = row * a[2], view.shape[2], a[3], a[4], a[5], variant[row]
        for i in range(first[kind], first[kind + 1]):
            shift, col, end = runs[i, 0], runs[i, 1], runs[i, 2]
            while col < end:  # as far as both blocks go
                lane, from_lane = col % lanes, (col + shift) % lanes
                count = min(end - col, lanes - max(lane, from_lane))
                block, from_block = base + col // lanes, base + (col + shift) // lanes
                copy_chosen(view, block, target, lane, from_block, source, from_lane, chosen, i, col, count, n)
                col += count


def exchange_along_columns(view: Any, sources: Any, chosen: Any, a: Any) -> None:
    """An exchange along each mesh column; column c does variant v where uint8 ``chosen[v, c]`` is not 0.

    Row r of such a column gets what row ``sources[v, r]`` sends, int32, nothing from -1.
    """
    for row in prange(a[0], a[0] + a[1]):
        per_row, lanes = a[2], view.shape[2]
        for kind in range(len(sources)):
            origin = sources[kind, row]
            for first in range(0, a[7] if origin >= 0 else 0, lanes):
                block = first // lanes
                to, start, count = row * per_row + block, origin * per_row + block, min(lanes, a[7] - first)
                copy_chosen(view, to, a[4], 0, start, a[3], 0, chosen, kind, first, count, a[5])
