"""Regions of a mesh are inside it, do not overlap, and each is adjacent to the one before."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.mesh.placement import Rect, even_bands, snake_bands


def pes(rect: Rect) -> set[tuple[int, int]]:
    return {(rect.row + row, rect.col + col) for row in range(rect.rows) for col in range(rect.cols)}


def touch(a: Rect, b: Rect) -> bool:
    """Return whether a PE of one region is next to a PE of the other."""
    return any((row + down, col + right) in pes(b) for row, col in pes(a) for down, right in ((0, 1), (0, -1), (1, 0)))


@given(rows=st.integers(1, 4), spare=st.integers(0, 5), data=st.data())
def test_bands_of_regions_lie_apart_and_neighbours_touch(rows: int, spare: int, data: st.DataObject) -> None:
    band = st.lists(st.integers(1, 6), min_size=1, max_size=4)
    widths = data.draw(st.lists(band, min_size=1, max_size=5))
    cols = max(map(sum, widths)) + spare
    if data.draw(st.booleans()):  # regions that use the whole of their bands
        widths = [[*across[:-1], across[-1] + cols - sum(across)] for across in widths]
    regions = snake_bands(cols, [rows] * len(widths), widths)
    assert [r.cols for r in regions] == [width for across in widths for width in across]
    covered = [pe for r in regions for pe in pes(r)]
    assert len(set(covered)) == len(covered)
    assert all(0 <= row < rows * len(widths) and 0 <= col < cols for row, col in covered)
    if all(sum(across) == cols for across in widths):
        assert all(touch(a, b) for a, b in pairwise(regions))


@pytest.mark.parametrize("widths", [[[6, 5], [6, 6]], [[5, 6], [6, 5]], [[4, 4], [3, 3]], [[4, 4, 2], [7]]])
def test_bands_go_back_below_columns_that_are_idle(widths: list[list[int]]) -> None:
    regions = snake_bands(12, [1] * len(widths), widths)
    assert all(touch(a, b) for a, b in pairwise(regions))


@given(mesh=st.tuples(st.integers(1, 24), st.integers(1, 24)), data=st.data())
def test_even_bands_give_the_largest_regions_that_fit_so_often(mesh: tuple[int, int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, mesh[0] * mesh[1]))
    bands, across = even_bands(*mesh, count)
    assert bands * across >= count
    rows, cols = mesh[0] // bands, mesh[1] // across
    fitting = [
        (r * c, min(r, c) / max(r, c))
        for r in range(1, mesh[0] + 1)
        for c in range(1, mesh[1] + 1)
        if (mesh[0] // r) * (mesh[1] // c) >= count
    ]
    assert (rows * cols, min(rows, cols) / max(rows, cols)) == max(fitting)
