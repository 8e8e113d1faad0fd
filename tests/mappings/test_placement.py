"""Regions of a mesh: inside it, apart from each other, and each beside the one before."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.placement import Rect, even_regions, snake_regions

SIDE = st.integers(1, 40)


def pes(rect: Rect) -> set[tuple[int, int]]:
    return {(rect.row + row, rect.col + col) for row in range(rect.rows) for col in range(rect.cols)}


def touch(a: Rect, b: Rect) -> bool:
    """Whether equal rectangles share a whole side."""
    beside = a.row == b.row and abs(a.col - b.col) == a.cols
    above = a.col == b.col and abs(a.row - b.row) == a.rows
    return beside or above


@given(mesh=st.tuples(SIDE, SIDE), region=st.tuples(st.integers(1, 12), st.integers(1, 12)), count=st.integers(0, 60))
def test_snake_regions_lie_in_the_mesh_apart_and_neighbours_touch(
    mesh: tuple[int, int], region: tuple[int, int], count: int
) -> None:
    regions = snake_regions(*mesh, *region, count)
    assert len(regions) == min(count, (mesh[0] // region[0]) * (mesh[1] // region[1]))
    assert all((r.rows, r.cols) == region for r in regions)
    covered = [pe for r in regions for pe in pes(r)]
    assert len(set(covered)) == len(covered)
    assert all(0 <= row < mesh[0] and 0 <= col < mesh[1] for row, col in covered)
    assert all(touch(a, b) for a, b in pairwise(regions))


@given(mesh=st.tuples(st.integers(1, 24), st.integers(1, 24)), data=st.data())
def test_even_regions_are_the_largest_that_fit_so_often(mesh: tuple[int, int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, mesh[0] * mesh[1]))
    rows, cols = even_regions(*mesh, count)
    assert len(snake_regions(*mesh, rows, cols, count)) == count
    fitting = [
        (r * c, min(r, c) / max(r, c))
        for r in range(1, mesh[0] + 1)
        for c in range(1, mesh[1] + 1)
        if (mesh[0] // r) * (mesh[1] // c) >= count
    ]
    assert (rows * cols, min(rows, cols) / max(rows, cols)) == max(fitting)
