"""Transfer kernel for messages between the PEs of each mesh row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.jit import helper_function, prange
from wse_kernels.codegen.vectors import WIDTH
from wse_kernels.communication._delivery import Elements, deliver, fill_lanes
from wse_kernels.communication._transposed_rows import (
    TRANSPOSED_COLUMNS,
    add_transposed,
    copy_transposed,
    max_transposed,
    transpose_back,
    transpose_in,
    transposed_values,
)
from wse_kernels.operands.arrivals import ADD, DROP, MAX, MULTICAST

MIN_ROWS, MAX_ROWS, NEAR_ELEMENTS = 4, 8, 128
"""Limits for the number of mesh rows that execute a message together.

They execute at least MIN_ROWS and at most MAX_ROWS together, and otherwise as many as have
NEAR_ELEMENTS elements in total, which fit in the first-level cache. Each element has a cache line
of its own, together with those of neighbouring PEs, which the next messages use.
"""

PES_PER_MESSAGE = 8
"""Maximum number of transposed PEs per message for which the transposition pays off."""
ELEMENTS_AT_ONCE = 8
"""Number of elements whose sums are interleaved, because each sum waits for the one before it."""


def along_rows(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute messages between the PEs of each mesh row.

    A message sends elements from one PE to another. Its arrival code says what happens there: for
    example, they replace the stored elements or are added to them.

    1. Group up to sixteen consecutive rows that execute the same messages.
    2. Divide the messages into runs of sums (consecutive messages that add words, and the
       multicasts that follow them) and other messages.
    3. If a run of sums is long enough, execute it on transposed rows, for all rows of the group at
       once.
    4. Execute other messages one by one, in a few rows at a time.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        messages: int32 ``[m, 5]``: source PE, target PE, arrival code, first element, number of
            elements.
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Index of the list that each row executes.
        a: Operands: a[0] first row, a[1] rows, a[2] blocks per row, a[3] source address,
            a[4] target address, a[5] elements per PE. a[8] is 1 if every row ends with multicasts
            that overwrite all PEs with sums, else 0.
    """
    per_row, lanes, last = a[2], view.shape[2], a[0] + a[1]
    rows_at_once = min(max(MIN_ROWS, NEAR_ELEMENTS // max(1, a[5])), MAX_ROWS)
    for group in prange((a[1] + WIDTH - 1) // WIDTH):
        row = a[0] + group * WIDTH
        group_end = min(row + WIDTH, last)
        transposed = transposed_values(view)
        while row < group_end:
            # 1. Rows with the same messages.
            end_row = row + 1
            while end_row < group_end and variant[end_row] == variant[row]:
                end_row += 1
            i, end = np.int64(first[variant[row]]), np.int64(first[variant[row] + 1])
            while i < end:
                # 2. The next run of sums.
                run = _run_of_sums(messages, i, end)
                pays_off = (run.end - i) * PES_PER_MESSAGE > run.columns
                fits = run.columns + 2 * lanes + WIDTH <= TRANSPOSED_COLUMNS
                if pays_off and fits and run.end > i and a[3] == a[4]:  # 3
                    rows = _MeshRows(row * per_row, per_row, end_row - row)
                    fills = a[8]
                    _sums_on_transposed_rows(transposed, view, rows, messages, run, a[3], a[5], fills)
                    for j in range(i, run.end if fills == 1 else i):
                        if messages[j, 2] == MULTICAST:
                            for at in range(row, end_row):
                                _carry_along_rows(view, at * per_row, per_row, 1, messages, j, a[3], a[4])
                    i = run.end
                else:  # 4
                    end_message = max(run.end, i + 1)
                    while end_message < end and (messages[end_message, 2] != ADD and messages[end_message, 2] != MAX):
                        end_message += 1
                    for at in range(row, end_row, rows_at_once):
                        count = min(rows_at_once, end_row - at)
                        for j in range(i, end_message):
                            _carry_along_rows(view, at * per_row, per_row, count, messages, j, a[3], a[4])
                    i = end_message
            row = end_row


class _Run(NamedTuple):
    """Consecutive messages along a mesh row that form one operation: add up values, multicast the sum.

    Attributes:
        begin, end: Index of the first message, and index after the last message.
        west, columns: First mesh column that takes part, and number of columns that take part.
    """

    begin: int | np.int64
    end: int | np.int64
    west: int | np.int64
    columns: int | np.int64


class _MeshRows(NamedTuple):
    """Range of neighbouring mesh rows that all execute the same list of messages.

    Attributes:
        base: Index of the first block (group of neighbouring PEs) of the first row.
        per_row: Number of blocks per row.
        rows: Number of rows.
    """

    base: int
    per_row: int
    rows: int


@helper_function
def _run_of_sums(messages: Any, begin: Any, end: Any) -> Any:
    """Find the messages from ``begin`` on that `_sums_on_transposed_rows` can execute.

    These are messages whose words the target adds to its own or compares with them, and multicasts
    after the first message. The search stops at the first other message, or at message ``end``.

    Returns:
        The range of these messages, which may be empty, and the columns that take part.
    """
    west, east, i = np.int64(messages[begin, 0]), np.int64(messages[begin, 0]), begin
    while i < end:
        start, stop, arrival = np.int64(messages[i, 0]), np.int64(messages[i, 1]), messages[i, 2]
        if arrival != ADD and arrival != MAX and (arrival != MULTICAST or i == begin):
            break
        west, east = min(west, start, stop), max(east, start, stop)
        i += 1
    return _Run(begin, i, west, east - west + 1)


@helper_function
def _sums_on_transposed_rows(
    transposed: Any, view: Any, mesh_rows: Any, messages: Any, run: Any, address: int, n: int, fills: int
) -> None:
    """Execute a range of messages (sums, maxima and multicasts) along some mesh rows.

    Mesh rows are processed together, a few elements at a time:

    1. Transpose the elements of all columns of the run, so that those of several rows form a
       vector.
    2. Execute the messages on these vectors.
    3. Transpose the elements back, unless ``fills`` is 1.

    Args:
        transposed: Scratch array from `transposed_values`.
        view: SRAM of the region.
        mesh_rows: Rows that execute the messages.
        messages: All messages.
        run: Range of the messages to execute, and the columns that take part.
        address, n: Address of the first element on each PE, and number of elements.
        fills: 1 if the caller then copies each multicast sum to all PEs of the run. Only the sums
            are then written to SRAM, at the PEs that send them.
    """
    base, per_row, rows = mesh_rows
    i, end_message, west, columns = run
    lanes = view.shape[2]
    first_block, end_block = west // lanes, (west + columns - 1) // lanes + 1
    west = first_block * lanes  # round down to a whole block
    width = (end_block - first_block) * lanes
    at_once = max(1, min(TRANSPOSED_COLUMNS // (width + WIDTH), ELEMENTS_AT_ONCE))
    for low in range(0, n, at_once):
        high = min(low + at_once, n)
        for block in range(first_block, end_block):  # 1
            for lane in range(0, lanes, WIDTH):
                for e in range(low, high):
                    place = (block * lanes + lane - west) * at_once + e - low
                    transpose_in(transposed, place, at_once, view, base + block, per_row, rows, address + e, lane)
        for j in range(i, end_message):  # 2
            start, end, arrival = messages[j, 0] - west, messages[j, 1] - west, messages[j, 2]
            first_e, end_e = max(low, messages[j, 3]) - low, min(high, messages[j, 3] + messages[j, 4]) - low
            for e in range(first_e, end_e):
                if arrival == ADD:
                    add_transposed(transposed, end * at_once + e, start * at_once + e)
                elif arrival == MULTICAST and fills == 1:
                    block, lane = base + first_block + start // lanes, start % lanes
                    for row in range(rows):
                        value = transposed[(start * at_once + e) * WIDTH + row]
                        view[block + row * per_row, address + low + e, lane] = value
                elif arrival == MULTICAST:
                    for col in range(min(start, end), max(start, end) + 1):
                        copy_transposed(transposed, col * at_once + e, start * at_once + e)
                else:
                    max_transposed(transposed, end * at_once + e, start * at_once + e)
        for block in range(first_block, first_block if fills == 1 else end_block):  # 3
            for lane in range(0, lanes, WIDTH):
                for e in range(low, high):
                    place = (block * lanes + lane - west) * at_once + e - low
                    transpose_back(transposed, place, at_once, view, base + block, per_row, rows, address + e, lane)


@helper_function
def _carry_along_rows(
    view: Any, base: int, per_row: int, rows: int, messages: Any, i: int, source: int, target: int
) -> None:
    """Execute message ``i`` in ``rows`` mesh rows.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        base: First block of the first row.
        per_row: Blocks per row.
        rows: Number of rows.
        messages: int32 ``[m, 5]``: source PE, target PE, arrival code, first element, number of
            elements. The arrival code says what the target does with the elements, for example add
            them.
        i: Index of the message.
        source, target: Addresses of the first element at the sender and the receiver.
    """
    start, end, arrival, lanes = messages[i, 0], messages[i, 1], messages[i, 2], view.shape[2]
    source, target, n = source + messages[i, 3], target + messages[i, 3], messages[i, 4]
    sender, sender_lane = base + start // lanes, start % lanes
    if arrival == MULTICAST:
        west, east = min(start, end), max(start, end)
        for at in range(0, rows * per_row, per_row):
            fill_lanes(view, sender + at, sender_lane, source, base + at, west, east, target, n)
    elif arrival != DROP:
        to = Elements(base + end // lanes, end % lanes, target)
        deliver(view, Elements(sender, sender_lane, source), to, n, arrival, rows, per_row)
