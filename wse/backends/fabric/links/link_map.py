"""Words on links. A transfer loads rectangles of links, all links of a rectangle alike; difference arrays add them up.

A rectangle is a row of an int64 array ``[n, 9]``: plane, first row, one past the last, first column, one past the last,
words, times, row step, column step. It is there so many times, each time so many rows and columns on from the one
before. Links are numbered by the PE that they leave; what a plane stands for is the caller's: a direction of a wafer,
or one of a colour. The way of adding up, four corners a rectangle and one prefix sum over all of them, is that of
summed-area tables (Crow, SIGGRAPH 1984) turned round.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import I64

PLANE, ROW, END_ROW, COL, END_COL, WORDS, TIMES, ROW_STEP, COL_STEP = range(9)

Number = int | I64


def rectangles_of(
    plane: Number,
    row: Number,
    end_row: Number,
    col: Number,
    end_col: Number,
    words: Number,
    times: Number = 1,
    row_step: Number = 0,
    col_step: Number = 0,
) -> I64:
    """Return rectangles with links, int64 ``[n, 9]``; each side is int64 ``[n]`` or one number for all."""
    sides = (plane, row, end_row, col, end_col, words, times, row_step, col_step)
    rectangles = np.stack(np.broadcast_arrays(*map(np.atleast_1d, sides)), axis=1).astype(np.int64, copy=False)
    return rectangles[links_of(rectangles) > 0]


def links_of(rectangles: I64) -> I64:
    """Return the links of each rectangle over all its repetitions, int64 ``[n]``; 0 for rectangles without links."""
    rows, cols = rectangles[:, END_ROW] - rectangles[:, ROW], rectangles[:, END_COL] - rectangles[:, COL]
    return np.asarray(rows.clip(0) * cols.clip(0) * rectangles[:, TIMES], np.int64)


NOTHING: Final = rectangles_of(0, 0, 0, 0, 0, 0)


def one_by_one(rectangles: I64) -> I64:
    """Return the rectangles with each repetition as a rectangle of its own."""
    times = rectangles[:, TIMES]
    if times.max(initial=1) == 1:
        return rectangles
    apart = np.repeat(rectangles, times, axis=0)
    number = np.arange(len(apart)) - np.repeat(times.cumsum() - times, times)
    apart[:, ROW : COL + 2] += number[:, None] * apart[:, [ROW_STEP, ROW_STEP, COL_STEP, COL_STEP]]
    apart[:, TIMES] = 1
    return apart


def merge_repeats(rectangles: I64) -> I64:
    """Return the rectangles with equal ones at equal steps merged into one with repetitions."""
    width = rectangles[:, END_COL] - rectangles[:, COL]
    what = [width, *(rectangles[:, side] for side in (WORDS, END_ROW, ROW, PLANE))]
    order = np.lexsort((rectangles[:, COL], *what))
    ordered = rectangles[order]
    alike = np.logical_and.reduce([side[order][1:] == side[order][:-1] for side in what])
    step = np.where(alike, np.diff(ordered[:, COL]), 0)  # to the next
    goes_on = np.append([False, False], (step[1:] == step[:-1]) & (step[1:] > 0))[: len(ordered)]
    begins = ~goes_on
    begins[1:-1] &= ~(goes_on[2:] & begins[:-2])  # the second of those that go on
    first = np.flatnonzero(begins)
    found = ordered[first]
    found[:, TIMES] = np.diff(first, append=len(ordered))
    found[:, COL_STEP] = np.where(found[:, TIMES] > 1, np.append(step, 0)[first], 0)
    return found


def ends_of(rectangles: I64) -> tuple[int, int]:
    """Return one past the last row and one past the last column of any rectangle; 0 without rectangles."""
    later = (rectangles[:, TIMES, None] - 1) * rectangles[:, [ROW_STEP, COL_STEP]]
    end_row, end_col = (rectangles[:, [END_ROW, END_COL]] + later).max(axis=0, initial=0).tolist()
    return end_row, end_col


def link_map(rectangles: I64, planes: int, rows: int, cols: int, out: I64 | None = None) -> I64:
    """Return the words on every link, int64 ``[planes, rows, cols]``.

    Args:
        rectangles: int64 ``[n, 9]``, see the module; inside the map. One without links counts for nothing.
        planes: Planes of the map, such as one for each direction, or one for each colour and direction.
        rows: Rows of PEs.
        cols: Columns of PEs.
        out: C-contiguous int64 ``[planes, rows, cols]`` that takes the result, whatever it held before.
    """
    total = np.zeros((planes, rows, cols), np.int64) if out is None else out
    scratch = _scratch(rows, cols)
    for plane, inside in _by_plane(rectangles, planes):
        if len(inside):
            band, words = _bands(inside, scratch)
            np.take(words, band, axis=0, out=total[plane], mode="clip")
        elif out is not None:
            total[plane] = 0
    return total


def most_words(rectangles: I64) -> int:
    """Return the words on the busiest link."""
    return max((link.words for link in busiest_links(rectangles)), default=0)


class Link(NamedTuple):
    """A link of a map, and its words."""

    plane: int
    row: int
    col: int
    words: int


def busiest_links(rectangles: I64) -> list[Link]:
    """Return the first of the busiest links of each plane, the busiest first.

    Of planes that are loaded equally the first.
    """
    if not len(rectangles):
        return []
    scratch = _scratch(*ends_of(rectangles))
    inside: dict[bytes, tuple[int, I64]] = {}
    for plane, part in _by_plane(rectangles, int(rectangles[:, PLANE].max()) + 1):
        if len(part):
            inside.setdefault(part[:, ROW:].tobytes(), (plane, part))
    links = []
    for plane, part in inside.values():
        band, words = _bands(part, scratch)
        if words.size:
            top, col = divmod(int(words.argmax()), words.shape[1])
            links.append(Link(plane, int(np.searchsorted(band, top)), col, int(words[top, col])))
    return sorted(links, key=lambda link: -link.words)


def cached_most_words(rectangles: I64) -> int:
    """Return the words on the busiest link, cached for rectangles that differ by a translation only."""
    if not len(rectangles):
        return 0
    plane, row, _, col, *_ = rectangles.min(axis=0)
    moved = np.ascontiguousarray(rectangles - np.array([plane, row, row, col, col, 0, 0, 0, 0], np.int64))
    key = blake2b(moved.tobytes(), digest_size=16).digest()
    if key not in _KEPT:
        _KEPT[key] = most_words(moved)
    return _KEPT[key]


_KEPT: Final[dict[bytes, int]] = {}


def _by_plane(rectangles: I64, planes: int) -> list[tuple[int, I64]]:
    ordered = rectangles[np.argsort(rectangles[:, PLANE], kind="stable")]
    ends = np.searchsorted(ordered[:, PLANE], np.arange(planes + 1))
    return [(plane, ordered[ends[plane] : ends[plane + 1]]) for plane in range(planes)]


def _scratch(rows: int, cols: int) -> I64:
    """Return memory for the difference array of one plane, with an additional row for the ends."""
    return np.empty((rows + 1, cols), np.int64)


def _bands(rectangles: I64, scratch: I64) -> tuple[I64, I64]:
    """Return a plane as bands of equal rows: the band of each row, and words ``[bands, cols]`` in ``scratch``."""
    row, end_row, col, end_col, words = one_by_one(rectangles)[:, ROW:TIMES].T
    begins = np.zeros(len(scratch), np.int64)
    begins[row] = begins[end_row] = 1
    begins[0] = 0
    band = begins.cumsum()
    table = scratch[: int(band[-1]) + 1]
    table.fill(0)
    flat, cols = table.reshape(-1), table.shape[1]
    for line, added in ((band[row], words), (band[end_row], -words)):
        for place, change in ((col, added), (end_col, -added)):
            inside = place < cols
            np.add.at(flat, (line * cols + place)[inside], change[inside])
    for above, below in pairwise(table):
        below += above
    return band[:-1], table.cumsum(axis=1, out=table)


def scale_words(rectangles: I64, times: int) -> I64:
    """Return the rectangles with their words multiplied."""
    scaled = rectangles.copy()
    scaled[:, WORDS] *= times
    return scaled


def hops_of(rectangles: I64) -> int:
    """Return the sum of words times links over all rectangles."""
    return int(links_of(rectangles) @ rectangles[:, WORDS])
