"""Words on links, represented by rectangles of links with equal word counts.

A rectangle is a row of an int64 array ``[n, 9]``: plane, first row, one past the last row, first
column, one past the last column, words, times, row step, column step. It is repeated ``times``
times, each time moved by the row step and the column step. A link has the row and column of the PE
that it leaves. The caller defines the planes, for example one per direction of a wafer, or one per
colour and direction.

Rectangles are added up with difference arrays: four corners per rectangle, then one prefix sum over
all of them. This is the inverse of summed-area tables (Crow, SIGGRAPH 1984).
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
    """Return rectangles of links with equal word counts, int64 ``[n, 9]``, omitting empty ones.

    Such rectangles are a compact description of the words on many links. A rectangle consists of
    the links that leave a rectangle of PEs in one direction. It may be repeated ``times`` times,
    each time moved by ``row_step`` and ``col_step``. Each argument is int64 ``[n]``, or one number
    for all rectangles.

    Args:
        plane: Index of the set of links to which the rectangle belongs, such as all links to the
            east.
        row, end_row, col, end_col: Rows and columns of the PEs that the links leave; ends are
            exclusive.
        words: Number of words on each link.
        times, row_step, col_step: Number of repetitions, and the distance from one to the next.

    Returns:
        One row per rectangle, with the arguments as columns.
    """
    sides = (plane, row, end_row, col, end_col, words, times, row_step, col_step)
    rectangles = np.stack(np.broadcast_arrays(*map(np.atleast_1d, sides)), axis=1).astype(np.int64, copy=False)
    return rectangles[links_of(rectangles) > 0]


def links_of(rectangles: I64) -> I64:
    """Return the number of links in each rectangle of links, int64 ``[n]``.

    If a rectangle is repeated, the links of all repetitions are counted.
    """
    rows, cols = rectangles[:, END_ROW] - rectangles[:, ROW], rectangles[:, END_COL] - rectangles[:, COL]
    return np.asarray(rows.clip(0) * cols.clip(0) * rectangles[:, TIMES], np.int64)


NOTHING: Final = rectangles_of(0, 0, 0, 0, 0, 0)


def one_by_one(rectangles: I64) -> I64:
    """Replace each repeated rectangle of links by one rectangle for each repetition."""
    times = rectangles[:, TIMES]
    if times.max(initial=1) == 1:
        return rectangles
    repeated = np.repeat(rectangles, times, axis=0)
    number = np.arange(len(repeated)) - np.repeat(times.cumsum() - times, times)
    repeated[:, ROW : COL + 2] += number[:, None] * repeated[:, [ROW_STEP, ROW_STEP, COL_STEP, COL_STEP]]
    repeated[:, TIMES] = 1
    return repeated


def merge_repeats(rectangles: I64) -> I64:
    """Merge identical rectangles of links into repeated ones if they are evenly spaced along a row.

    A repeated rectangle has a number of repetitions and the distance from one to the next.

    Returns:
        The merged rectangles, which represent the same links, sorted by width, words and position.
    """
    width = rectangles[:, END_COL] - rectangles[:, COL]
    sort_keys = [width, *(rectangles[:, side] for side in (WORDS, END_ROW, ROW, PLANE))]
    order = np.lexsort((rectangles[:, COL], *sort_keys))
    ordered = rectangles[order]
    equal_to_previous = np.logical_and.reduce([side[order][1:] == side[order][:-1] for side in sort_keys])
    step = np.where(equal_to_previous, np.diff(ordered[:, COL]), 0)  # distance to the next equal rectangle
    continues = np.append([False, False], (step[1:] == step[:-1]) & (step[1:] > 0))[: len(ordered)]
    begins = ~continues
    begins[1:-1] &= ~(continues[2:] & begins[:-2])  # the second rectangle of a run begins no run of its own
    first = np.flatnonzero(begins)
    found = ordered[first]
    found[:, TIMES] = np.diff(first, append=len(ordered))
    found[:, COL_STEP] = np.where(found[:, TIMES] > 1, np.append(step, 0)[first], 0)
    return found


def ends_of(rectangles: I64) -> tuple[int, int]:
    """Return the size of the smallest map that contains all given rectangles of links.

    Returns:
        Number of rows and number of columns of the map, which begins at PE (0, 0). Both are 0 if
        there are no rectangles.
    """
    repeat_offsets = (rectangles[:, TIMES, None] - 1) * rectangles[:, [ROW_STEP, COL_STEP]]
    end_row, end_col = (rectangles[:, [END_ROW, END_COL]] + repeat_offsets).max(axis=0, initial=0).tolist()
    return end_row, end_col


def link_map(rectangles: I64, planes: int, rows: int, cols: int, out: I64 | None = None) -> I64:
    """Return the word count of every link, int64 ``[planes, rows, cols]``.

    Args:
        rectangles: int64 ``[n, 9]``, rectangles of links with equal word counts, from
            `rectangles_of`. Rectangles without links are ignored; all others must be inside the
            map.
        planes: Number of sets of links, such as one per direction, or one per colour and direction.
        rows, cols: Number of rows and columns of PEs.
        out: C-contiguous int64 ``[planes, rows, cols]`` for the result. Its old content is
            overwritten.
    """
    total = np.zeros((planes, rows, cols), np.int64) if out is None else out
    scratch = _scratch(rows, cols)
    for plane, plane_rectangles in _by_plane(rectangles, planes):
        if len(plane_rectangles):
            band, words = _bands(plane_rectangles, scratch)
            np.take(words, band, axis=0, out=total[plane], mode="clip")
        elif out is not None:
            total[plane] = 0
    return total


def max_link_words(rectangles: I64) -> int:
    """Return the number of words on the busiest link of some rectangles of links."""
    return max((link.words for link in busiest_links(rectangles)), default=0)


class Link(NamedTuple):
    """Link that leaves a PE in one direction, with the number of words on it.

    Attributes:
        plane: Plane of the map of links, such as wafer * 4 + direction.
        row, col: Position of the PE.
        words: Number of words on the link.
    """

    plane: int
    row: int
    col: int
    words: int


def busiest_links(rectangles: I64) -> list[Link]:
    """Return the busiest link of each plane, in order of decreasing traffic.

    A plane is a set of links, such as all links in one direction. If several links of a plane have
    the most words, the first one is returned. If planes have identical rectangles, only the first
    plane is included.
    """
    if not len(rectangles):
        return []
    scratch = _scratch(*ends_of(rectangles))
    distinct_planes: dict[bytes, tuple[int, I64]] = {}
    for plane, part in _by_plane(rectangles, int(rectangles[:, PLANE].max()) + 1):
        if len(part):
            distinct_planes.setdefault(part[:, ROW:].tobytes(), (plane, part))
    links = []
    for plane, part in distinct_planes.values():
        band, words = _bands(part, scratch)
        if words.size:
            top, col = divmod(int(words.argmax()), words.shape[1])
            links.append(Link(plane, int(np.searchsorted(band, top)), col, int(words[top, col])))
    return sorted(links, key=lambda link: -link.words)


def cached_max_link_words(rectangles: I64) -> int:
    """Return the number of words on the busiest link, from a cache if possible.

    Args:
        rectangles: Rectangles of links with their words. The same rectangles at another position
            have the same result, so the position is not part of the cache key.
    """
    if not len(rectangles):
        return 0
    plane, row, _, col, *_ = rectangles.min(axis=0)
    at_origin = np.ascontiguousarray(rectangles - np.array([plane, row, row, col, col, 0, 0, 0, 0], np.int64))
    key = blake2b(at_origin.tobytes(), digest_size=16).digest()
    if key not in _MAX_WORDS:
        _MAX_WORDS[key] = max_link_words(at_origin)
    return _MAX_WORDS[key]


_MAX_WORDS: Final[dict[bytes, int]] = {}
"""Word count of the busiest link, keyed by a hash of the rectangles moved to the origin."""


def _by_plane(rectangles: I64, planes: int) -> list[tuple[int, I64]]:
    """Sort rectangles of links by plane, and return a (plane, rectangles) pair for each plane.

    A plane contains, for example, the links of one direction. A plane may have no rectangles.
    """
    ordered = rectangles[np.argsort(rectangles[:, PLANE], kind="stable")]
    ends = np.searchsorted(ordered[:, PLANE], np.arange(planes + 1))
    return [(plane, ordered[ends[plane] : ends[plane + 1]]) for plane in range(planes)]


def _scratch(rows: int, cols: int) -> I64:
    """Return uninitialised memory for the words of one plane, with one more row than the map.

    A plane is a set of links, such as all links in one direction. The additional row is needed for
    rectangles that end at the last row of the map.
    """
    return np.empty((rows + 1, cols), np.int64)


def _bands(rectangles: I64, scratch: I64) -> tuple[I64, I64]:
    """Add up the words of overlapping rectangles, once for each run of rows with equal words.

    A plane is a set of links, such as all links in one direction. Consecutive rows have equal word
    counts and form a run if no rectangle begins or ends between them.

    Args:
        rectangles: Rectangles of links in the plane.
        scratch: int64 ``[rows + 1, cols]``: memory for the result.

    Returns:
        int64 ``[rows]``, the index of the run to which each row belongs; and int64 ``[runs,
        cols]``, the words on the links of each run, stored in ``scratch``.
    """
    row, end_row, col, end_col, words = one_by_one(rectangles)[:, ROW:TIMES].T
    begins = np.zeros(len(scratch), np.int64)
    begins[row] = begins[end_row] = 1
    begins[0] = 0
    band = begins.cumsum()
    table = scratch[: int(band[-1]) + 1]
    table.fill(0)
    flat, cols = table.reshape(-1), table.shape[1]
    for line, sign_and_words in ((band[row], words), (band[end_row], -words)):
        for place, change in ((col, sign_and_words), (end_col, -sign_and_words)):
            is_inside = place < cols
            np.add.at(flat, (line * cols + place)[is_inside], change[is_inside])
    for previous_band, next_band in pairwise(table):
        next_band += previous_band
    return band[:-1], table.cumsum(axis=1, out=table)


def scale_words(rectangles: I64, times: int) -> I64:
    """Return a copy of rectangles of links with their word counts multiplied by ``times``."""
    scaled = rectangles.copy()
    scaled[:, WORDS] *= times
    return scaled


def hops_of(rectangles: I64) -> int:
    """Return the total number of hops on rectangles of links: each word on each link is one hop."""
    return int(links_of(rectangles) @ rectangles[:, WORDS])
