"""Physical links that words use: mesh links, or detours around dead PEs and links.

Programs are compiled for a complete mesh. If PEs or links are dead, each link of that mesh stands
for a path of one or more physical links. Such a detour needs none of the Program's colours: it is
assumed to be configured below them, as in machines whose mesh is complete for programs.

Rectangles of links are in the format of ``link_map``, for all wafers; planes have the index wafer *
4 + direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.links.link_map import (
    COL,
    END_COL,
    END_ROW,
    PLANE,
    ROW,
    TIMES,
    WORDS,
    Link,
    busiest_links,
    hops_of,
    link_map,
    one_by_one,
)
from wse.program.program import Program
from wse.program.stage import Stage
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.mesh.logical_mesh import LogicalMesh, TransposedMesh
from wse_mappings.plane import EAST, NORTH, WEST

DIRECTIONS: Final = 4


@dataclass(frozen=True, slots=True)
class LongestLine:
    """Distances along the rows (or columns) of all regions of a given shape, for timing.

    If PEs are dead, rows differ in length because of detours. All rows send the same messages at
    the same time, so only the longest row, that with the most physical hops, is timed.

    Attributes:
        key: The bytes of ``places``, used to compare lines.
        places: int64 ``[PEs]``, physical hops from the first PE of the longest row to each of its
            PEs.
        farthest: Maximum number of physical hops between two neighbours, on any of the rows.
        streams: Maximum number of links of the logical mesh that use the same physical link. It
            exceeds 1 where a detour around dead PEs uses the link of another line.
    """

    key: bytes
    places: I64 = field(compare=False)
    farthest: int
    streams: int

    @classmethod
    def of(cls, hops: I64, farthest: int, streams: int) -> LongestLine:
        """Create a `LongestLine` from the hop counts between neighbouring PEs.

        Args:
            hops: int64 ``[PEs - 1]``, physical hops between neighbouring PEs.
            farthest: Maximum number of hops between two neighbours on any line of the regions.
            streams: Maximum number of mesh links that use the same physical link.
        """
        places = np.append(0, hops.cumsum(dtype=np.int64))
        return cls(places.tobytes(), places, farthest, streams)


class Routes:
    """Map from links of the logical mesh, which a Program uses, to physical links of wafers.

    On a wafer with dead PEs or links, a mesh link may be a detour over several physical links. This
    class returns distances and word counts on physical links.

    Args:
        program: The Program, compiled for a complete mesh of PEs.
        meshes: For each wafer, the positions of its live PEs and the detours between them. Empty if
            no PE or link is dead, so that each link of the mesh is a physical link.
    """

    def __init__(self, program: Program, meshes: Sequence[LogicalMesh] = ()) -> None:
        self.program = program
        self.meshes = tuple(TransposedMesh(mesh) if program.is_transposed else mesh for mesh in meshes)
        self._longest = cache(partial(_longest_line, program.stages, self.meshes))

    @property
    def has_no_faults(self) -> bool:
        """True if no PE and no link is dead."""
        return not self.meshes

    def words(self, rectangles: I64) -> I64:
        """Return the word count of every physical link, int64 ``[wafers, 4, rows, cols]``.

        If PEs or links are dead, each link of the mesh stands for a path of physical links.

        Args:
            rectangles: int64 ``[n, 9]``, rectangles of mesh links with equal word counts, from
                ``link_map.rectangles_of``.
        """
        program = self.program
        wafers, rows, cols = program.wafers, program.wafer_rows, program.wafer_cols
        words = link_map(rectangles, wafers * DIRECTIONS, rows, cols).reshape(wafers, DIRECTIONS, rows, cols)
        if self.has_no_faults:
            return words
        return np.stack([mesh.physical_words(mesh_words) for mesh, mesh_words in zip(self.meshes, words, strict=True)])

    def words_on(self, wafer: int, rectangles: I64) -> I64:
        """Return the word count of every physical link of one wafer, int64 ``[4, rows, cols]``.

        If PEs or links are dead, each link of the mesh stands for a path of physical links.

        Args:
            wafer: Index of the wafer.
            rectangles: int64 ``[n, 9]``, rectangles of mesh links of this wafer, from
                ``link_map.rectangles_of``.
        """
        local = rectangles - np.array([wafer * DIRECTIONS, 0, 0, 0, 0, 0, 0, 0, 0])
        if self.has_no_faults:
            return link_map(local, DIRECTIONS, self.program.wafer_rows, self.program.wafer_cols)
        return self.meshes[wafer].physical_words(link_map(local, DIRECTIONS, *self.meshes[wafer].shape))

    def hops_of(self, rectangles: I64) -> int:
        """Return the total number of physical hops of all words.

        Each word counts once for each physical link that it crosses.
        """
        if self.has_no_faults:
            return hops_of(rectangles)
        planes = np.unique(rectangles[:, PLANE]).tolist()
        return sum(self._hops_on(plane, rectangles[rectangles[:, PLANE] == plane]) for plane in planes)

    def busiest_links(self, rectangles: I64) -> list[Link]:
        """Return the busiest physical link of each wafer and direction, sorted by decreasing words.

        Each wafer and direction is a plane with the index wafer * 4 + direction.
        """
        if self.has_no_faults:
            return busiest_links(rectangles)
        wafer_of, links = rectangles[:, PLANE] // DIRECTIONS, []
        for wafer in sorted(set(wafer_of.tolist())):
            for direction, words in enumerate(self.words_on(wafer, rectangles[wafer_of == wafer])):
                row, col = divmod(int(words.argmax()), words.shape[1])
                links.append(Link(wafer * DIRECTIONS + direction, row, col, int(words[row, col])))
        return sorted(links, key=lambda link: -link.words)

    def farthest(self, rectangles: I64) -> int:
        """Return the number of physical hops on the longest path of a transfer.

        Words travel along rows first and then along columns, on one wafer. The result is the
        maximum number of hops along rows plus the maximum number of hops along columns.

        Args:
            rectangles: Links that the transfer uses.
        """
        direction = rectangles[:, PLANE] % DIRECTIONS
        sideways = (direction == EAST) | (direction == WEST)
        along_rows, along_columns = rectangles[sideways], rectangles[~sideways]
        if self.has_no_faults:
            col_hops = along_rows[:, END_COL] - along_rows[:, COL]
            row_hops = along_columns[:, END_ROW] - along_columns[:, ROW]
            return int(col_hops.max(initial=0)) + int(row_hops.max(initial=0))
        return self._max_hops(0, along_rows) + self._max_hops(1, along_columns)

    def _max_hops(self, axis: int, rectangles: I64) -> int:
        """Return the maximum number of physical hops that a word makes in one row or column.

        The words use rectangles of mesh links, each of which may be a path of several physical
        links.

        Args:
            axis: 0 for hops along rows, 1 for hops along columns.
            rectangles: Rectangles of links.
        """
        hops = [0]
        for plane, *sides in one_by_one(rectangles)[:, :WORDS].tolist():
            wafer, direction = divmod(plane, DIRECTIONS)
            row, end_row, col, end_col = _sides(direction, *sides)
            if row < end_row and col < end_col:
                hops_before = self.meshes[wafer].hops_before[axis][row : end_row + 1, col : end_col + 1]
                line_hops = hops_before[:, -1] - hops_before[:, 0] if axis == 0 else hops_before[-1] - hops_before[0]
                hops.append(int(np.diff(line_hops).max()))
        return max(hops)

    def contention(self, *stages: int) -> int:
        """Return the maximum number of links of the logical mesh that use one physical link.

        Detours around dead PEs share links. Only links in the regions of the given stages count.
        The result is 1 if no PE or link is dead.

        Args:
            stages: Indices of the stages.
        """
        lines = [self.line(stage, axis) for stage in stages for axis in (ROWS, COLUMNS)]
        return max(line.streams if line else 1 for line in lines)

    def line(self, stage: int, axis: int) -> LongestLine | None:
        """Return the row (or column) with the most physical hops, for regions like that of a stage.

        All regions with the same shape are searched. The result is None if no PE or link is dead,
        because all neighbours are then one hop apart.

        Args:
            stage: Index of the stage.
            axis: ROWS or COLUMNS, the direction of the line.
        """
        if self.has_no_faults:
            return None
        placed_stage = self.program.stages[stage]
        return self._longest(placed_stage.rect.rows, placed_stage.rect.cols, placed_stage.span, axis)

    def _hops_on(self, plane: int, rectangles: I64) -> int:
        """Return how many physical hops all words make on one plane (a wafer and a direction).

        Args:
            plane: Index of the plane: wafer * 4 + direction.
            rectangles: Rectangles of mesh links of this plane.
        """
        wafer, direction = divmod(plane, DIRECTIONS)
        row, end_row, col, end_col, words = one_by_one(rectangles)[:, ROW:TIMES].T
        row, end_row, col, end_col = _sides(direction, row, end_row, col, end_col)
        # `hops_before` is a two-dimensional prefix sum of hops, so four corners give the hops of a rectangle.
        hops_before = self.meshes[wafer].hops_before[0 if direction in (EAST, WEST) else 1]
        links = (
            hops_before[end_row, end_col]
            - hops_before[row, end_col]
            - hops_before[end_row, col]
            + hops_before[row, col]
        )
        return int(links.astype(np.int64) @ words)


def _sides(direction: int, row: Any, end_row: Any, col: Any, end_col: Any) -> tuple[Any, Any, Any, Any]:
    """Return the table entries for the links that leave a rectangle of PEs in one direction.

    A table of hops has one entry per link, at the row and column of the PE at the west or north end
    of the link. If words travel west or north, this PE receives them, so the rectangle is moved by
    one PE in this direction.

    Args:
        direction: Direction in which the words leave the PEs.
        row, end_row, col, end_col: Rows and columns of the PEs; ends are exclusive.

    Returns:
        First row, one past the last row, first column, one past the last column.
    """
    left, up = int(direction == WEST), int(direction == NORTH)
    return row - up, end_row - up, col - left, end_col - left


def _longest_line(
    stages: Sequence[Stage], meshes: Sequence[TransposedMesh | LogicalMesh], rows: int, cols: int, span: int, axis: int
) -> LongestLine:
    """Return the row (or column) with the most physical hops, in any region of a given shape.

    Dead PEs make rows longer. If regions span several wafers, the result consists of the longest
    row of any wafer, repeated once per wafer.

    Args:
        stages: Stages of the Program, each with a region.
        meshes: Mesh of each wafer.
        rows, cols, span: The shape: rows and columns of the region on each wafer, and its number of
            wafers.
        axis: ROWS or COLUMNS, the direction of the lines.
    """
    same_shape = [s for s in stages if (s.rect.rows, s.rect.cols, s.span) == (rows, cols, span)]
    regions = [(meshes[wafer], stage.rect) for stage in same_shape for wafer in stage.wafers]
    row_count, col_count = (rows, cols - 1) if axis == ROWS else (rows - 1, cols)
    longest_hops: I64 = np.zeros(0, np.int64)
    farthest = 1
    for mesh, rect in regions:
        hops = mesh.hops[0 if axis == ROWS else 1][rect.row : rect.row + row_count, rect.col : rect.col + col_count]
        lines = hops if axis == ROWS else hops.T
        line = lines[int(lines.sum(axis=1).argmax())]
        longest_hops = line if line.sum() >= longest_hops.sum() else longest_hops
        farthest = max(farthest, int(lines.max(initial=1)))
    if axis == ROWS:
        # One hop joins the rows of neighbouring wafers; none follows the last one.
        longest_hops = np.tile(np.append(longest_hops, 1), span)[:-1]
    return LongestLine.of(longest_hops, farthest, max(mesh.streams(axis, rect) for mesh, rect in regions))
