"""Free rectangles of a mesh, compared with an exhaustive search."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.mesh.placement import Rect, free_rects

ROWS, COLS = 6, 5
RECTS = st.builds(Rect, st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(1, 4))


def cells(rect: Rect) -> set[tuple[int, int]]:
    return set(product(range(rect.row, rect.row + rect.rows), range(rect.col, rect.col + rect.cols)))


@given(st.lists(RECTS, max_size=5))
def test_free_rectangles_are_all_that_cannot_grow(occupied: list[Rect]) -> None:
    used = set().union(*map(cells, occupied))
    every = [
        Rect(row, col, rows, cols)
        for row, col in product(range(ROWS), range(COLS))
        for rows, cols in product(range(1, ROWS - row + 1), range(1, COLS - col + 1))
    ]
    free = [rect for rect in every if not cells(rect) & used]
    maximal = {rect for rect in free if not any(cells(rect) < cells(other) for other in free)}
    found = free_rects(ROWS, COLS, occupied)
    assert set(found) == maximal
    assert len(found) == len(maximal)
    areas = [rect.rows * rect.cols for rect in found]
    assert areas == sorted(areas, reverse=True)
