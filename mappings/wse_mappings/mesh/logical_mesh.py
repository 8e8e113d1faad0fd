"""The whole mesh that programs see on a wafer with dead PEs and links.

Each row of the fabric skips its dead PEs, and live ones until all rows skip as many (``wse_mappings.mesh.skips``): the
logical PE in column c of a row stands on its (c + 1)-th PE that is not skipped. Rows with more dead PEs than that are
left out as a whole. So a mesh of fewer columns, and maybe rows, is made of live PEs, of which neighbours are still near
each other: spare columns with shifting, as reviewed by Koren and Singh (Computer 23(7), 1990).

A link between logical neighbours is a route over physical links. It is straight where it can be. To the next row it
goes down and as far sideways as the two rows' skips differ, sideways first where that is free. Where all that is
broken, it is a shortest route round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wse_mappings.mesh.faults import FabricFaults, shortest_route
from wse_mappings.mesh.placement import Rect
from wse_mappings.mesh.skips import skipped_columns
from wse_mappings.mesh.stretches import LinkLoads, Stretches, concatenate
from wse_mappings.plane import EAST, NORTH, SOUTH, WEST

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
ALONG_ROWS, ALONG_COLUMNS = 0, 1
_SIDEWAYS_FIRST, _DOWN_FIRST, _SEARCHED = range(3)


def usable_shape(fabrics: Sequence[FabricFaults]) -> tuple[int, int]:
    """Return the rows and columns of the largest logical mesh that all fabrics of equal size have.

    (0, 0) where one has none.
    """
    cols = fabrics[0].shape[1]
    spare = np.arange(cols + 1)
    rows = np.min([np.bincount(f.unreachable.sum(axis=1), minlength=cols + 1).cumsum() for f in fabrics], axis=0)
    most = int(np.argmax(rows * (cols - spare)))
    return (int(rows[most]), cols - most) if most < cols and rows[most] else (0, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class LogicalMesh:
    """A mesh on the live PEs of a fabric.

    Attributes:
        fabric: What is broken.
        row_of: int64 ``[rows]``: the physical row of each logical row.
        col_of: int64 ``[rows, cols]``: the physical column of each logical PE.
    """

    fabric: FabricFaults
    row_of: I64
    col_of: I64

    @classmethod
    def on(cls, fabric: FabricFaults, rows: int, cols: int) -> LogicalMesh:
        """Return a mesh of ``rows`` x ``cols`` PEs on the first rows of a fabric with enough live PEs.

        Raises:
            ValueError: there are fewer such rows.
        """
        live = ~fabric.unreachable
        row_of = np.flatnonzero(live.sum(axis=1) >= cols)[:rows]
        if len(row_of) < rows:
            message = f"{rows}x{cols} PEs on a fabric with {len(row_of)} rows of as many live PEs"
            raise ValueError(message)
        is_in_mesh = np.ones((rows, live.shape[1]), bool)
        is_in_mesh[np.arange(rows)[:, None], skipped_columns(~live[row_of], live.shape[1] - cols)] = False
        col_of = np.nonzero(is_in_mesh)[1].reshape(rows, cols)
        return cls(fabric=fabric, row_of=row_of.astype(np.int64), col_of=col_of.astype(np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, cols = self.col_of.shape
        return rows, cols

    def links(self, axis: int) -> tuple[int, int]:
        """Return the rows and columns of the links along rows, or along columns."""
        rows, cols = self.shape
        return (rows, cols - 1) if axis == ALONG_ROWS else (rows - 1, cols)

    def runs(self, axis: int, rect: Rect | None = None) -> Stretches:
        """Return the paths east along rows, or south along columns, of all links or of those in a rectangle."""
        straight, detours = self._straight(axis, rect or Rect(0, 0, *self.shape)), self._detours[axis]
        if rect is not None:
            row, col = np.divmod(detours.link, max(1, self.links(axis)[1]))
            inside = (row >= rect.row) & (row < rect.row + rect.rows - (axis == ALONG_COLUMNS))
            inside &= (col >= rect.col) & (col < rect.col + rect.cols - (axis == ALONG_ROWS))
            detours = detours.select(inside)
        return concatenate(straight, detours)

    @cached_property
    def hops(self) -> tuple[I32, I32]:
        """Return the physical links of each path, int32 ``[rows, cols - 1]`` along rows, ``[rows - 1, cols]`` along
        columns.
        """
        lengths = []
        distances = np.diff(self.col_of, axis=1), np.diff(self.row_of)[:, None] + np.abs(np.diff(self.col_of, axis=0))
        for kinds, hops, runs in zip(self._kinds, distances, self._detours, strict=True):
            searched = np.bincount(runs.link, np.abs(runs.down) + np.abs(runs.right), kinds.size).reshape(kinds.shape)
            lengths.append(np.where(kinds == _SEARCHED, searched, hops).astype(np.int32))
        return lengths[0], lengths[1]

    @cached_property
    def hops_before(self) -> tuple[I32, I32]:
        """Return the physical links of all paths before a row and a column."""
        before = [np.pad(hops, ((1, 0), (1, 0))).cumsum(axis=0, dtype=np.int32) for hops in self.hops]
        return before[0].cumsum(axis=1, dtype=np.int32), before[1].cumsum(axis=1, dtype=np.int32)

    def physical_words(self, words: I64) -> I64:
        """Return the words on physical links for given words on logical links.

        Args:
            words: int64 ``[4, rows, cols]``: words that leave each logical PE to the north, east, south and west.

        Returns:
            int64 ``[4, rows, cols]`` of the fabric, in the same way.
        """
        loads = LinkLoads(0, 0, *self.fabric.shape)
        loads.add(self.runs(ALONG_ROWS), words[EAST, :, :-1].ravel(), words[WEST, :, 1:].ravel())
        loads.add(self.runs(ALONG_COLUMNS), words[SOUTH, :-1].ravel(), words[NORTH, 1:].ravel())
        return loads.total()

    def streams(self, axis: int, rect: Rect) -> int:
        """Return the maximum number of paths over one physical link in one direction, within a rectangle."""
        if (axis, rect) not in self._streams:
            runs, shape = self.runs(axis, rect), self.links(axis)
            loads, links = LinkLoads.empty_over(runs), shape[0] * shape[1]
            forward, backward = (np.broadcast_to(np.int64(words), links) for words in (1, 0))
            loads.add(runs, forward, backward)
            self._streams[axis, rect] = max(1, int(loads.total().max(initial=0)))
        return self._streams[axis, rect]

    @cached_property
    def _streams(self) -> dict[tuple[int, Rect], int]:
        """Results of `streams` by its arguments."""
        return {}

    def _straight(self, axis: int, rect: Rect) -> Stretches:
        """Return the paths that need no search: those in one straight segment, then those in two."""
        rows, cols = (slice(begin, begin + size) for begin, size in zip(rect[:2], rect[2:], strict=True))
        row_of, col_of, kinds = self.row_of[rows], self.col_of[rows, cols], self._kinds[axis]
        link = np.arange(kinds.size).reshape(kinds.shape)[rows, cols]
        if axis == ALONG_ROWS:
            plain = kinds[rows, cols][:, : rect.cols - 1] != _SEARCHED
            row, col = np.nonzero(plain)
            begin, right = col_of[row, col], np.diff(col_of, axis=1)[row, col]
            return Stretches(link[row, col], row_of[row], begin, np.zeros_like(right), right)
        kinds, right = kinds[rows, cols][: rect.rows - 1], np.diff(col_of, axis=0)
        row, col = np.nonzero((kinds != _SEARCHED) & (right == 0))
        none, down = np.zeros_like(row), np.diff(row_of)
        plain_runs = Stretches(link[row, col], row_of[row], col_of[row, col], down[row], none)
        row, col = np.nonzero((kinds != _SEARCHED) & (right != 0))
        links, aside, next_row = link[row, col], right[row, col], row_of[row] + down[row]
        begin, end, none = col_of[row, col], col_of[row, col] + aside, np.zeros_like(row)
        first = kinds[row, col] == _SIDEWAYS_FIRST
        return concatenate(
            plain_runs,
            Stretches(links, row_of[row], begin, none, aside).select(first),
            Stretches(links, row_of[row], end, down[row], none).select(first),
            Stretches(links, row_of[row], begin, down[row], none).select(~first),
            Stretches(links, next_row, begin, none, aside).select(~first),
        )

    @cached_property
    def _kinds(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """Return the kind of each path, int8 ``[rows, cols - 1]`` along rows and ``[rows - 1, cols]`` along columns."""
        along_row, along_column = self.fabric.faults_before()
        row, col = self.row_of[:, None], self.col_of
        clear = along_row[row, col[:, 1:]] == along_row[row, col[:, :-1]]
        rows = np.where(clear, _SIDEWAYS_FIRST, _SEARCHED).astype(np.int8)
        above, below, begin, end = row[:-1], row[1:], col[:-1], col[1:]
        first = (along_row[above, begin] == along_row[above, end]) & (
            along_column[above, end] == along_column[below, end]
        )
        then = (along_row[below, begin] == along_row[below, end]) & (
            along_column[above, begin] == along_column[below, begin]
        )
        columns = np.select([first, then], [_SIDEWAYS_FIRST, _DOWN_FIRST], _SEARCHED).astype(np.int8)
        return rows, columns

    @cached_property
    def _detours(self) -> tuple[Stretches, Stretches]:
        """The routes that are searched for."""
        return self._search_routes(ALONG_ROWS), self._search_routes(ALONG_COLUMNS)

    def _search_routes(self, axis: int) -> Stretches:
        stretches: list[tuple[int, int, int, int, int]] = []
        for row, col in np.argwhere(self._kinds[axis] == _SEARCHED).tolist():
            ends = ((row, col), (row, col + 1) if axis == ALONG_ROWS else (row + 1, col))
            start, end = ((int(self.row_of[i]), int(self.col_of[i, j])) for i, j in ends)
            for begin, stop in pairwise(shortest_route(self.fabric, start, end)):
                stretches.append((row * self.links(axis)[1] + col, *begin, stop[0] - begin[0], stop[1] - begin[1]))
        return Stretches(*np.array(stretches, np.int64).reshape(-1, 5).T)


class TurnedMesh:
    """A transposed ``LogicalMesh``: a Program counts its rows as columns, and the fabric is transposed too.

    North and west change places, and south and east.
    """

    def __init__(self, mesh: LogicalMesh) -> None:
        self.mesh = mesh

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, cols = self.mesh.shape
        return cols, rows

    @cached_property
    def hops(self) -> tuple[I32, I32]:
        """Return the physical links of each path, like `LogicalMesh.hops` with the axes exchanged."""
        along_rows, along_columns = self.mesh.hops
        return along_columns.T, along_rows.T

    @cached_property
    def hops_before(self) -> tuple[I32, I32]:
        """Return the physical links before rows and columns, like `LogicalMesh.hops_before` with the axes exchanged."""
        along_rows, along_columns = self.mesh.hops_before
        return along_columns.T, along_rows.T

    def streams(self, axis: int, rect: Rect) -> int:
        """Return the maximum number of paths over one physical link, like `LogicalMesh.streams`."""
        return self.mesh.streams(1 - axis, Rect(rect.col, rect.row, rect.cols, rect.rows))

    def physical_words(self, words: I64) -> I64:
        """Return the words on physical links for given words on logical links, like `LogicalMesh.physical_words`."""
        return turned_words(self.mesh.physical_words(turned_words(words)))


def turned_words(words: I64) -> I64:
    """Return words by direction and place ``[4, rows, cols]`` (north, east, south, west), transposed."""
    return words[::-1].transpose(0, 2, 1)
