"""Moving words between PEs: the messages of a pattern along rows or columns, cache shifts, hand-offs.

A message goes from PE ``source`` to PE ``target`` of a line over the links between them. What happens on
arrival: 0 replaces, 1 adds, 2 takes the larger, 3 takes the (value, index) pair with the larger value and on a tie
the lower index, 4 replaces there and at every PE passed (multicast), 5 copies locally without the fabric, 6 is
dropped. Messages are executed in their order, which is the order of every sum.

``links`` counts words, int64 ``[direction, row, col]`` with the directions north, east, south, west of the PE
that the word leaves: kernels whose messages depend on what PEs store add the words of each to the links it crosses, as
it moves. Of the others `wse.backends.execute.line_loads` knows the words beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._arrivals import ADD, COPY, DROP, MAX, MULTICAST
from wse_kernels._delivery import deliver, deliver_lanes, fill_lanes
from wse_kernels._jit import helper_function, prange
from wse_kernels._moved_rows import fetch_rows
from wse_kernels._turned_rows import (
    TURNED_COLUMNS,
    add_turned,
    copy_turned,
    take_larger_turned,
    turn_back,
    turn_in,
    turned_values,
)
from wse_kernels._vectors import WIDTH

NORTH, EAST, SOUTH, WEST = 0, 1, 2, 3

LEAST_ROWS, MOST_ROWS, NEAR_ELEMENTS = 4, 8, 128
"""Rows of the mesh that execute a message one after another, and elements of them that stay in the nearest cache.

An element is on a line of the cache of its own, with those of neighbouring PEs, which the next messages take.
"""

PES_A_MESSAGE = 8
"""Most PEs that are turned for each message of a run of sums: what one takes pays for so many."""
ELEMENTS_AT_ONCE = 8
"""Elements of which sums are taken at once: each waits for the one before it."""
MESSAGES_AHEAD = 4
"""Messages along columns before which what they arrive at is fetched."""
PIECES = 8
"""Into how many pieces at the most rows, or the PEs of a row and their elements, are cut, to be spread over cores."""


def along_rows(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Messages between the PEs of each mesh row.

    ``messages`` int32 ``[m, 5]`` are (source, target, arrival, first element, elements); row r executes those from
    ``first[v]`` to ``first[v + 1]``, v = ``variant[r]``. Operands: 0 first row, 1 rows, 2 blocks a row, 3 source
    address, 4 target address (elements of ``view``), 5 elements of all parts, 8 whether multicasts end what every row
    does and leave nothing of what was there before on PEs that have sums or send to them.

    Rows that execute the same messages do so together, sixteen at the most; long runs of sums, with the multicasts
    behind them, on turned rows.
    """
    per_row, lanes, last = a[2], view.shape[2], a[0] + a[1]
    few = min(max(LEAST_ROWS, NEAR_ELEMENTS // max(1, a[5])), MOST_ROWS)
    for group in prange((a[1] + WIDTH - 1) // WIDTH):
        row = a[0] + group * WIDTH
        group_end = min(row + WIDTH, last)
        turned = turned_values(view)
        while row < group_end:  # as many rows as execute the same messages
            end_row = row + 1
            while end_row < group_end and variant[end_row] == variant[row]:
                end_row += 1
            i, end = int(first[variant[row]]), int(first[variant[row] + 1])
            while i < end:
                run, west, columns = _run_of_sums(messages, i, end)
                turns = (run - i) * PES_A_MESSAGE > columns and columns + 2 * lanes + WIDTH <= TURNED_COLUMNS
                if turns and run > i and a[3] == a[4]:
                    base, rows = row * per_row, end_row - row
                    fills = a[8]
                    _turned_sums(turned, view, base, per_row, rows, messages, i, run, west, columns, a[3], a[5], fills)
                    for j in range(i, run if fills == 1 else i):
                        if messages[j, 2] == MULTICAST:
                            for at in range(row, end_row):
                                _carry_along_rows(view, at * per_row, per_row, 1, messages, j, a[3], a[4])
                else:
                    run = max(run, i + 1)
                    while run < end and (messages[run, 2] != ADD and messages[run, 2] != MAX):
                        run += 1
                    for at in range(row, end_row, few):
                        rows = min(few, end_row - at)
                        for j in range(i, run):
                            _carry_along_rows(view, at * per_row, per_row, rows, messages, j, a[3], a[4])
                i = run
            row = end_row


@helper_function
def _run_of_sums(messages: Any, i: int, end: int) -> Any:
    """The end of a run of sums from message i on with the multicasts behind them, its first column, and its columns."""
    west, east, begin = np.int64(messages[i, 0]), np.int64(messages[i, 0]), i
    while i < end:
        start, stop, arrival = np.int64(messages[i, 0]), np.int64(messages[i, 1]), messages[i, 2]
        if arrival != ADD and arrival != MAX and (arrival != MULTICAST or i == begin):
            break
        west, east = min(west, start, stop), max(east, start, stop)
        i += 1
    return i, west, east - west + 1


@helper_function
def _turned_sums(
    turned: Any,
    view: Any,
    base: int,
    per_row: int,
    rows: int,
    messages: Any,
    i: int,
    run: int,
    west: int,
    columns: int,
    address: int,
    n: int,
    fills: int,
) -> None:
    """Carry out messages i to ``run``, in place, in rows from that of block ``base`` on, few elements at once.

    Where ``fills`` is 1, the multicasts fill all that is turned: here it is only put where they take it from.
    """
    lanes = view.shape[2]
    first_block, end_block = west // lanes, (west + columns - 1) // lanes + 1
    west = first_block * lanes  # of whole blocks
    width = (end_block - first_block) * lanes
    at_once = max(1, min(TURNED_COLUMNS // (width + WIDTH), ELEMENTS_AT_ONCE))
    for low in range(0, n, at_once):
        high = min(low + at_once, n)
        for block in range(first_block, end_block):
            for lane in range(0, lanes, WIDTH):
                for e in range(low, high):
                    place = (block * lanes + lane - west) * at_once + e - low
                    turn_in(turned, place, at_once, view, base + block, per_row, rows, address + e, lane)
        for j in range(i, run):
            start, end, arrival = messages[j, 0] - west, messages[j, 1] - west, messages[j, 2]
            begin, stop = max(low, messages[j, 3]) - low, min(high, messages[j, 3] + messages[j, 4]) - low
            for e in range(begin, stop):
                if arrival == ADD:
                    add_turned(turned, end * at_once + e, start * at_once + e)
                elif arrival == MULTICAST and fills == 1:
                    block, lane = base + first_block + start // lanes, start % lanes
                    for row in range(rows):
                        value = turned[(start * at_once + e) * WIDTH + row]
                        view[block + row * per_row, address + low + e, lane] = value
                elif arrival == MULTICAST:
                    for col in range(min(start, end), max(start, end) + 1):
                        copy_turned(turned, col * at_once + e, start * at_once + e)
                else:
                    take_larger_turned(turned, end * at_once + e, start * at_once + e)
        for block in range(first_block, first_block if fills == 1 else end_block):
            for lane in range(0, lanes, WIDTH):
                for e in range(low, high):
                    place = (block * lanes + lane - west) * at_once + e - low
                    turn_back(turned, place, at_once, view, base + block, per_row, rows, address + e, lane)


@helper_function
def _carry_along_rows(
    view: Any, base: int, per_row: int, rows: int, messages: Any, i: int, source: int, target: int
) -> None:
    """Carry out message i in some rows, whose blocks begin with ``base`` and are ``per_row`` apart."""
    start, end, arrival, lanes = messages[i, 0], messages[i, 1], messages[i, 2], view.shape[2]
    source, target, n = source + messages[i, 3], target + messages[i, 3], messages[i, 4]
    sender, sender_lane = base + start // lanes, start % lanes
    if arrival == MULTICAST:
        west, east = min(start, end), max(start, end)
        for at in range(0, rows * per_row, per_row):
            fill_lanes(view, sender + at, sender_lane, source, base + at, west, east, target, n)
    elif arrival != DROP:
        receiver, lane = base + end // lanes, end % lanes
        deliver(view, sender, sender_lane, source, receiver, lane, target, n, arrival, rows, per_row)


def along_columns(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Messages between the PEs of each mesh column.

    As ``along_rows``; here sources and targets are rows, all columns of one block execute the same variant when
    ``a[6]`` is 0, and column c executes ``variant[c]`` when it is 1. Operands 0 to 5 as there, with the rows of the
    messages counted from 0; 7 is the number of columns.

    Where nothing arrives at what is sent, each core has rows of its own, those whose blocks it works on in other
    kernels too: else what it wrote would have to come from the other cores' caches. Each goes through all messages, so
    few elements are worth few pieces. Otherwise each has elements of its own.
    """
    per_row, n, by_column, rows = a[2], a[5], a[6], view.shape[0] // a[2]
    are_apart = by_column == 0 and (a[3] + n <= a[4] or a[4] + n <= a[3])
    pairs = (n + 1) // 2
    pieces = min(PIECES, max(2, n)) if are_apart else min(pairs, max(1, PIECES // per_row))
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
    """Carry out what arrives in all columns of a block, in rows from ``north`` to before ``south``."""
    per_row, source, target, last = a[2], a[3], a[4], first[variant[0] + 1]
    for i in range(first[variant[0]], last):
        start, end, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
        row = start if arrival == MULTICAST else end
        if (row < north and end < north) or (row >= south and end >= south) or arrival == DROP:
            continue
        begin, stop = max(low, messages[i, 3]), min(high, messages[i, 3] + messages[i, 4])
        ahead = messages[min(i + MESSAGES_AHEAD, last - 1), 1]
        if north <= ahead < south:
            fetch_rows(view, ahead * per_row + column_block, target + begin, stop - begin)
        if begin < stop:
            step, near, behind = 1, max(row, north), min(end + 1, south)
            if end < start:
                step, near, behind = -1, min(row, south - 1), max(end, north) - 1
            sender = start * per_row + column_block
            for at in range(near, behind, step):
                receiver = at * per_row + column_block
                deliver_lanes(view, sender, source + begin, receiver, target + begin, stop - begin, arrival)


@helper_function
def _carry_in_column(view: Any, messages: Any, first: Any, variant: Any, a: Any, col: int) -> None:
    """Carry out the messages of one column."""
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
                deliver(view, sender, lane, source + e, receiver, lane, target + e, count, arrival, 1, 0)


def along_columns_counted(
    view: Any, count_view: Any, links: Any, messages: Any, first: Any, variant: Any, a: Any
) -> None:
    """Messages between the PEs of each mesh column, as long as the column's count says.

    As ``along_columns`` with the variant of column 0 on all; arrivals replace, add or multicast. ``messages`` int32
    ``[m, 3]`` are (source, target, arrival): a message has operand 11 elements, and so many times those of operand 5 as
    its sender finds at address 9 of ``count_view`` (float32), at most operand 10 times; operand 8 is the bytes of an
    element.
    """
    per_row, lanes, source, target, unit, columns = a[2], view.shape[2], a[3], a[4], a[5], a[7]
    element_bytes, count, most, without_pairs = a[8], a[9], a[10], a[11]
    for col in prange(columns):
        column_block, lane = col // lanes, col % lanes
        for i in range(first[variant[0]], first[variant[0] + 1]):
            start, end, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
            sender = start * per_row + column_block
            n = without_pairs + min(max(np.int64(count_view[sender, count, lane]), 0), most) * unit
            step = 1 if end >= start else -1
            for row in range(start if arrival == MULTICAST else end, end + step, step):
                receiver = row * per_row + column_block
                deliver(view, sender, lane, source, receiver, lane, target, n, arrival, 1, 0)
            if arrival != COPY:
                _count_column_words(links, start, end, col, col + 1, (n * element_bytes + 3) // 4)


@helper_function
def _count_column_words(links: Any, start: int, end: int, west: int, east: int, words: int) -> None:
    """Count the words of a message from row ``start`` to ``end`` of each column from ``west`` to before ``east``."""
    for row in range(start, end):
        for col in range(west, east):
            links[SOUTH, row, col] += words
    for row in range(end + 1, start + 1):
        for col in range(west, east):
            links[NORTH, row, col] += words


def cache_shift(view: Any, links: Any, ctl: Any, a: Any) -> None:
    """Rows pass their oldest cache entry one row up, where ``ctl`` says so (words 5 and 6).

    Operands: 0 rows, 1 blocks a row, 2 cache address, 3 elements of an entry, 4 words of an entry, 5 columns.
    Rows are taken from north to south, so that a slot is sent on before it is filled anew.
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
    """Copy pieces of tiles from PEs of one region to those of another, along the row first and then along the column.

    ``links`` covers the whole mesh. ``pieces`` int64 ``[n, 5]`` are: source row, target row, first element in the
    source's tile, first in the target's, elements; ``words`` int64 ``[n]`` those of each on the wire, 0 when the way is
    not over the mesh. Operands: 0 vectors of a tile, 1 source blocks a row, 2 target blocks a row, 3 source address,
    4 target address, 5 elements of a vector in a source tile, 6 first source column, 7 first target column, 8 columns,
    9 elements of a vector in a target tile, 10 and 11 row and column of the source region, 12 and 13 those of the
    target, 14 stride: target row j takes part in columns j % stride, j % stride + stride and so on.
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
