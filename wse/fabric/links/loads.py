"""The rectangles of links that each transfer of a Program loads (see ``link_map`` for what a rectangle is)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.fabric.links.link_map import COL, END_COL, END_ROW, PLANE, ROW, WORDS
from wse.program.steps import ROWS
from wse.program.transfers.messages import EdgeStream, Translation
from wse_mappings.cuts.recut import RECEIVER, SENDER
from wse_mappings.mesh.placement import Rect
from wse_mappings.schedule import Arrival, LineSchedule

NORTH, EAST, SOUTH, WEST = range(4)
MOST_EXPANDED = 4_000_000  # messages that are expanded one by one before loads are summed by variant


def line_loads(pattern: LineSchedule, turns: int, words: int = 1) -> I64:
    """int64 ``[2, lines, length]``: words over the link that leaves each PE upward, then downward in index.

    Summed over ``turns`` turns of the pattern's loop. A message has ``words``, or its part of them.
    """
    carried = pattern.words_of_messages(words)
    lines, variants = pattern.variants.shape[1], len(pattern.first) - 1
    if variants == 1:  # all lines alike
        alone = turns * _expand(pattern, carried, np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
        return np.broadcast_to(alone, (2, lines, pattern.length))
    rounds = pattern.variants[np.arange(turns) % len(pattern.variants)]
    if int(np.diff(pattern.first)[rounds].sum()) <= MOST_EXPANDED:
        line = np.broadcast_to(np.arange(lines), rounds.shape)
        return _expand(pattern, carried, rounds.reshape(-1), line.reshape(-1), lines)
    alone = _expand(pattern, carried, np.arange(variants), np.arange(variants), variants)
    counts = np.zeros((lines, variants), np.int64)
    np.add.at(counts, (np.broadcast_to(np.arange(lines), rounds.shape), rounds), 1)
    distinct, which = np.unique(counts, axis=0, return_inverse=True)
    return np.stack([distinct @ alone[0], distinct @ alone[1]])[:, which]


def _expand(
    pattern: LineSchedule, carried: I64, variant: npt.NDArray[np.integer], line: npt.NDArray[np.integer], lines: int
) -> I64:
    """Loads of ``variant[i]`` on ``line[i]`` for all i."""
    counts = pattern.first[variant + 1] - pattern.first[variant]
    starts = np.repeat(pattern.first[variant] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    which = starts + np.arange(int(counts.sum()))
    message, words = pattern.messages[which], carried[which]
    at = np.repeat(line, counts)
    wire = message[:, 2] != Arrival.COPY
    source, target, at, words = message[wire, 0], message[wire, 1], at[wire], words[wire]
    change = np.zeros((2, lines, pattern.length + 2), np.int64)
    up = target > source
    np.add.at(change[0], (at[up], source[up]), words[up])
    np.add.at(change[0], (at[up], target[up]), -words[up])
    down = target < source
    np.add.at(change[1], (at[down], target[down] + 1), words[down])
    np.add.at(change[1], (at[down], source[down] + 1), -words[down])
    return np.asarray(change.cumsum(axis=2)[:, :, : pattern.length], np.int64)


def line_rectangles(loads: I64) -> I64:
    """The loads of a pattern as rectangles of a map of its own: planes up and down, a row a line, a column a place."""
    _, lines, length = loads.shape
    fresh = np.append(True, (loads[:, 1:] != loads[:, :-1]).any(axis=(0, 2)))  # lines unlike the one before
    first = np.flatnonzero(fresh)
    end = np.append(first[1:], lines)
    distinct = loads[:, first]
    before = np.concatenate([np.zeros_like(distinct[:, :, :1]), distinct[:, :, :-1]], axis=2)
    way, line, place = np.nonzero(distinct != before)
    same = (way[1:] == way[:-1]) & (line[1:] == line[:-1])
    end_place = np.append(np.where(same, place[1:], length), length)[: len(place)]
    rectangles = np.stack([way, first[line], end[line], place, end_place, distinct[way, line, place]], axis=1)
    return rectangles[rectangles[:, WORDS] > 0]


def pattern_rectangles(unit: I64, rect: Rect, axis: int, words: int, lines: range) -> I64:
    """Rectangles of a pattern on some lines of a region, each message of ``words`` words, in planes by direction."""
    low, high = np.clip(unit[:, ROW : END_ROW + 1].T, lines.start, lines.stop)
    inside = high > low
    unit, low, high = unit[inside], low[inside], high[inside]
    directions = np.array([EAST, WEST] if axis == ROWS else [SOUTH, NORTH])
    rectangles = np.empty_like(unit)
    rectangles[:, PLANE] = directions[unit[:, PLANE]]
    across, along = ((ROW, END_ROW), (COL, END_COL)) if axis == ROWS else ((COL, END_COL), (ROW, END_ROW))
    corner = (rect.row, rect.col) if axis == ROWS else (rect.col, rect.row)
    rectangles[:, across[0]], rectangles[:, across[1]] = low + corner[0], high + corner[0]
    rectangles[:, along[0]], rectangles[:, along[1]] = unit[:, COL] + corner[1], unit[:, END_COL] + corner[1]
    rectangles[:, WORDS] = unit[:, WORDS] * words
    return rectangles


def translation(source: Rect, target: Rect, messages: Translation) -> I64:
    """A hand-over, every PE along its row and then along its column.

    Where every column sends all pieces, neighbours are in one rectangle; else each column has its own pieces.
    """
    ends, words = messages.pieces[:, [SENDER, RECEIVER]], messages.words
    shift = target.col + messages.target_col - source.col - messages.source_col
    first_col = source.col + messages.source_col
    if messages.stride == 1:
        start = first_col + np.arange(messages.cols)
        return np.concatenate(
            [
                _along_rows(source, start, start + shift, ends, words),
                _along_columns(source, target, start + shift, ends, words),
            ]
        )
    turns = np.arange(-(-messages.cols // messages.stride)) * messages.stride
    columns = ends[:, 1, None] % messages.stride + turns  # [pieces, columns that send one]
    piece, turn = np.nonzero(columns < messages.cols)
    start = first_col + columns[piece, turn]
    down = _streams(SOUTH, NORTH, source.row + ends[piece, 0], target.row + ends[piece, 1], words[piece])
    down[:, [ROW, END_ROW]] = down[:, [COL, END_COL]]
    down[:, COL], down[:, END_COL] = start + shift, start + shift + 1
    across = _streams(EAST, WEST, start, start + shift, words[piece])
    across[:, ROW], across[:, END_ROW] = source.row + ends[piece, 0], source.row + ends[piece, 0] + 1
    rectangles = np.concatenate([across, down])
    return rectangles[(rectangles[:, COL] < rectangles[:, END_COL]) & (rectangles[:, ROW] < rectangles[:, END_ROW])]


def _along_rows(source: Rect, start: I64, end: I64, ends: I64, words: I64) -> I64:
    """Rectangles of pieces that columns of a region send along their rows to columns ``end``; equal rows in one."""
    sender, first = np.unique(ends[:, 0], return_index=True)
    sent = np.add.reduceat(words, first)
    fresh = np.flatnonzero(np.append(True, (np.diff(sent) != 0) | (np.diff(sender) > 1)))  # rows unlike the one before
    streams = _streams(EAST, WEST, start, end, 1)[start != end]
    rectangles = np.tile(streams, (len(fresh), 1))
    last = np.append(fresh[1:], len(sender)) - 1
    for side, row in ((ROW, sender[fresh]), (END_ROW, sender[last] + 1), (WORDS, sent[fresh])):
        rectangles[:, side] = np.repeat(row + (0 if side == WORDS else source.row), len(streams))
    return rectangles


def _along_columns(source: Rect, target: Rect, columns: I64, ends: I64, words: I64) -> I64:
    """Rectangles of pieces on their way down or up some columns of a region; neighbours in one."""
    from_row, to_row = source.row + ends[:, 0], target.row + ends[:, 1]
    down = _streams(SOUTH, NORTH, from_row, to_row, words)[from_row != to_row]
    down[:, [ROW, END_ROW]] = down[:, [COL, END_COL]]
    fresh = np.flatnonzero(np.append(True, np.diff(columns) > 1))
    rectangles = np.tile(down, (len(fresh), 1))
    rectangles[:, COL] = np.repeat(columns[fresh], len(down))
    rectangles[:, END_COL] = np.repeat(columns[np.append(fresh[1:], len(columns)) - 1] + 1, len(down))
    return rectangles


def _streams(up: int, down: int, start: I64, end: I64, words: int | I64) -> I64:
    """Rectangles of streams from ``start`` to ``end`` along columns, one each, their rows not yet set."""
    rectangles = np.zeros((len(start), 6), np.int64)
    rises = end > start
    rectangles[:, PLANE] = np.where(rises, up, down)
    rectangles[:, COL] = np.where(rises, start, end + 1)
    rectangles[:, END_COL] = np.where(rises, end, start + 1)
    rectangles[:, WORDS] = words
    return rectangles


def edge_streams(edge: EdgeStream) -> I64:
    """The words of every column on their way to the east edge of its region, or from its west edge."""
    rect, columns = edge.rect, edge.rect.col + edge.first_col + np.arange(edge.cols)
    rectangles = np.zeros((edge.cols, 6), np.int64)
    rectangles[:, PLANE] = EAST
    rectangles[:, ROW], rectangles[:, END_ROW] = rect.row + edge.first_row, rect.row + edge.first_row + edge.rows
    rectangles[:, COL] = columns if edge.leaving else rect.col
    rectangles[:, END_COL] = rect.col + rect.cols - 1 if edge.leaving else columns
    rectangles[:, WORDS] = edge.words
    return rectangles


def cache_shift(rect: Rect, passing: Sequence[int], words: int) -> I64:
    """The northward words of the last rows of a region, so many of them in each of some shifts."""
    bottom = rect.row + rect.rows
    over = np.bincount(passing)[:0:-1].cumsum()[::-1]  # shifts that the link from the last row takes part in, and so on
    ends = np.append(np.flatnonzero(np.diff(over)) + 1, len(over))
    rectangles = np.zeros((len(ends) if len(over) else 0, 6), np.int64)
    if len(rectangles):
        rectangles[:, PLANE], rectangles[:, COL], rectangles[:, END_COL] = NORTH, rect.col, rect.col + rect.cols
        rectangles[:, ROW], rectangles[:, END_ROW] = bottom - ends, bottom - np.append(0, ends[:-1])
        rectangles[:, WORDS] = words * over[ends - 1]
    return rectangles
