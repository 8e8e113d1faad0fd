"""Transfer kernels for messages between the PEs of each mesh column."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.jit import helper_function, prange
from wse_kernels.communication._delivery import Elements, deliver, deliver_lanes
from wse_kernels.communication._link_words import count_column_words
from wse_kernels.communication._moved_rows import fetch_rows
from wse_kernels.operands.arrivals import COPY, DROP, MULTICAST

PREFETCH_MESSAGES = 4
"""Number of messages between prefetching a target on a column and using it."""
MAX_PIECES = 8
"""Maximum number of pieces of rows or elements that are distributed across CPU cores."""


def along_columns(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute messages between the PEs of each mesh column.

    A message sends elements from one PE to another. Its arrival code says what happens there: for
    example, they replace the stored elements or are added to them.

    The work is divided among CPU cores in one of two ways:

    - If the source and target addresses of the messages do not overlap, each core handles some mesh
      rows: the same rows as in other kernels, so that their data are in the core's caches. Every
      core then goes through all messages.
    - Otherwise, each core handles some of the elements.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        messages: int32 ``[m, 5]``: source row, target row, arrival code, first element, number of
            elements.
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Index of the list that each column executes.
        a: Operands: a[2] blocks per row, a[3] source address, a[4] target address, a[5] elements
            per PE, a[6] 1 if columns execute different lists or 0 if all columns execute list
            ``variant[0]``, a[7] columns.
    """
    per_row, n, by_column, rows = a[2], a[5], a[6], view.shape[0] // a[2]
    are_apart = by_column == 0 and (a[3] + n <= a[4] or a[4] + n <= a[3])
    pairs = (n + 1) // 2
    pieces = min(MAX_PIECES, max(2, n)) if are_apart else min(pairs, max(1, MAX_PIECES // per_row))
    jobs = a[7] if by_column == 1 else pieces if are_apart else per_row * pieces
    for job in prange(jobs):
        if by_column == 1:
            _carry_in_column(view, messages, first, variant, a, job)
        elif are_apart:
            north, south = rows * job // pieces, rows * (job + 1) // pieces
            for column_block in range(per_row):
                _carry_in_block(view, messages, first, variant, a, column_block, north, south, 0, n)
        else:
            piece = job % pieces
            low, high = 2 * (pairs * piece // pieces), min(n, 2 * (pairs * (piece + 1) // pieces))
            _carry_in_block(view, messages, first, variant, a, job // pieces, 0, rows, low, high)


@helper_function
def _carry_in_block(
    view: Any,
    messages: Any,
    first: Any,
    variant: Any,
    a: Any,
    column_block: int,
    north: int,
    south: int,
    low: int,
    high: int,
) -> None:
    """Execute messages along the columns of one block of PEs, but write only to a range of rows.

    Jobs with different ranges of rows or elements can run on different CPU cores.

    Args:
        view, messages, first, variant, a: Arguments of `along_columns`.
        column_block: Index of the block (group of neighbouring PEs) within each row.
        north, south: First row to write to, and the row after the last one.
        low, high: First element to transfer, and the index after the last one.
    """
    per_row, source, target, last = a[2], a[3], a[4], first[variant[0] + 1]
    for i in range(first[variant[0]], last):
        start, end, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
        row = start if arrival == MULTICAST else end
        if (row < north and end < north) or (row >= south and end >= south) or arrival == DROP:
            continue
        begin, stop = max(low, messages[i, 3]), min(high, messages[i, 3] + messages[i, 4])
        next_row = messages[min(i + PREFETCH_MESSAGES, last - 1), 1]
        if north <= next_row < south:
            fetch_rows(view, next_row * per_row + column_block, target + begin, stop - begin)
        if begin < stop:
            step, start_row, end_row = 1, max(row, north), min(end + 1, south)
            if end < start:
                step, start_row, end_row = -1, min(row, south - 1), max(end, north) - 1
            sender = start * per_row + column_block
            for at in range(start_row, end_row, step):
                receiver = at * per_row + column_block
                deliver_lanes(view, sender, source + begin, receiver, target + begin, stop - begin, arrival)


@helper_function
def _carry_in_column(view: Any, messages: Any, first: Any, variant: Any, a: Any, col: int) -> None:
    """Execute the messages along a single mesh column, PE by PE.

    This is needed if the columns of a block of PEs execute different lists of messages.

    Args:
        view, messages, first, variant, a: Arguments of `along_columns`.
        col: Index of the column.
    """
    per_row, lanes, source, target = a[2], view.shape[2], a[3], a[4]
    column_block, lane = col // lanes, col % lanes
    for i in range(first[variant[col]], first[variant[col] + 1]):
        start, end, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
        sender = start * per_row + column_block
        if arrival != DROP:
            step = 1 if end >= start else -1
            for row in range(start if arrival == MULTICAST else end, end + step, step):
                receiver = row * per_row + column_block
                e, count = messages[i, 3], messages[i, 4]
                origin, to = Elements(sender, lane, source + e), Elements(receiver, lane, target + e)
                deliver(view, origin, to, count, arrival, 1, 0)


def along_columns_counted(
    view: Any, count_view: Any, links: Any, messages: Any, first: Any, variant: Any, a: Any
) -> None:
    """Execute messages between the PEs of each mesh column whose length depends on a stored count.

    A message sends a[11] + count * a[5] elements, where count is read from the SRAM of its sender
    and limited to a[10]. They replace the elements of the receiver, are added to them, or replace
    the elements of all PEs on the way (multicast).

    Args:
        view, count_view: SRAM with the elements, and its float32 view with the counts.
        links: Number of words on each link, ``[direction, row, col]``, incremented in place.
        messages: int32 ``[m, 3]``: source row, target row, arrival code.
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Array whose first element is the index of the list that all columns execute.
        a: Operands: a[2] blocks per row, a[3] source address, a[4] target address, a[5] elements
            per unit of the count, a[7] columns, a[8] bytes per element, a[9] address of the count,
            a[10] maximum count, a[11] elements of a message with count 0.
    """
    per_row, lanes, source, target, unit, columns = a[2], view.shape[2], a[3], a[4], a[5], a[7]
    element_bytes, count, max_count, without_pairs = a[8], a[9], a[10], a[11]
    for col in prange(columns):
        column_block, lane = col // lanes, col % lanes
        for i in range(first[variant[0]], first[variant[0] + 1]):
            start, end, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
            sender = start * per_row + column_block
            n = without_pairs + min(max(np.int64(count_view[sender, count, lane]), 0), max_count) * unit
            step = 1 if end >= start else -1
            for row in range(start if arrival == MULTICAST else end, end + step, step):
                receiver = row * per_row + column_block
                origin, to = Elements(sender, lane, source), Elements(receiver, lane, target)
                deliver(view, origin, to, n, arrival, 1, 0)
            if arrival != COPY:
                count_column_words(links, start, end, col, col + 1, (n * element_bytes + 3) // 4)
