"""Words on links, by difference arrays: each message adds at its first link and takes away after its last."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse.program import ROWS
from wse_mappings.placement import Rect
from wse_mappings.schedule import Arrival, LineSchedule

I64 = npt.NDArray[np.int64]
NORTH, EAST, SOUTH, WEST = range(4)
MOST_EXPANDED = 4_000_000  # messages that are expanded one by one before loads are summed by variant


def line_loads(pattern: LineSchedule, turns: int) -> I64:
    """int64 ``[2, lines, length]``: messages over the link that leaves each PE upward, then downward in index.

    Summed over ``turns`` turns of the pattern's loop.
    """
    lines = pattern.variants.shape[1]
    rounds = pattern.variants[np.arange(turns) % len(pattern.variants)]
    per_variant = np.diff(pattern.first)
    if int(per_variant[rounds].sum()) <= MOST_EXPANDED:
        line = np.broadcast_to(np.arange(lines), rounds.shape)
        return _expanded(pattern, rounds.reshape(-1), line.reshape(-1), lines)
    variants = len(per_variant)
    alone = _expanded(pattern, np.arange(variants), np.arange(variants), variants)
    counts = np.zeros((lines, variants), np.int64)
    np.add.at(counts, (np.broadcast_to(np.arange(lines), rounds.shape), rounds), 1)
    return np.stack([counts @ alone[0], counts @ alone[1]])


def _expanded(
    pattern: LineSchedule, variant: npt.NDArray[np.integer], line: npt.NDArray[np.integer], lines: int
) -> I64:
    """Loads of ``variant[i]`` on ``line[i]`` for all i."""
    counts = pattern.first[variant + 1] - pattern.first[variant]
    starts = np.repeat(pattern.first[variant] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    message = pattern.messages[starts + np.arange(int(counts.sum()))]
    at = np.repeat(line, counts)
    wire = message[:, 2] != Arrival.KEEP
    source, target, at = message[wire, 0], message[wire, 1], at[wire]
    change = np.zeros((2, lines, pattern.length + 2), np.int64)
    up = target > source
    np.add.at(change[0], (at[up], source[up]), 1)
    np.add.at(change[0], (at[up], target[up]), -1)
    down = target < source
    np.add.at(change[1], (at[down], target[down] + 1), 1)
    np.add.at(change[1], (at[down], source[down] + 1), -1)
    return change.cumsum(axis=2)[:, :, : pattern.length]


def add_line(links: I64, rect: Rect, axis: int, loads: I64, words: int, first_row: int, rows: int) -> None:
    """Add a LINE step's loads to the links ``[4, mesh rows, mesh cols]`` of a wafer, on some rows of a region."""
    if axis == ROWS:
        top = rect.row + first_row
        area = (slice(top, top + rows), slice(rect.col, rect.col + rect.cols))
        links[(EAST, *area)] += words * loads[0, first_row : first_row + rows]
        links[(WEST, *area)] += words * loads[1, first_row : first_row + rows]
    else:
        area = (slice(rect.row, rect.row + rect.rows), slice(rect.col, rect.col + rect.cols))
        links[(SOUTH, *area)] += words * loads[0].T
        links[(NORTH, *area)] += words * loads[1].T


def add_translation(
    links: I64, source: Rect, target: Rect, source_col: int, target_col: int, cols: int, words: int
) -> int:
    """Add a hand-over, every PE along its row and then along its column. Returns the most words on one link."""
    change = np.zeros((4, links.shape[1] + 1, links.shape[2] + 1), np.int64)
    rows = source.rows
    dr = target.row - source.row
    for col in range(cols):
        start, end = source.col + source_col + col, target.col + target_col + col
        top = source.row
        if end > start:
            change[EAST, top : top + rows, start] += words
            change[EAST, top : top + rows, end] -= words
        elif end < start:
            change[WEST, top : top + rows, end + 1] += words
            change[WEST, top : top + rows, start + 1] -= words
    moved = np.zeros_like(links)
    moved[EAST] = change[EAST].cumsum(axis=1)[:-1, :-1]
    moved[WEST] = change[WEST].cumsum(axis=1)[:-1, :-1]
    low = target.col + target_col
    for row in range(rows if dr else 0):
        start, end = source.row + row, target.row + row
        if end > start:
            moved[SOUTH, start:end, low : low + cols] += words
        else:
            moved[NORTH, end + 1 : start + 1, low : low + cols] += words
    links += moved
    return int(moved.max())


def add_edge_streams(
    links: I64, rect: Rect, first_row: int, rows: int, cols: int, words: int, *, leaving: bool
) -> None:
    """Add what columns 0 to ``cols - 1`` of some rows send to the east edge of a region, or get from its west edge."""
    if cols <= 1:
        return
    passing = np.arange(1, cols) if leaving else np.arange(cols - 1, 0, -1)
    top = rect.row + first_row
    links[EAST, top : top + rows, rect.col : rect.col + cols - 1] += words * passing


def add_cache_shift(links: I64, rect: Rect, passing: int, words: int) -> None:
    """Add the northward words of the last ``passing`` rows of a region."""
    if passing:
        bottom = rect.row + rect.rows
        links[NORTH, bottom - passing : bottom, rect.col : rect.col + rect.cols] += words
