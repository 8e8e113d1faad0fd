"""Free rectangles: the parts of a mesh that no region occupies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from wse_mappings.mesh.placement import Rect


def free_rects(mesh_rows: int, mesh_cols: int, occupied: Sequence[Rect]) -> list[Rect]:
    """Return the maximal free rectangles of a mesh, in descending order of area.

    A maximal rectangle overlaps no occupied rectangle and cannot be extended in any direction.
    Maximal rectangles may overlap each other.

    Args:
        mesh_rows, mesh_cols: Size of the mesh.
        occupied: Rectangles in use. Parts outside the mesh are ignored.

    >>> free_rects(4, 4, [Rect(0, 0, 3, 3)])
    [Rect(row=0, col=3, rows=4, cols=1), Rect(row=3, col=0, rows=1, cols=4)]
    """
    edges = {0, mesh_rows, *(edge for rect in occupied for edge in (rect.row, rect.row + rect.rows))}
    rows = sorted(edge for edge in edges if 0 <= edge <= mesh_rows)
    found = {
        Rect(top, left, bottom - top, right - left)
        for top, bottom in combinations(rows, 2)
        for left, right in _gaps(mesh_cols, [r for r in occupied if r.row < bottom and top < r.row + r.rows])
    }
    maximal = [
        rect for rect in found if not any(_contains(other_rect, rect) for other_rect in found if other_rect != rect)
    ]
    return sorted(maximal, key=lambda rect: (-rect.rows * rect.cols, rect))


def _gaps(mesh_cols: int, occupied: Sequence[Rect]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of mesh columns that no rectangle covers, as (first column, end column).

    Args:
        mesh_cols: Number of columns of the mesh.
        occupied: The rectangles.
    """
    begin = 0
    for rect in sorted(occupied, key=lambda rect: rect.col):
        if min(rect.col, mesh_cols) > begin:
            yield begin, min(rect.col, mesh_cols)
        begin = max(begin, rect.col + rect.cols)
    if begin < mesh_cols:
        yield begin, mesh_cols


def _contains(outer_rect: Rect, inner_rect: Rect) -> bool:
    """Return whether the first rectangle contains the second."""
    return (
        outer_rect.row <= inner_rect.row
        and outer_rect.col <= inner_rect.col
        and outer_rect.row + outer_rect.rows >= inner_rect.row + inner_rect.rows
        and outer_rect.col + outer_rect.cols >= inner_rect.col + inner_rect.cols
    )
