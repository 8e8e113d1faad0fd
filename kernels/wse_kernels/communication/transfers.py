"""Transfer kernels: messages between PEs, shifts of KV-cache entries, and copies between regions.

A message goes from PE ``source`` to PE ``target`` of a line (a row or column of PEs) over the links
between them. The arrival code says what happens at the target:

- 0: replace the stored elements.
- 1: add to them.
- 2: keep the larger element.
- 3: keep the (value, index) pair with the larger value, or with the lower index on a tie.
- 4 (multicast): replace the elements at the target and at every PE on the way.
- 5: copy locally, without the fabric.
- 6: drop the message.

Messages are executed in their order, which is also the order of every sum.

``links`` counts words, int64 ``[direction, row, col]``, where the directions are north, east,
south, west and (row, col) is the PE that the word leaves. Only kernels whose messages depend on the
contents of SRAM count words. For all others `wse.backends.execute.calls.line_loads` knows the words
in advance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.jit import helper_function, prange
from wse_kernels.codegen.vectors import WIDTH
from wse_kernels.communication._arrivals import ADD, COPY, DROP, MAX, MULTICAST
from wse_kernels.communication._delivery import Elements, deliver, deliver_lanes, fill_lanes
from wse_kernels.communication._moved_rows import fetch_rows
from wse_kernels.communication._transposed_rows import (
    TRANSPOSED_COLUMNS,
    add_transposed,
    copy_transposed,
    max_transposed,
    transpose_back,
    transpose_in,
    transposed_values,
)

NORTH, EAST, SOUTH, WEST = 0, 1, 2, 3

MIN_ROWS, MAX_ROWS, NEAR_ELEMENTS = 4, 8, 128
"""Limits for the number of mesh rows that execute a message together.

They execute at least MIN_ROWS and at most MAX_ROWS together, and otherwise as many as have
NEAR_ELEMENTS elements in all, which fit in the first-level cache. Each element has a cache line of
its own, together with those of neighbouring PEs, which the next messages use.
"""

PES_PER_MESSAGE = 8
"""Maximum number of transposed PEs per message for which the transposition pays off."""
ELEMENTS_AT_ONCE = 8
"""Number of elements whose sums are interleaved, because each sum waits for the one before it."""
PREFETCH_MESSAGES = 4
"""Number of messages along a column after which prefetched targets are used."""
MAX_PIECES = 8
"""Maximum number of pieces of rows or elements that are distributed over CPU cores."""


def along_rows(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute messages between the PEs of each mesh row.

    A message sends elements from one PE to another. Its arrival code says what happens there: for
    example, they replace the stored elements or are added to them.

    1. Group up to sixteen consecutive rows that execute the same messages.
    2. Divide the messages into runs of sums, including the multicasts that follow them, and other
       messages.
    3. If a run of sums is long enough, execute it on transposed rows, for all rows of the group at
       once.
    4. Execute other messages one by one, in a few rows at a time.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        messages: int32 ``[m, 5]``: source PE, target PE, arrival code, first element, number of
            elements.
        first: Index of the first message of each list of messages, and the end of the last list.
        variant: Index of the list that each row executes.
        a: Operands: 0 first row, 1 rows, 2 blocks per row, 3 source address, 4 target address, 5
            elements per PE. 8 is 1 if every row ends with multicasts that overwrite all PEs with
            sums, else 0.
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
    """Consecutive messages that compute sums along a mesh row, with the multicasts after them.

    Attributes:
        begin, end: First message, and index after the last message.
        west, columns: First column that takes part, and number of columns.
    """

    begin: int | np.int64
    end: int | np.int64
    west: int | np.int64
    columns: int | np.int64


class _MeshRows(NamedTuple):
    """Consecutive mesh rows that execute the same messages.

    Attributes:
        base: First block (group of neighbouring PEs) of the first row.
        per_row: Blocks per row.
        rows: Number of rows.
    """

    base: int
    per_row: int
    rows: int


@helper_function
def _run_of_sums(messages: Any, begin: Any, end: Any) -> Any:
    """Return the longest run of sums (with multicasts after them) that starts at message ``begin``.

    The run ends before message ``end`` and may be empty.
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
    """Execute a run of sums in place on transposed rows, a few elements at a time.

    1. Transpose the elements of all columns of the run.
    2. Execute the messages.
    3. Transpose the elements back, unless ``fills`` is 1.

    Args:
        transposed: Scratch array from `transposed_values`.
        view, mesh_rows: SRAM; rows that execute the messages.
        messages, run: All messages; range of the messages to execute.
        address, n: Address of the elements, and their number.
        fills: 1 if multicasts will overwrite all PEs of the run. Then only the sums that are
            multicast are written back.
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
        view: SRAM of the region, ``[block, address, lane]``.
        base, per_row, rows: First block of the first row; blocks per row; number of rows.
        messages, i: Table of messages, as in `along_rows`; index of the message.
        source, target: Addresses of the first element at the sender and at the receiver.
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


def along_columns(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute messages between the PEs of each mesh column.

    The work is divided over CPU cores in one of two ways:

    - If the messages are sent from and received at addresses that do not overlap, each core has
      some mesh rows: the same rows as in other kernels, so that their data are in its caches. Every
      core then goes through all messages.
    - Otherwise, each core has some of the elements.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        messages: int32 ``[m, 5]``: source row, target row, arrival code, first element, number of
            elements.
        first: Index of the first message of each list of messages, and the end of the last list.
        variant: Index of the list that each column executes.
        a: Operands 0 to 5 of `along_rows`. 6 is 1 if columns execute different lists, or 0 if all
            of them execute list ``variant[0]``. 7 is the number of columns.
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
    """Execute all messages in the columns of one block, as far as they arrive in certain rows.

    Args:
        view, messages, first, variant, a: Arguments of `along_columns`.
        column_block: Index of the block of neighbouring PEs within a row.
        north, south: First row whose PEs receive, and the row after the last one.
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
    """Execute the messages of one mesh column, which may differ from those of neighbouring columns.

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
        links: Number of words on each link, ``[direction, row, col]``, which is added to.
        messages: int32 ``[m, 3]``: source row, target row, arrival code.
        first: Index of the first message of each list of messages, and the end of the last list.
        variant: Index of the list that all columns execute, as its first element.
        a: Operands 0 to 4 and 7 of `along_columns`; 5 elements per unit of the count, 8 bytes per
            element, 9 address of the count, 10 maximum count, 11 elements of a message with count
            0.
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
                _count_column_words(links, start, end, col, col + 1, (n * element_bytes + 3) // 4)


@helper_function
def _count_column_words(links: Any, start: int, end: int, west: int, east: int, words: int) -> None:
    """Count the words of a message on all links from row ``start`` to row ``end``.

    The message is sent in each of the columns ``west`` to ``east`` - 1.

    Args:
        links: Number of words on each link, ``[direction, row, col]``, which is added to.
        start, end: Rows of the sender and of the receiver.
        west, east: First column, and column after the last one.
        words: Number of words of the message.
    """
    for row in range(start, end):
        for col in range(west, east):
            links[SOUTH, row, col] += words
    for row in range(end + 1, start + 1):
        for col in range(west, east):
            links[NORTH, row, col] += words


def cache_shift(view: Any, links: Any, ctl: Any, a: Any) -> None:
    """Move the oldest KV-cache entry of a row one row up, wherever ``ctl`` says so (words 5 and 6).

    Word 5 of a row is the slot that it passes up, or -1. Word 6 of the row above is the slot that
    receives the entry. Rows are processed from north to south, so a slot is passed on before it is
    overwritten.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        links: Number of words on each link, ``[direction, row, col]``, which is added to.
        ctl: Counters of each row, ``[row, word]``.
        a: Operands: 0 rows, 1 blocks per row, 2 cache address, 3 elements per entry, 4 words per
            entry, 5 columns.
    """
    rows, per_row, cache, n, words, columns = a[0], a[1], a[2], a[3], a[4], a[5]
    lanes = view.shape[2]
    for column_block in prange(per_row):
        west = column_block * lanes
        east = min(west + lanes, columns)
        for row in range(1, rows):
            if ctl[row, 5] >= 0:
                source, target = cache + ctl[row, 5] * n, cache + ctl[row - 1, 6] * n
                for e in range(n):
                    for lane in range(lanes):
                        view[(row - 1) * per_row + column_block, target + e, lane] = view[
                            row * per_row + column_block, source + e, lane
                        ]
                for col in range(west, east):
                    links[NORTH, row, col] += words


def hand_over(source_view: Any, target_view: Any, links: Any, pieces: Any, words: Any, a: Any) -> None:
    """Copy parts of weight tiles from the PEs of one region to the PEs of another region.

    The words travel along the row first, then along the column.

    Args:
        source_view, target_view: SRAM of both regions.
        links: Number of words on each link of the whole mesh, which is added to.
        pieces: int64 ``[n, 5]``: source row, target row, first element in the source tile, first
            element in the target tile, number of elements.
        words: int64 ``[n]``: words of each piece on the links; 0 if it does not travel over the
            mesh.
        a: Operands: 0 vectors per tile, 1 source blocks per row, 2 target blocks per row, 3 source
            address, 4 target address, 5 elements of a vector in a source tile, 6 first source
            column, 7 first target column, 8 columns, 9 elements of a vector in a target tile, 10
            and 11 row and column of the source region, 12 and 13 row and column of the target
            region, 14 stride. Target row j takes part in columns j % stride, j % stride + stride
            and so on.
    """
    lanes_from, lanes_to = source_view.shape[2], target_view.shape[2]
    for piece in prange(len(pieces)):
        source_row, target_row, first, place, n = pieces[piece]
        for c in range(target_row % a[14], a[8], a[14]):
            col_from, col_to = a[6] + c, a[7] + c
            sender, receiver = source_row * a[1] + col_from // lanes_from, target_row * a[2] + col_to // lanes_to
            for vector in range(a[0]):
                source, target = a[3] + vector * a[5] + first, a[4] + vector * a[9] + place
                for e in range(n):
                    target_view[receiver, target + e, col_to % lanes_to] = source_view[
                        sender, source + e, col_from % lanes_from
                    ]
    for piece in range(len(pieces)):
        row = a[10] + pieces[piece, 0]
        for c in range(pieces[piece, 1] % a[14], a[8], a[14]):
            start, end = a[11] + a[6] + c, a[13] + a[7] + c
            for col in range(start, end):
                links[EAST, row, col] += words[piece]
            for col in range(end + 1, start + 1):
                links[WEST, row, col] += words[piece]
            _count_column_words(links, row, a[12] + pieces[piece, 1], end, end + 1, words[piece])
