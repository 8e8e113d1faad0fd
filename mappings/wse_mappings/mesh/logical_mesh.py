"""Logical mesh: the intact mesh that programs see on a wafer with dead PEs and links.

Each row of the fabric skips its dead PEs, and some live ones so that all rows skip the same number
(``wse_mappings.mesh.path_segments``). The logical PE in column c of a row is the (c + 1)-th PE that
is not skipped. Rows with more dead PEs than that are omitted. The result is a mesh with fewer
columns, and possibly fewer rows, whose neighbours are still close to each other. This is sparing by
columns with shifting, as reviewed by Koren and Singh (Computer 23(7), 1990).

A link between logical neighbours is a route over physical links:

- The route is straight if possible.
- To the next row, it goes down, and sideways by the difference between the two rows' skips. It goes
  sideways first if those links work.
- If these links are broken, it is a shortest route around the faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wse_mappings.mesh.faults import FabricFaults, shortest_route
from wse_mappings.mesh.path_segments import LinkLoads, PathSegments, concatenate, skipped_columns
from wse_mappings.mesh.placement import Rect
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
ALONG_ROWS, ALONG_COLUMNS = 0, 1
_SIDEWAYS_FIRST, _DOWN_FIRST, _SEARCHED = range(3)


def usable_shape(fabrics: Sequence[FabricFaults]) -> tuple[int, int]:
    """Return the size of the largest logical mesh that can be placed on each of several fabrics.

    A fabric is the PEs and links of a wafer, some of which may be dead. A logical mesh is a
    complete grid of live PEs. All fabrics must have the same size.

    Returns:
        (rows, columns), or (0, 0) if any fabric has no usable PEs.
    """
    cols = fabrics[0].shape[1]
    spare = np.arange(cols + 1)
    rows = np.min([np.bincount(f.unreachable.sum(axis=1), minlength=cols + 1).cumsum() for f in fabrics], axis=0)
    best_spare = int(np.argmax(rows * (cols - spare)))
    return (int(rows[best_spare]), cols - best_spare) if best_spare < cols and rows[best_spare] else (0, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class LogicalMesh:
    """A complete grid of a fabric's live PEs, as seen by programs.

    Rows with too many dead PEs are omitted. Each remaining row omits the same number of PEs.

    Attributes:
        fabric: Dead PEs and links.
        row_of: int64 ``[rows]``: physical row of each logical row.
        col_of: int64 ``[rows, cols]``: physical column of each logical PE.
    """

    fabric: FabricFaults
    row_of: I64
    col_of: I64

    @classmethod
    def on(cls, fabric: FabricFaults, rows: int, cols: int) -> LogicalMesh:
        """Return a mesh of ``rows`` x ``cols`` usable PEs of a fabric.

        It consists of the first fabric rows that have enough usable PEs.

        Raises:
            ValueError: The fabric has too few such rows.
        """
        live = ~fabric.unreachable
        row_of = np.flatnonzero(live.sum(axis=1) >= cols)[:rows]
        if len(row_of) < rows:
            raise ValueError(f"{rows}x{cols} PEs need {rows} rows with {cols} live PEs; the fabric has {len(row_of)}")
        is_in_mesh = np.ones((rows, live.shape[1]), bool)
        is_in_mesh[np.arange(rows)[:, None], skipped_columns(~live[row_of], live.shape[1] - cols)] = False
        col_of = np.nonzero(is_in_mesh)[1].reshape(rows, cols)
        return cls(fabric=fabric, row_of=row_of.astype(np.int64), col_of=col_of.astype(np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the logical mesh."""
        rows, cols = self.col_of.shape
        return rows, cols

    def links(self, axis: int) -> tuple[int, int]:
        """Return the shape of an array with one element per logical link along an axis.

        A logical link connects two neighbours in a row (along rows) or in a column (along columns).

        Args:
            axis: ALONG_ROWS or ALONG_COLUMNS.

        Returns:
            Rows and columns of the array.
        """
        rows, cols = self.shape
        return (rows, cols - 1) if axis == ALONG_ROWS else (rows - 1, cols)

    def segments(self, axis: int, rect: Rect | None = None) -> PathSegments:
        """Return the paths of logical links over the fabric, divided into straight segments.

        A logical link connects two neighbours of the logical mesh, which need not be neighbours on
        the fabric. Paths go from west to east along rows, and from north to south along columns.

        Args:
            axis: ALONG_ROWS or ALONG_COLUMNS.
            rect: Rectangle whose links are returned; None for all links.
        """
        straight, detours = self._straight(axis, rect or Rect(0, 0, *self.shape)), self._detours[axis]
        if rect is not None:
            row, col = np.divmod(detours.link, max(1, self.links(axis)[1]))
            is_inside = (row >= rect.row) & (row < rect.row + rect.rows - (axis == ALONG_COLUMNS))
            is_inside &= (col >= rect.col) & (col < rect.col + rect.cols - (axis == ALONG_ROWS))
            detours = detours.select(is_inside)
        return concatenate(straight, detours)

    @cached_property
    def hops(self) -> tuple[I32, I32]:
        """Number of physical links on the path of each logical link.

        A logical link connects two neighbours of the logical mesh. The two arrays are int32
        ``[rows, cols - 1]`` for links along rows, and ``[rows - 1, cols]`` for links along columns.
        """
        lengths = []
        distances = np.diff(self.col_of, axis=1), np.diff(self.row_of)[:, None] + np.abs(np.diff(self.col_of, axis=0))
        for kinds, hops, runs in zip(self._kinds, distances, self._detours, strict=True):
            searched_hops = np.bincount(runs.link, np.abs(runs.down) + np.abs(runs.right), kinds.size).reshape(
                kinds.shape
            )
            lengths.append(np.where(kinds == _SEARCHED, searched_hops, hops).astype(np.int32))
        return lengths[0], lengths[1]

    @cached_property
    def hops_before(self) -> tuple[I32, I32]:
        """Two-dimensional prefix sums of the arrays of `hops`, for fast summation over rectangles.

        Element [r, c] is the sum over the first r rows and c columns of an array.
        """
        row_sums = [np.pad(hops, ((1, 0), (1, 0))).cumsum(axis=0, dtype=np.int32) for hops in self.hops]
        return row_sums[0].cumsum(axis=1, dtype=np.int32), row_sums[1].cumsum(axis=1, dtype=np.int32)

    def physical_words(self, words: I64) -> I64:
        """Add up words on physical links, given the words on logical links.

        Args:
            words: int64 ``[4, rows, cols]``: words that leave each logical PE to the north, east,
                south and west.

        Returns:
            int64 ``[4, rows, cols]``: words that leave each PE of the fabric in these directions.
        """
        loads = LinkLoads(0, 0, *self.fabric.shape)
        loads.add(self.segments(ALONG_ROWS), words[EAST, :, :-1].ravel(), words[WEST, :, 1:].ravel())
        loads.add(self.segments(ALONG_COLUMNS), words[SOUTH, :-1].ravel(), words[NORTH, 1:].ravel())
        return loads.total()

    def streams(self, axis: int, rect: Rect) -> int:
        """Return the maximum number of logical links whose paths share a physical link.

        A logical link connects two neighbours of the mesh of live PEs. Its path over the fabric may
        have to avoid dead PEs and then share physical links with other paths. Only paths in the
        same direction are counted together. The result is at least 1.

        Args:
            axis: ALONG_ROWS or ALONG_COLUMNS: the logical links that are considered.
            rect: Rectangle of the mesh that contains these links.
        """
        if (axis, rect) not in self._streams:
            runs, shape = self.segments(axis, rect), self.links(axis)
            loads, links = LinkLoads.covering(runs), shape[0] * shape[1]
            forward, backward = (np.broadcast_to(np.int64(words), links) for words in (1, 0))
            loads.add(runs, forward, backward)
            self._streams[axis, rect] = max(1, int(loads.total().max(initial=0)))
        return self._streams[axis, rect]

    @cached_property
    def _streams(self) -> dict[tuple[int, Rect], int]:
        """Cache of `streams`, keyed by its arguments."""
        return {}

    def _straight(self, axis: int, rect: Rect) -> PathSegments:
        """Return the paths of all logical links whose path was not found by a search.

        Such a path is straight, or has one turn and consists of two segments. Paths without a turn
        come first.

        Args:
            axis: ALONG_ROWS or ALONG_COLUMNS.
            rect: Rectangle whose links are returned.
        """
        rows, cols = (slice(begin, begin + size) for begin, size in zip(rect[:2], rect[2:], strict=True))
        row_of, col_of, kinds = self.row_of[rows], self.col_of[rows, cols], self._kinds[axis]
        link = np.arange(kinds.size).reshape(kinds.shape)[rows, cols]
        if axis == ALONG_ROWS:
            plain = kinds[rows, cols][:, : rect.cols - 1] != _SEARCHED
            row, col = np.nonzero(plain)
            begin, right = col_of[row, col], np.diff(col_of, axis=1)[row, col]
            return PathSegments(link[row, col], row_of[row], begin, np.zeros_like(right), right)
        kinds, right = kinds[rows, cols][: rect.rows - 1], np.diff(col_of, axis=0)
        row, col = np.nonzero((kinds != _SEARCHED) & (right == 0))
        zeros, row_steps = np.zeros_like(row), np.diff(row_of)
        plain_runs = PathSegments(link[row, col], row_of[row], col_of[row, col], row_steps[row], zeros)
        row, col = np.nonzero((kinds != _SEARCHED) & (right != 0))
        links, aside, next_row = link[row, col], right[row, col], row_of[row] + row_steps[row]
        begin, end, zeros = col_of[row, col], col_of[row, col] + aside, np.zeros_like(row)
        is_sideways_first = kinds[row, col] == _SIDEWAYS_FIRST
        return concatenate(
            plain_runs,
            PathSegments(links, row_of[row], begin, zeros, aside).select(is_sideways_first),
            PathSegments(links, row_of[row], end, row_steps[row], zeros).select(is_sideways_first),
            PathSegments(links, row_of[row], begin, row_steps[row], zeros).select(~is_sideways_first),
            PathSegments(links, next_row, begin, zeros, aside).select(~is_sideways_first),
        )

    @cached_property
    def _kinds(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """For each logical link, an int8 code that says how its path over the fabric is found.

        The codes are _SIDEWAYS_FIRST and _DOWN_FIRST for a straight path or a path with one turn,
        along the row or along the column first. _SEARCHED means that dead PEs or links block both
        paths, so that a search must find one. The arrays are ``[rows, cols - 1]`` for links along
        rows and ``[rows - 1, cols]`` for links along columns.
        """
        along_row, along_column = self.fabric.faults_before()
        row, col = self.row_of[:, None], self.col_of
        is_clear = along_row[row, col[:, 1:]] == along_row[row, col[:, :-1]]
        rows = np.where(is_clear, _SIDEWAYS_FIRST, _SEARCHED).astype(np.int8)
        row_above, row_below, begin, end = row[:-1], row[1:], col[:-1], col[1:]
        sideways_first_works = (along_row[row_above, begin] == along_row[row_above, end]) & (
            along_column[row_above, end] == along_column[row_below, end]
        )
        down_first_works = (along_row[row_below, begin] == along_row[row_below, end]) & (
            along_column[row_above, begin] == along_column[row_below, begin]
        )
        columns = np.select([sideways_first_works, down_first_works], [_SIDEWAYS_FIRST, _DOWN_FIRST], _SEARCHED).astype(
            np.int8
        )
        return rows, columns

    @cached_property
    def _detours(self) -> tuple[PathSegments, PathSegments]:
        """Shortest paths of the logical links whose simple paths are blocked by dead PEs or links.

        A simple path is straight or, for links along columns, has one turn. The two items are the
        paths of links along rows and the paths of links along columns.
        """
        return self._search_routes(ALONG_ROWS), self._search_routes(ALONG_COLUMNS)

    def _search_routes(self, axis: int) -> PathSegments:
        """Return shortest paths for the logical links along an axis whose simple paths are blocked.

        A simple path is straight or, for links along columns, has one turn.

        Args:
            axis: ALONG_ROWS or ALONG_COLUMNS.
        """
        segments: list[tuple[int, int, int, int, int]] = []
        for row, col in np.argwhere(self._kinds[axis] == _SEARCHED).tolist():
            ends = ((row, col), (row, col + 1) if axis == ALONG_ROWS else (row + 1, col))
            start, end = ((int(self.row_of[i]), int(self.col_of[i, j])) for i, j in ends)
            for begin, stop in pairwise(shortest_route(self.fabric, start, end)):
                segments.append((row * self.links(axis)[1] + col, *begin, stop[0] - begin[0], stop[1] - begin[1]))
        return PathSegments(*np.array(segments, np.int64).reshape(-1, 5).T)


class TransposedMesh:
    """A transposed `LogicalMesh`, for programs whose rows are fabric columns.

    Words on physical links are also transposed: north and west are swapped, as are south and east.
    """

    def __init__(self, mesh: LogicalMesh) -> None:
        self.mesh = mesh

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the transposed mesh."""
        rows, cols = self.mesh.shape
        return cols, rows

    @cached_property
    def hops(self) -> tuple[I32, I32]:
        """Number of physical links per logical link: `LogicalMesh.hops` with swapped axes."""
        along_rows, along_columns = self.mesh.hops
        return along_columns.T, along_rows.T

    @cached_property
    def hops_before(self) -> tuple[I32, I32]:
        """Two-dimensional prefix sums of `hops`: `LogicalMesh.hops_before` with swapped axes."""
        along_rows, along_columns = self.mesh.hops_before
        return along_columns.T, along_rows.T

    def streams(self, axis: int, rect: Rect) -> int:
        """Return the maximum number of logical links whose paths share a physical link.

        This is `LogicalMesh.streams` for the other axis and the transposed rectangle.
        """
        return self.mesh.streams(1 - axis, Rect(rect.col, rect.row, rect.cols, rect.rows))

    def physical_words(self, words: I64) -> I64:
        """Add up words on physical links, given the words on logical links.

        This is `LogicalMesh.physical_words` for transposed arrays.
        """
        return transposed_words(self.mesh.physical_words(transposed_words(words)))


def transposed_words(words: I64) -> I64:
    """Transpose an array of words per direction ``[4, rows, cols]`` (north, east, south, west).

    North and west are swapped, as are south and east.
    """
    return words[::-1].transpose(0, 2, 1)
