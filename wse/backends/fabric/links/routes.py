"""The physical links that words take: those of the mesh that programs see, or ways round dead PEs and links.

Rectangles are those of ``link_map`` over all wafers, whose planes are wafers times directions. A detour takes none of
the colours that programs have: redundancy is configured below them, as in machines whose mesh stays whole for programs.
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
from wse.program.program import Program, Stage
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.mesh.logical_mesh import LogicalMesh, TurnedMesh
from wse_mappings.plane import EAST, NORTH, WEST

DIRECTIONS: Final = 4


@dataclass(frozen=True, slots=True)
class LongestLine:
    """The longest line along an axis of all regions of one shape, which represents all of them.

    Attributes:
        key: What tells it from lines with other places.
        places: Hops of each PE from the first.
        farthest: The most hops between two neighbours on any of the lines.
        streams: The most of the lines' links that one physical link carries in a direction; they share its words.
    """

    key: bytes
    places: I64 = field(compare=False)
    farthest: int
    streams: int

    @classmethod
    def of(cls, hops: I64, farthest: int, streams: int) -> LongestLine:
        """Return a line with given hops between neighbours."""
        places = np.append(0, hops.cumsum(dtype=np.int64))
        return cls(places.tobytes(), places, farthest, streams)


class Routes:
    """Distances and physical links on the wafers of a Program.

    ``meshes`` has where each wafer's PEs are; it is empty where all of them are whole.
    """

    def __init__(self, program: Program, meshes: Sequence[LogicalMesh] = ()) -> None:
        self.program = program
        self.meshes = tuple(TurnedMesh(mesh) if program.turned else mesh for mesh in meshes)
        self._longest = cache(partial(_longest_line, program.stages, self.meshes))

    @property
    def whole(self) -> bool:
        """True if nothing is dead."""
        return not self.meshes

    def words(self, rectangles: I64) -> I64:
        """Return the words on every physical link, int64 ``[wafers, 4, rows, cols]`` of the fabric."""
        program = self.program
        wafers, rows, cols = program.wafers, program.wafer_rows, program.wafer_cols
        words = link_map(rectangles, wafers * DIRECTIONS, rows, cols).reshape(wafers, DIRECTIONS, rows, cols)
        if self.whole:
            return words
        return np.stack([mesh.physical_words(of_mesh) for mesh, of_mesh in zip(self.meshes, words, strict=True)])

    def words_on(self, wafer: int, rectangles: I64) -> I64:
        """Return the words on every physical link of one wafer, int64 ``[4, rows, cols]``."""
        local = rectangles - np.array([wafer * DIRECTIONS, 0, 0, 0, 0, 0, 0, 0, 0])
        if self.whole:
            return link_map(local, DIRECTIONS, self.program.wafer_rows, self.program.wafer_cols)
        return self.meshes[wafer].physical_words(link_map(local, DIRECTIONS, *self.meshes[wafer].shape))

    def hops_of(self, rectangles: I64) -> int:
        """Return the sum of words times physical links over all rectangles."""
        if self.whole:
            return hops_of(rectangles)
        planes = np.unique(rectangles[:, PLANE]).tolist()
        return sum(self._hops_on(plane, rectangles[rectangles[:, PLANE] == plane]) for plane in planes)

    def busiest_links(self, rectangles: I64) -> list[Link]:
        """Return the busiest physical links, the busiest first, one per plane."""
        if self.whole:
            return busiest_links(rectangles)
        of_wafer, links = rectangles[:, PLANE] // DIRECTIONS, []
        for wafer in sorted(set(of_wafer.tolist())):
            for direction, words in enumerate(self.words_on(wafer, rectangles[of_wafer == wafer])):
                row, col = divmod(int(words.argmax()), words.shape[1])
                links.append(Link(wafer * DIRECTIONS + direction, row, col, int(words[row, col])))
        return sorted(links, key=lambda link: -link.words)

    def farthest(self, rectangles: I64) -> int:
        """Return the maximum hops of streams over rectangles of one wafer: along rows, then along columns."""
        direction = rectangles[:, PLANE] % DIRECTIONS
        sideways = (direction == EAST) | (direction == WEST)
        along_rows, along_columns = rectangles[sideways], rectangles[~sideways]
        if self.whole:
            wide, high = along_rows[:, END_COL] - along_rows[:, COL], along_columns[:, END_ROW] - along_columns[:, ROW]
            return int(wide.max(initial=0)) + int(high.max(initial=0))
        return self._most_hops(0, along_rows) + self._most_hops(1, along_columns)

    def _most_hops(self, axis: int, rectangles: I64) -> int:
        """Return the maximum hops of one line of some rectangles."""
        hops = [0]
        for plane, *sides in one_by_one(rectangles)[:, :WORDS].tolist():
            wafer, direction = divmod(plane, DIRECTIONS)
            row, end_row, col, end_col = _sides(direction, *sides)
            if row < end_row and col < end_col:
                before = self.meshes[wafer].hops_before[axis][row : end_row + 1, col : end_col + 1]
                whole = before[:, -1] - before[:, 0] if axis == 0 else before[-1] - before[0]
                hops.append(int(np.diff(whole).max()))
        return max(hops)

    def contention(self, *stages: int) -> int:
        """Return the maximum number of streams that share a link of the regions of some stages."""
        lines = [self.line(stage, axis) for stage in stages for axis in (ROWS, COLUMNS)]
        return max(line.streams if line else 1 for line in lines)

    def line(self, stage: int, axis: int) -> LongestLine | None:
        """Return the line for those of a stage; None on a whole wafer, where neighbours are one hop apart."""
        placed = self.program.stages[stage]
        return None if self.whole else self._longest(placed.rect.rows, placed.rect.cols, placed.span, axis)

    def _hops_on(self, plane: int, rectangles: I64) -> int:
        """Return the sum of words times physical links over rectangles of one plane."""
        wafer, direction = divmod(plane, DIRECTIONS)
        row, end_row, col, end_col, words = one_by_one(rectangles)[:, ROW:TIMES].T
        row, end_row, col, end_col = _sides(direction, row, end_row, col, end_col)
        before = self.meshes[wafer].hops_before[0 if direction in (EAST, WEST) else 1]
        links = before[end_row, end_col] - before[row, end_col] - before[end_row, col] + before[row, col]
        return int(links.astype(np.int64) @ words)


def _sides(direction: int, row: Any, end_row: Any, col: Any, end_col: Any) -> tuple[Any, Any, Any, Any]:
    """Return the sides of rectangles of links, relative to their west or north PEs."""
    left, up = int(direction == WEST), int(direction == NORTH)
    return row - up, end_row - up, col - left, end_col - left


def _longest_line(
    stages: Sequence[Stage], meshes: Sequence[TurnedMesh | LogicalMesh], rows: int, cols: int, span: int, axis: int
) -> LongestLine:
    """Return the longest line of all regions of a shape. A row that spans wafers has the longest line of each."""
    same_shape = [s for s in stages if (s.rect.rows, s.rect.cols, s.span) == (rows, cols, span)]
    regions = [(meshes[wafer], stage.rect) for stage in same_shape for wafer in stage.wafers]
    high, wide = (rows, cols - 1) if axis == ROWS else (rows - 1, cols)
    longest: I64 = np.zeros(0, np.int64)
    farthest = 1
    for mesh, rect in regions:
        hops = mesh.hops[0 if axis == ROWS else 1][rect.row : rect.row + high, rect.col : rect.col + wide]
        lines = hops if axis == ROWS else hops.T
        line = lines[int(lines.sum(axis=1).argmax())]
        longest = line if line.sum() >= longest.sum() else longest
        farthest = max(farthest, int(lines.max(initial=1)))
    if axis == ROWS:
        longest = np.tile(np.append(longest, 1), span)[:-1]  # no link leads from one wafer's row to the next one's
    return LongestLine.of(longest, farthest, max(mesh.streams(axis, rect) for mesh, rect in regions))
