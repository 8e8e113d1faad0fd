"""PEs that rows skip, and paths over physical links as straight segments with their words.

All rows skip the same number of PEs: their dead PEs and, if a row has fewer dead PEs than that,
some live ones. A skip is a column in which a row omits its PE. It stays in this column from row to
row, until it is needed for a dead PE in another column. Then it moves there, and the logical
columns between the two columns shift by one PE. This is the k-server problem on a line (Manasse,
McGeoch and Sleator, 1990), with skips as servers and dead PEs as requests. From each row to the
next, the skips move by the minimum total distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse_mappings.plane import EAST, NORTH, SOUTH, WEST

Bools = npt.NDArray[np.bool_]


def skipped_columns(unreachable: Bools, count: int) -> I64:
    """Choose the PEs that each row omits, so that all rows have the same number of PEs left.

    Each row omits its unreachable PEs and, if there are fewer than ``count``, some usable ones. The
    omitted columns change as little as possible from row to row.

    Args:
        unreachable: bool ``[rows, cols]``: PEs that must be omitted, at most ``count`` per row.
        count: Number of PEs that each row omits.

    Returns:
        Columns that each row omits, in ascending order, int64 ``[rows, count]``.
    """
    rows = unreachable.shape[0]
    places = _initial_skips(unreachable, count)
    columns = np.empty((rows, count), np.int64)
    for row in range(rows):
        dead = np.flatnonzero(unreachable[row])
        if len(dead):
            places = move_skips(places, dead)
        columns[row] = places
    return columns


def move_skips(places: I64, targets: I64) -> I64:
    """Choose the columns that a row omits so that they are close to those of the previous row.

    The columns omitted by the previous row are moved so that the columns that must be omitted are
    among them. The total distance is as small as possible.

    Args:
        places: Columns that the previous row omits, in ascending order.
        targets: Columns that this row must omit, in ascending order.

    Returns:
        All columns that this row omits, in ascending order.

    >>> move_skips(np.array([2, 9]), np.array([7])).tolist()
    [2, 7]
    """
    # cost[n]: minimum total distance if only the first n skips may move to the targets so far.
    cost = np.zeros(len(places) + 1)
    table = [cost]
    for target in targets.tolist():
        cost_with_target = cost[:-1] + np.abs(places - target)
        cost = np.minimum.accumulate(np.append(np.inf, cost_with_target))
        table.append(cost)
    moved_places, remaining_skips = places.copy(), len(places)
    for target, cost in zip(targets[::-1].tolist(), table[:0:-1], strict=True):
        # The smallest number of skips with the same cost; the last of them moves to this target.
        remaining_skips = int(np.searchsorted(-cost[: remaining_skips + 1], -cost[remaining_skips]))
        remaining_skips -= 1
        moved_places[remaining_skips] = target
    return np.sort(moved_places)


def _initial_skips(unreachable: Bools, count: int) -> I64:
    """Choose the columns with which `skipped_columns` starts, before the first row.

    They are the columns of the northernmost unreachable PEs, each column once. If there are fewer
    than ``count`` such columns, columns at the east end are added.

    Args:
        unreachable: bool ``[rows, cols]``: PEs that must be omitted.
        count: Number of PEs that each row omits.

    Returns:
        The columns in ascending order, int64 ``[count]``.
    """
    _, cols = np.nonzero(unreachable)
    _, first = np.unique(cols, return_index=True)
    places = cols[np.sort(first)][:count]
    free_places = np.setdiff1d(np.arange(unreachable.shape[1]), places)[::-1][: count - len(places)]
    return np.sort(np.append(places, free_places)).astype(np.int64)


I64 = npt.NDArray[np.int64]


class PathSegments(NamedTuple):
    """Straight segments of the fabric paths of logical links, as int64 arrays ``[n]``.

    A logical link connects two neighbours of the mesh of live PEs.

    Attributes:
        link: Index of the logical link, row-major by its west or north PE.
        row, col: Physical PE where the segment begins.
        down, right: Number of southward and eastward hops of the segment, negative for north and
            west. One of the two is 0.
    """

    link: I64
    row: I64
    col: I64
    down: I64
    right: I64

    def select(self, mask: npt.NDArray[np.bool_]) -> PathSegments:
        """Return only the segments that a mask selects.

        Args:
            mask: For each segment, whether it is selected.
        """
        return PathSegments(*(part[mask] for part in self))


def concatenate(*several: PathSegments) -> PathSegments:
    """Concatenate several sets of segments."""
    return PathSegments(*map(np.concatenate, zip(*several, strict=True)))


class LinkLoads:
    """Counter of the words on the links in a rectangle of a fabric.

    The numbers are stored as differences between neighbouring links, so that adding words to all
    links of a long segment changes only two numbers.

    Args:
        top, left: First row and column of the rectangle.
        rows, cols: Size of the rectangle.
    """

    def __init__(self, top: int, left: int, rows: int, cols: int) -> None:
        self._corner, self._shape = (top, left), (rows, cols)
        self._change = np.zeros((4, rows + 1, cols + 1), np.int64)

    @classmethod
    def covering(cls, segments: PathSegments) -> LinkLoads:
        """Return a counter for the links that some segments use, with no words on any link.

        It covers the smallest rectangle that contains all segments.
        """
        if not len(segments.link):
            return cls(0, 0, 0, 0)
        row, col = (
            np.append(begin, begin + hops)
            for begin, hops in ((segments.row, segments.down), (segments.col, segments.right))
        )
        top, left = int(row.min()), int(col.min())
        return cls(top, left, int(row.max()) - top + 1, int(col.max()) - left + 1)

    def add(self, segments: PathSegments, forward: I64, backward: I64) -> None:
        """Add the words of logical links to the physical links on their paths.

        A logical link connects two neighbours of the mesh of live PEs.

        Args:
            segments: Straight segments of the paths.
            forward, backward: int64 ``[links]``: words along the path of each logical link, and in
                the opposite direction.
        """
        for onward_side, return_side, begin, hops in (
            (EAST, WEST, segments.col, segments.right),
            (SOUTH, NORTH, segments.row, segments.down),
        ):
            for sign, (onward_words, return_words) in ((1, (forward, backward)), (-1, (backward, forward))):
                indices = np.flatnonzero(hops * sign > 0)
                start, end = begin[indices], begin[indices] + hops[indices]
                low, high = (start, end) if sign > 0 else (end, start)
                self._add_segments(onward_side, segments, indices, low, high, onward_words)
                self._add_segments(return_side, segments, indices, low + 1, high + 1, return_words)

    def _add_segments(
        self, direction: int, segments: PathSegments, indices: I64, low: I64, high: I64, words: I64
    ) -> None:
        """Count the words of some segments on the physical links that they use in one direction.

        Args:
            direction: NORTH, EAST, SOUTH or WEST.
            segments: All segments.
            indices: int64 ``[n]``: indices of the segments to count.
            low, high: int64 ``[n]``: for each of these segments, the first PE whose link it uses,
                and one past the last. PEs are numbered by row for NORTH and SOUTH, and by column
                for EAST and WEST.
            words: int64 ``[links]``: number of words on each logical link; not changed.
        """
        segment_words = words[segments.link[indices]]
        nonzero = np.flatnonzero(segment_words)
        flat, row_length = self._change[direction].reshape(-1), self._change.shape[2]
        indices, segment_words = indices[nonzero], segment_words[nonzero]
        for place, change in ((low[nonzero], segment_words), (high[nonzero], -segment_words)):
            row, col = (segments.row[indices], place) if direction in (EAST, WEST) else (place, segments.col[indices])
            np.add.at(flat, (row - self._corner[0]) * row_length + col - self._corner[1], change)

    def total(self) -> I64:
        """Return the number of words on each link, int64 ``[4, rows, cols]``.

        The first axis is the direction of the link; the others are the PE that the link leaves.
        """
        rows, cols = self._shape
        total = self._change[:, :rows, :cols].copy()
        for direction in range(4):
            total[direction].cumsum(axis=1 if direction in (EAST, WEST) else 0, out=total[direction])
        return total
