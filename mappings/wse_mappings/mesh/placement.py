"""Rectangles of PEs on a mesh: where regions are placed, and which rectangles are free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from wse_mappings.rounding import ceil_div


class Rect(NamedTuple):
    """A rectangle of PEs on a mesh.

    Attributes:
        row, col: First row and first column.
        rows, cols: Number of rows and number of columns.
    """

    row: int
    col: int
    rows: int
    cols: int

    @property
    def transposed(self) -> Rect:
        """The same rectangle on the transposed mesh, whose rows are the columns of this mesh."""
        return Rect(self.col, self.row, self.cols, self.rows)


def snake_bands(mesh_cols: int, heights: Sequence[int], widths: Sequence[Sequence[int]]) -> list[Rect]:
    """Place regions (rectangles of PEs) side by side in bands that are stacked vertically.

    A band is a strip of mesh rows. Data pass from region to region, so the first region of a band
    should be below the last region of the band above. From there, the regions of a band are placed
    eastward or westward: the direction is chosen for which these two regions have more columns in
    common. A band that would extend beyond the mesh is shifted.

    Args:
        mesh_cols: Columns of the mesh.
        heights: Rows of each band.
        widths: Columns of the regions of each band: at least one region, and at most ``mesh_cols``
            columns in total.

    Returns:
        The rectangles of all regions, band by band.

    >>> [(r.row, r.col, r.cols) for r in snake_bands(4, [2, 3], [[3, 1], [2, 2]])]
    [(0, 0, 3), (0, 3, 1), (2, 2, 2), (2, 0, 2)]
    """
    regions: list[Rect] = []
    row = 0
    for rows, band_widths in zip(heights, widths, strict=True):
        west, east = (regions[-1].col, regions[-1].col + regions[-1].cols) if regions else (0, 0)
        begins = {True: min(west, mesh_cols - sum(band_widths)), False: max(east, sum(band_widths))}  # by eastward
        common_cols = {
            eastward: min(east, first + band_widths[0]) - max(west, first)
            for eastward, begin in begins.items()
            for first in [begin if eastward else begin - band_widths[0]]
        }
        eastward = common_cols[True] > common_cols[False] or (
            common_cols[True] == common_cols[False] and sum(band_widths) > east
        )
        begin = begins[eastward]
        for cols in band_widths:
            regions.append(Rect(row, begin if eastward else begin - cols, rows, cols))
            begin += cols if eastward else -cols
        row += rows
    return regions


def even_bands(mesh_rows: int, mesh_cols: int, count: int) -> tuple[int, int]:
    """Return the number of bands, and of regions per band, for ``count`` regions of equal size.

    A region is a rectangle of PEs, and a band is a strip of rows with regions side by side. The
    division with the largest regions is chosen; ties are broken in favour of regions that are
    closest to squares.

    Raises:
        ValueError: The mesh has fewer PEs than there are regions.

    >>> even_bands(16, 16, 4)
    (2, 2)
    """
    best = (0, 0.0, 0, 0)
    for bands in range(1, min(count, mesh_rows) + 1):
        per_band = ceil_div(count, bands)
        if per_band > mesh_cols:
            continue
        rows, cols = mesh_rows // bands, mesh_cols // per_band
        best = max(best, (rows * cols, min(rows, cols) / max(rows, cols), bands, per_band))
    if best[0] == 0:
        raise ValueError(f"{count} regions do not fit on {mesh_rows}x{mesh_cols} PEs")
    return best[2], best[3]


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
