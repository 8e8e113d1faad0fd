"""The map of words on links against adding every rectangle link by link."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse.arrays import I64
from wse.backends.fabric.links.link_map import (
    cached_max_link_words,
    hops_of,
    link_map,
    max_link_words,
    merge_repeats,
    rectangles_of,
)

PLANES, ROWS, COLS = 5, 7, 9
WORDS = st.integers(-(2**40), 2**40)


def stretch(length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, length), min_size=2, max_size=2).map(sorted)


@st.composite
def rectangle(draw: st.DrawFn) -> list[int]:
    (row, end_row), (col, end_col) = draw(stretch(ROWS)), draw(stretch(COLS))
    row_step, col_step = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    room = [(left // step) for left, step in ((ROWS - end_row, row_step), (COLS - end_col, col_step)) if step]
    times = 1 + min([draw(st.integers(0, 4)), *room])
    return [draw(st.integers(0, PLANES - 1)), row, end_row, col, end_col, draw(WORDS), times, row_step, col_step]


def as_array(rows: list[list[int]]) -> I64:
    return np.array(rows, np.int64).reshape(-1, 9)


RECTANGLES = st.lists(rectangle(), max_size=30).map(as_array)


def link_by_link(rectangles: I64) -> I64:
    total = np.zeros((PLANES, ROWS, COLS), np.int64)
    for plane, row, end_row, col, end_col, words, times, row_step, col_step in rectangles.tolist():
        for time in range(times):
            for r in range(row, end_row):
                for c in range(col, end_col):
                    total[plane, r + time * row_step, c + time * col_step] += words
    return total


@given(RECTANGLES)
def test_the_map_is_what_adding_link_by_link_gives(rectangles: I64) -> None:
    expected = link_by_link(rectangles)
    assert np.array_equal(link_map(rectangles, PLANES, ROWS, COLS), expected)
    used = np.full((PLANES, ROWS, COLS), 77, np.int64)
    assert link_map(rectangles, PLANES, ROWS, COLS, out=used) is used
    assert np.array_equal(used, expected)
    assert hops_of(rectangles) == expected.sum()


@given(RECTANGLES)
def test_the_busiest_link_is_the_largest_of_the_map(rectangles: I64) -> None:
    rectangles[:, 5] = abs(rectangles[:, 5])
    assert max_link_words(rectangles) == link_by_link(rectangles).max()


@given(st.lists(st.tuples(st.integers(0, 1), stretch(3), st.integers(0, COLS - 1), st.integers(1, 2)), max_size=60))
def test_rectangles_at_equal_steps_are_one(once: list[tuple[int, list[int], int, int]]) -> None:
    """Whatever they are, their map stays the same, and none is left that could go on."""
    rectangles = as_array([[plane, *rows, col, col + 1, words, 1, 0, 0] for plane, rows, col, words in once])
    found = merge_repeats(rectangles)
    assert len(found) <= len(rectangles)
    assert np.array_equal(link_by_link(found), link_by_link(rectangles))


def test_a_train_of_rectangles_is_one() -> None:
    train = [[1, 2, 5, col, col + 2, 7, 1, 0, 0] for col in (0, 3, 6)]
    longer = [[1, 2, 5, col, col + 2, 8, 1, 0, 0] for col in (0, 1, 2, 4, 6)]
    assert merge_repeats(as_array(train)).tolist() == [[1, 2, 5, 0, 2, 7, 3, 0, 3]]
    assert merge_repeats(as_array(train + longer)[::-1]).tolist() == [
        [1, 2, 5, 0, 2, 7, 3, 0, 3],
        [1, 2, 5, 0, 2, 8, 3, 0, 1],
        [1, 2, 5, 4, 6, 8, 2, 0, 2],
    ]


def test_the_busiest_link_of_rectangles_is_kept_wherever_they_lie() -> None:
    """The corner does not matter, everything else does."""
    random = np.random.default_rng(3)
    for _ in range(30):
        begins, sizes = random.integers(0, 9, (6, 2)), random.integers(1, 5, (6, 2))
        planes, words = random.integers(0, 3, 6), random.integers(1, 50, 6)
        ends = begins + sizes
        found = rectangles_of(planes, begins[:, 0], ends[:, 0], begins[:, 1], ends[:, 1], words, 2, 1, 3)
        far = found + np.array([4, 100, 100, 7, 7, 0, 0, 0, 0])
        for each in (found, far, found + np.array([0, 0, 0, 0, 0, 1, 0, 0, 0])):
            assert cached_max_link_words(each) == cached_max_link_words(each) == max_link_words(each)
    assert cached_max_link_words(found[:0]) == 0
