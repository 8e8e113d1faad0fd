"""Transfer kernels that copy KV-cache entries to the row above, and vectors to another region."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.jit import prange
from wse_kernels.communication._link_words import EAST, NORTH, WEST, count_column_words


def cache_shift(view: Any, links: Any, ctl: Any, a: Any) -> None:
    """Move the oldest KV-cache entry of some mesh rows to the row above.

    The counters ``ctl`` say which rows take part. Word 5 of a row is the slot of the entry that the
    row sends, or -1 if it sends none. Word 6 of the row above is the slot that receives the entry.
    Rows are processed from north to south, so each slot is read before it is overwritten.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        links: Number of words on each link, ``[direction, row, col]``, incremented in place.
        ctl: Token and cache counters, ``[row, word]``.
        a: Operands: a[0] rows, a[1] blocks per row, a[2] cache address, a[3] elements per entry,
            a[4] words per entry, a[5] columns.
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
    """Copy pieces of vectors from the PEs of one region to the PEs of another region.

    The words travel along the row first, then along the column.

    Args:
        source_view, target_view: SRAM of both regions.
        links: Number of words on each link of the whole mesh, incremented in place.
        pieces: int64 ``[n, 5]``: source row, target row, first element in the source tile, first
            element in the target tile, number of elements.
        words: int64 ``[n]``: words of each piece on the links; 0 if it does not travel over the
            mesh.
        a: Operands: a[0] vectors per tile, a[1] source blocks per row, a[2] target blocks per row,
            a[3] source address, a[4] target address, a[5] elements of a vector in a source tile,
            a[6] first source column, a[7] first target column, a[8] columns, a[9] elements of a
            vector in a target tile, a[10] and a[11] row and column of the source region,
            a[12] and a[13] row and column of the target region, a[14] stride. Target row j takes
            part in columns j % stride, j % stride + stride and so on.
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
            count_column_words(links, row, a[12] + pieces[piece, 1], end, end + 1, words[piece])
