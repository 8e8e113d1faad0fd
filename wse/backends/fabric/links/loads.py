"""The rectangles of links that each transfer of a Program loads (see ``link_map`` for what a rectangle is)."""

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
from wse_mappings.cuts.recut import RECEIVER, SENDER
from wse_mappings.link_words import words_on_links
from wse_mappings.mesh.placement import Rect
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST
from wse_mappings.schedule import LineSchedule

MOST_EXPANDED = 4_000_000  # messages that are expanded one by one before loads are summed by variant


def line_loads(pattern: LineSchedule, turns: int, words: int = 1) -> I64:
    """Return the words on the links that leave each PE in ascending, then in descending index, int64 ``[2, lines,
    length]``.

    Summed over ``turns`` turns of the pattern's loop. A message has ``words``, or its part of them.
    """
    lines, variants = pattern.variants.shape[1], len(pattern.first) - 1
    if variants == 1:  # all lines alike
        alone = turns * words_on_links(pattern, words, np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
        return np.broadcast_to(alone, (2, lines, pattern.length))
    rounds = pattern.variants[np.arange(turns) % len(pattern.variants)]
    if int(np.diff(pattern.first)[rounds].sum()) <= MOST_EXPANDED:
        line = np.broadcast_to(np.arange(lines), rounds.shape)
        return words_on_links(pattern, words, rounds.reshape(-1), line.reshape(-1), lines)
    alone = words_on_links(pattern, words, np.arange(variants), np.arange(variants), variants)
    counts = np.zeros((lines, variants), np.int64)
    np.add.at(counts, (np.broadcast_to(np.arange(lines), rounds.shape), rounds), 1)
    distinct, which = np.unique(counts, axis=0, return_inverse=True)
    return np.stack([distinct @ alone[0], distinct @ alone[1]])[:, which]


def line_rectangles(loads: I64) -> I64:
    """Return the loads of a pattern as rectangles of a map with one row per line and one column per place."""
    _, lines, length = loads.shape
    fresh = np.append(True, (loads[:, 1:] != loads[:, :-1]).any(axis=(0, 2)))  # lines unlike the one before
    first = np.flatnonzero(fresh)
    end = np.append(first[1:], lines)
    distinct = loads[:, first]
    before = np.concatenate([np.zeros_like(distinct[:, :, :1]), distinct[:, :, :-1]], axis=2)
    way, line, place = np.nonzero(distinct != before)
    same = (way[1:] == way[:-1]) & (line[1:] == line[:-1])
    end_place = np.append(np.where(same, place[1:], length), length)[: len(place)]
    rectangles = rectangles_of(way, first[line], end[line], place, end_place, distinct[way, line, place])
    return merge_repeats(rectangles[rectangles[:, WORDS] > 0])


def pattern_rectangles(unit: I64, rect: Rect, axis: int, words: int, lines: range) -> I64:
    """Return the rectangles of a pattern on some lines of a region, with ``words`` per message."""
    low, high = np.clip(unit[:, ROW : END_ROW + 1].T, lines.start, lines.stop)
    inside = high > low
    unit, low, high = unit[inside], low[inside], high[inside]
    directions = np.array([EAST, WEST] if axis == ROWS else [SOUTH, NORTH])
    plane, (place, end_place), times = directions[unit[:, PLANE]], unit[:, COL : END_COL + 1].T, unit[:, TIMES]
    row, end_row, col, end_col = (low, high, place, end_place) if axis == ROWS else (place, end_place, low, high)
    row_step, col_step = (0, unit[:, COL_STEP]) if axis == ROWS else (unit[:, COL_STEP], 0)
    sides = (row + rect.row, end_row + rect.row, col + rect.col, end_col + rect.col)
    return rectangles_of(plane, *sides, unit[:, WORDS] * words, times, row_step, col_step)


def translation(source: Rect, target: Rect, messages: Translation) -> I64:
    """Return the rectangles of a transfer to another region, along rows and then along columns.

    Columns that send the same pieces are ``stride`` apart; what they send is one rectangle, as often as there are such
    columns.
    """
    sender, receiver = messages.pieces[:, SENDER], messages.pieces[:, RECEIVER]
    stride, columns, words = messages.stride, messages.columns, messages.words
    start = source.col + messages.source_col + receiver % stride  # of the first column that sends a piece
    end = start + target.col + messages.target_col - source.col - messages.source_col
    width, times = (columns, 1) if stride == 1 else (1, columns)  # neighbours are side by side
    down, low, high = _links(source.row + sender, target.row + receiver)
    along_columns = rectangles_of(np.where(down, SOUTH, NORTH), low, high, end, end + width, words, times, 0, stride)
    return np.concatenate([_along_rows(source, start, end, messages), along_columns])


def _along_rows(source: Rect, start: I64, end: I64, messages: Translation) -> I64:
    """Return the rectangles of pieces along the rows of a region, from columns ``start`` to ``end``.

    The pieces of a PE go together, and rows are in one rectangle with those before them that send as much.
    """
    line = start * (source.rows + 1) + messages.pieces[:, SENDER]  # rows of PEs that send in the same columns
    lines, first, which = np.unique(line, return_index=True, return_inverse=True)
    sent = np.zeros(len(lines), np.int64)
    np.add.at(sent, which, messages.words)
    fresh = np.flatnonzero(np.append(True, (np.diff(sent) != 0) | (np.diff(lines) > 1)))  # lines unlike the one before
    last = np.append(fresh[1:], len(lines)) - 1
    row, end_row = (source.row + messages.pieces[first[places], SENDER] for places in (fresh, last))
    piece = first[fresh]
    east, low, high = _links(start[piece], end[piece])
    plane, columns = np.where(east, EAST, WEST), messages.columns[piece]
    return rectangles_of(plane, row, end_row + 1, low, high, sent[fresh], columns, 0, messages.stride)


def _links(start: I64, end: I64) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """Return the links of streams along lines: whether each ascends in index, and the first and last PE that they
    leave.
    """
    rises = end > start
    return rises, np.where(rises, start, end + 1), np.where(rises, end, start + 1)


def edge_streams(edge: EdgeStream) -> I64:
    """Return the words of every column on the path to the east edge of its region, or from its west edge."""
    rect, columns = edge.rect, edge.rect.col + edge.first_col + np.arange(edge.cols)
    row = rect.row + edge.first_row
    col, end_col = (columns, rect.col + rect.cols - 1) if edge.leaving else (rect.col, columns)
    return rectangles_of(EAST, row, row + edge.rows, col, end_col, edge.words)


def cache_shift(rect: Rect, passing: Sequence[int], words: int) -> I64:
    """Return the northward words of the last rows of a region, for several cache shifts."""
    bottom = rect.row + rect.rows
    over = np.bincount(passing)[:0:-1].cumsum()[::-1]  # shifts that the link from the last row takes part in, and so on
    if not len(over):
        return NOTHING
    ends = np.append(np.flatnonzero(np.diff(over)) + 1, len(over))
    row, end_row = bottom - ends, bottom - np.append(0, ends[:-1])
    return rectangles_of(NORTH, row, end_row, rect.col, rect.col + rect.cols, words * over[ends - 1])
