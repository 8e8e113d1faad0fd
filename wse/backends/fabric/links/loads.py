"""Links that the words of each type of transfer use.

Links with equal word counts form rectangles (see ``link_map.rectangles_of``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.fabric.links.link_map import (
    COL,
    COL_STEP,
    END_COL,
    END_ROW,
    NOTHING,
    PLANE,
    ROW,
    TIMES,
    WORDS,
    merge_repeats,
    rectangles_of,
)
from wse.program.steps import ROWS
from wse.program.transfers.messages import EdgeStream, Translation
from wse_mappings.cuts.split import RECEIVER, SENDER
from wse_mappings.mesh.placement import Rect
from wse_mappings.outcome import words_on_links
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST
from wse_mappings.schedule import LineSchedule

MAX_EXPANDED = 4_000_000  # maximum number of messages that are expanded one by one; more are summed by variant


def line_loads(pattern: LineSchedule, iterations: int, words: int = 1) -> I64:
    """Return the word counts of the links along each line, summed over the iterations of a loop.

    Args:
        pattern: Communication pattern that runs on the lines.
        iterations: Number of iterations of the loop.
        words: Number of words per PE. A message that carries only one part of them sends fewer.

    Returns:
        int64 ``[2, lines, length]``: words on the link from each PE towards the next higher index,
        then towards the next lower index.
    """
    lines, variants = pattern.variants.shape[1], len(pattern.first) - 1
    if variants == 1:  # all lines have equal loads
        variant_loads = iterations * words_on_links(pattern, words, np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
        return np.broadcast_to(variant_loads, (2, lines, pattern.length))
    rounds = pattern.variants[np.arange(iterations) % len(pattern.variants)]
    if int(np.diff(pattern.first)[rounds].sum()) <= MAX_EXPANDED:
        line = np.broadcast_to(np.arange(lines), rounds.shape)
        return words_on_links(pattern, words, rounds.reshape(-1), line.reshape(-1), lines)
    variant_loads = words_on_links(pattern, words, np.arange(variants), np.arange(variants), variants)
    counts = np.zeros((lines, variants), np.int64)
    np.add.at(counts, (np.broadcast_to(np.arange(lines), rounds.shape), rounds), 1)
    distinct, counts_of_line = np.unique(counts, axis=0, return_inverse=True)
    return np.stack([distinct @ variant_loads[0], distinct @ variant_loads[1]])[:, counts_of_line]


def line_rectangles(loads: I64) -> I64:
    """Summarise the word counts of many links as rectangles of links with equal counts.

    The links belong to lines (rows or columns) of PEs. Consecutive links with equal counts form one
    rectangle, together with those of neighbouring lines that have the same counts.

    Args:
        loads: int64 ``[2, lines, length]``, from `line_loads`.

    Returns:
        Rectangles of a map with one row per line and one column per PE.
    """
    _, lines, length = loads.shape
    is_new = np.append(True, (loads[:, 1:] != loads[:, :-1]).any(axis=(0, 2)))  # lines that differ from the one before
    first = np.flatnonzero(is_new)
    end = np.append(first[1:], lines)
    distinct = loads[:, first]
    loads_before = np.concatenate([np.zeros_like(distinct[:, :, :1]), distinct[:, :, :-1]], axis=2)
    direction, line, place = np.nonzero(distinct != loads_before)
    in_same_line = (direction[1:] == direction[:-1]) & (line[1:] == line[:-1])
    end_place = np.append(np.where(in_same_line, place[1:], length), length)[: len(place)]
    rectangles = rectangles_of(direction, first[line], end[line], place, end_place, distinct[direction, line, place])
    return merge_repeats(rectangles[rectangles[:, WORDS] > 0])


def pattern_rectangles(unit: I64, rect: Rect, axis: int, words: int, lines: range) -> I64:
    """Return the links that a pattern uses on given rows or columns of a region, as rectangles.

    Args:
        unit: Rectangles of links, from `line_rectangles`, for messages of one word.
        rect: Rectangle of the region.
        axis: ROWS or COLUMNS, the direction of the lines.
        words: Number of words per message.
        lines: Indices of the lines.
    """
    low, high = np.clip(unit[:, ROW : END_ROW + 1].T, lines.start, lines.stop)
    is_inside = high > low
    unit, low, high = unit[is_inside], low[is_inside], high[is_inside]
    directions = np.array([EAST, WEST] if axis == ROWS else [SOUTH, NORTH])
    plane, (place, end_place), times = directions[unit[:, PLANE]], unit[:, COL : END_COL + 1].T, unit[:, TIMES]
    row, end_row, col, end_col = (low, high, place, end_place) if axis == ROWS else (place, end_place, low, high)
    row_step, col_step = (0, unit[:, COL_STEP]) if axis == ROWS else (unit[:, COL_STEP], 0)
    sides = (row + rect.row, end_row + rect.row, col + rect.col, end_col + rect.col)
    return rectangles_of(plane, *sides, unit[:, WORDS] * words, times, row_step, col_step)


def translation(source: Rect, target: Rect, messages: Translation) -> I64:
    """Return the links that a transfer to another region of the same wafer uses, as rectangles.

    Words travel along rows and then along columns. Each piece of a vector is sent by every
    ``stride``-th column of PEs; the links of these columns form one repeated rectangle.

    Args:
        source: Sending region.
        target: Receiving region.
        messages: Pieces of the vectors: which row sends how many words to which row.
    """
    sender, receiver = messages.pieces[:, SENDER], messages.pieces[:, RECEIVER]
    stride, columns, words = messages.stride, messages.columns, messages.words
    start = source.col + messages.source_col + receiver % stride  # first column that sends a piece
    end = start + target.col + messages.target_col - source.col - messages.source_col
    width, times = (columns, 1) if stride == 1 else (1, columns)  # neighbouring columns form one wide rectangle
    goes_south, low, high = _links(source.row + sender, target.row + receiver)
    along_columns = rectangles_of(
        np.where(goes_south, SOUTH, NORTH), low, high, end, end + width, words, times, 0, stride
    )
    return np.concatenate([_along_rows(source, start, end, messages), along_columns])


def _along_rows(source: Rect, start: I64, end: I64, messages: Translation) -> I64:
    """Return the links along rows that a transfer to another region uses, as rectangles.

    A transfer sends vectors in pieces. The words of all pieces that a PE sends are added up.
    Consecutive rows that send equal numbers of words form one rectangle of links with equal word
    counts.

    Args:
        source: Sending region.
        start, end: First sending column of each piece, and the column to which its words travel.
        messages: Pieces of the vectors.
    """
    line = start * (source.rows + 1) + messages.pieces[:, SENDER]  # one number per start column and sending row
    lines, first, line_of_piece = np.unique(line, return_index=True, return_inverse=True)
    sent_words = np.zeros(len(lines), np.int64)
    np.add.at(sent_words, line_of_piece, messages.words)
    group_start = np.flatnonzero(
        np.append(True, (np.diff(sent_words) != 0) | (np.diff(lines) > 1))
    )  # first of equal lines
    last = np.append(group_start[1:], len(lines)) - 1
    row, end_row = (source.row + messages.pieces[first[places], SENDER] for places in (group_start, last))
    piece = first[group_start]
    goes_east, low, high = _links(start[piece], end[piece])
    plane, columns = np.where(goes_east, EAST, WEST), messages.columns[piece]
    return rectangles_of(plane, row, end_row + 1, low, high, sent_words[group_start], columns, 0, messages.stride)


def _links(start: I64, end: I64) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """Return the range of links on each of several paths along a row or column of PEs.

    Args:
        start, end: int64 ``[n]``: index of the first and last PE of each path.

    Returns:
        Whether the words travel towards higher indices, the first PE whose link they use, and one
        past the last.
    """
    rises = end > start
    return rises, np.where(rises, start, end + 1), np.where(rises, end, start + 1)


def edge_streams(edge: EdgeStream) -> I64:
    """Return the links of a region that words to or from another wafer use, with their words.

    Words leave a wafer at its east edge and enter the next wafer at its west edge. The words that a
    column of PEs sends therefore use all links from this column to the east edge of the region. The
    words that it receives use all links from the west edge to the column.

    Returns:
        One rectangle of links for each participating column; see `rectangles_of`.
    """
    rect, columns = edge.rect, edge.rect.col + edge.first_col + np.arange(edge.cols)
    row = rect.row + edge.first_row
    col, end_col = (columns, rect.col + rect.cols - 1) if edge.leaving else (rect.col, columns)
    return rectangles_of(EAST, row, row + edge.rows, col, end_col, edge.words)


def cache_shift(rect: Rect, passing: Sequence[int], words: int) -> I64:
    """Return the links that several cache shifts use, as rectangles with equal word counts.

    In a cache shift, the PEs of the last rows of a region send a KV-cache entry one row north.

    Args:
        rect: Rectangle of the region.
        passing: For each shift, the number of sending rows, which are the last rows of the region.
        words: Number of words that a PE sends per shift.
    """
    bottom = rect.row + rect.rows
    shift_counts = np.bincount(passing)[:0:-1].cumsum()[::-1]  # shifts in which at least 1, 2, 3, ... rows send
    if not len(shift_counts):
        return NOTHING
    ends = np.append(np.flatnonzero(np.diff(shift_counts)) + 1, len(shift_counts))
    row, end_row = bottom - ends, bottom - np.append(0, ends[:-1])
    return rectangles_of(NORTH, row, end_row, rect.col, rect.col + rect.cols, words * shift_counts[ends - 1])
