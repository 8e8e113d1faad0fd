"""Rectangles for the stages of a mesh: a grid of equal regions, visited in snake order so that neighbours touch."""

from __future__ import annotations

from typing import NamedTuple


class Rect(NamedTuple):
    """A rectangle of PEs: first row, first column, rows, columns."""

    row: int
    col: int
    rows: int
    cols: int


def snake_regions(mesh_rows: int, mesh_cols: int, rows: int, cols: int, count: int) -> list[Rect]:
    """The first ``count`` regions of ``rows`` x ``cols`` PEs in snake order, or fewer if the mesh holds fewer.

    >>> [(r.row, r.col) for r in snake_regions(4, 4, 2, 2, 4)]
    [(0, 0), (0, 2), (2, 2), (2, 0)]
    """
    across = mesh_cols // cols
    regions = []
    for index in range(min(count, across * (mesh_rows // rows))):
        band, place = divmod(index, across)
        place = place if band % 2 == 0 else across - 1 - place
        regions.append(Rect(band * rows, place * cols, rows, cols))
    return regions


def even_regions(mesh_rows: int, mesh_cols: int, count: int) -> tuple[int, int]:
    """Rows and columns of ``count`` equal regions on a mesh: most PEs in use, then nearest to a square.

    Raises:
        ValueError: the mesh has fewer PEs than regions are asked for.

    >>> even_regions(16, 16, 4)
    (8, 8)
    """
    best = (0, 0.0, 0, 0)
    for down in range(1, min(count, mesh_rows) + 1):
        across = -(-count // down)
        if across > mesh_cols:
            continue
        rows, cols = mesh_rows // down, mesh_cols // across
        squareness = min(rows, cols) / max(rows, cols)
        best = max(best, (rows * cols, squareness, rows, cols))
    if best[0] == 0:
        message = f"{count} regions on {mesh_rows}x{mesh_cols} PEs"
        raise ValueError(message)
    return best[2], best[3]
