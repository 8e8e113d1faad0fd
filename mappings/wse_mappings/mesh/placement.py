"""Rectangles for the stages of a mesh: bands of regions, visited in snake order so that neighbours touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Rect(NamedTuple):
    """A rectangle of PEs: first row, first column, rows, columns."""

    row: int
    col: int
    rows: int
    cols: int


def snake_bands(mesh_cols: int, heights: Sequence[int], widths: Sequence[Sequence[int]]) -> list[Rect]:
    """Return regions side by side in bands below each other, from the heights of bands and the ``widths`` of regions.

    A band begins below the end of the one before and goes back from there, or on where there is more room, and where
    neither way has room it is set against a side of the mesh: the way on which its first region has the most columns
    in common with the last one before. Each band has at least one region and no more columns than the mesh.

    >>> [(r.row, r.col, r.cols) for r in snake_bands(4, [2, 3], [[3, 1], [2, 2]])]
    [(0, 0, 3), (0, 3, 1), (2, 2, 2), (2, 0, 2)]
    """
    regions: list[Rect] = []
    row = 0
    for rows, across in zip(heights, widths, strict=True):
        west, east = (regions[-1].col, regions[-1].col + regions[-1].cols) if regions else (0, 0)
        begins = {True: min(west, mesh_cols - sum(across)), False: max(east, sum(across))}  # by whether it is eastward
        common = {
            eastward: min(east, first + across[0]) - max(west, first)
            for eastward, begin in begins.items()
            for first in [begin if eastward else begin - across[0]]
        }
        eastward = common[True] > common[False] or (common[True] == common[False] and sum(across) > east)
        begin = begins[eastward]
        for cols in across:
            regions.append(Rect(row, begin if eastward else begin - cols, rows, cols))
            begin += cols if eastward else -cols
        row += rows
    return regions


def even_bands(mesh_rows: int, mesh_cols: int, count: int) -> tuple[int, int]:
    """Return bands and regions per band for ``count`` equal regions: most PEs in use, then nearest to a square.

    Raises:
        ValueError: the mesh has fewer PEs than regions are requested.

    >>> even_bands(16, 16, 4)
    (2, 2)
    """
    best = (0, 0.0, 0, 0)
    for down in range(1, min(count, mesh_rows) + 1):
        across = -(-count // down)
        if across > mesh_cols:
            continue
        rows, cols = mesh_rows // down, mesh_cols // across
        best = max(best, (rows * cols, min(rows, cols) / max(rows, cols), down, across))
    if best[0] == 0:
        message = f"{count} regions on {mesh_rows}x{mesh_cols} PEs"
        raise ValueError(message)
    return best[2], best[3]
