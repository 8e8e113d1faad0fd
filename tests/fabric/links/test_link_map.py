"""The map of words on links against adding every rectangle link by link."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse.arrays import I64
from wse.fabric.links.link_map import cached_most_words, hops_of, link_map, most_words

PLANES, ROWS, COLS = 5, 7, 9
WORDS = st.integers(-(2**40), 2**40)


def stretch(length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, length), min_size=2, max_size=2).map(sorted)


RECTANGLES = st.lists(
    st.tuples(st.integers(0, PLANES - 1), stretch(ROWS), stretch(COLS), WORDS).map(
        lambda r: [r[0], *r[1], *r[2], r[3]]
    ),
    max_size=30,
).map(lambda rows: np.array(rows, np.int64).reshape(-1, 6))


def link_by_link(rectangles: I64) -> I64:
    total = np.zeros((PLANES, ROWS, COLS), np.int64)
    for plane, row, end_row, col, end_col, words in rectangles.tolist():
        for r in range(row, end_row):
            for c in range(col, end_col):
                total[plane, r, c] += words
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
    assert most_words(rectangles) == link_by_link(rectangles).max()


def test_totals_beyond_32_bits_are_exact() -> None:
    rectangles = np.array([[0, 0, 2, 0, 3, 2**52 + 1]] * 1000, np.int64)
    assert (link_map(rectangles, 1, 2, 3) == 1000 * (2**52 + 1)).all()


def test_a_map_without_transfers_is_empty() -> None:
    assert not link_map(np.zeros((0, 6), np.int64), 3, 4, 5).any()
    assert most_words(np.zeros((0, 6), np.int64)) == 0


def test_the_busiest_link_of_rectangles_is_kept_wherever_they_lie() -> None:
    """The corner does not matter, everything else does."""
    random = np.random.default_rng(3)
    for _ in range(30):
        begins, sizes = random.integers(0, 9, (6, 2)), random.integers(1, 5, (6, 2))
        planes, words = random.integers(0, 3, 6), random.integers(1, 50, 6)
        ends = begins + sizes
        found = np.column_stack([planes, begins[:, 0], ends[:, 0], begins[:, 1], ends[:, 1], words]).astype(np.int64)
        far = found + np.array([4, 100, 100, 7, 7, 0])
        for each in (found, far, found + np.array([0, 0, 0, 0, 0, 1])):
            assert cached_most_words(each) == cached_most_words(each) == most_words(each)
    assert cached_most_words(found[:0]) == 0
