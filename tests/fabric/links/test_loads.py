"""Tests of the words on links: loads of every message type, and their representation as rectangles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.arrays import I64
from wse.backends.fabric.links import loads
from wse.backends.fabric.links.link_map import (
    cached_max_link_words,
    hops_of,
    link_map,
    max_link_words,
    merge_repeats,
    rectangles_of,
)
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.messages import EdgeStream, Translation
from wse_mappings.cuts.split import redistribution
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast, shared_multicast
from wse_mappings.patterns.rings import ring_align, ring_reduce, ring_shift
from wse_mappings.schedule import Arrival, LineSchedule

PATTERNS = [
    k_tree(13, 4, Arrival.ADD, broadcast=True),
    k_tree(12, 3, Arrival.MAX, broadcast=False, segments=((0, 5), (5, 7))),
    multicast(9, 2, 4),
    diagonal_multicast(7),
    shared_multicast(14, 5, 1, 12, 3),
    diagonal_stream(6),
    ring_shift(8, 3),
    ring_align(9),
    ring_reduce(7),
]


def walk_messages(pattern: LineSchedule, rounds: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    """Count the messages on every link, message by message: int64 ``[2, lines, PEs]``, upward and downward links."""
    lines = pattern.variants.shape[1]
    found = np.zeros((2, lines, pattern.length), np.int64)
    for round_index in range(rounds):
        for line in range(lines):
            for source, target, arrival in pattern.line_messages(line, round_index):
                if arrival != Arrival.COPY:
                    found[0, line, source:target] += 1
                    found[1, line, target + 1 : source + 1] += 1
    return found


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_line_loads_by_variant_equal_a_walk_over_all_messages(
    pattern: LineSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "MAX_EXPANDED", 0)
    assert np.array_equal(loads.line_loads(pattern, 5), walk_messages(pattern, 5))


@st.composite
def placed_patterns(draw: st.DrawFn) -> tuple[LineSchedule, int, Rect, int, range]:
    """Draw (pattern, rounds, rectangle of PEs, axis, lines that execute the pattern)."""
    pattern = draw(st.sampled_from(PATTERNS))
    axis, lines = draw(st.sampled_from([ROWS, COLUMNS])), pattern.variants.shape[1]
    first = draw(st.integers(0, lines - 1))
    some_lines = range(first, draw(st.integers(first + 1, lines)))
    shape = (lines, pattern.length) if axis == ROWS else (pattern.length, lines)
    rect = Rect(draw(st.integers(0, 3)), draw(st.integers(0, 3)), *shape)
    return pattern, draw(st.integers(1, 9)), rect, axis, some_lines


@given(placed_patterns(), st.integers(1, 100))
def test_pattern_rectangles_equal_a_walk_over_all_messages(
    case: tuple[LineSchedule, int, Rect, int, range], words: int
) -> None:
    pattern, rounds, rect, axis, some_lines = case
    unit = loads.line_rectangles(loads.line_loads(pattern, rounds))
    got = link_map(loads.pattern_rectangles(unit, rect, axis, words, some_lines), 4, 20, 20)
    up, down = words * walk_messages(pattern, rounds)
    expected = np.zeros_like(got)
    area = (slice(rect.row, rect.row + rect.rows), slice(rect.col, rect.col + rect.cols))
    for line in set(range(pattern.variants.shape[1])) - set(some_lines):
        up[line] = down[line] = 0
    if axis == ROWS:
        expected[(loads.EAST, *area)], expected[(loads.WEST, *area)] = up, down
    else:
        expected[(loads.SOUTH, *area)], expected[(loads.NORTH, *area)] = up.T, down.T
    assert np.array_equal(got, expected)


def test_equal_loads_of_lines_and_pes_share_a_rectangle() -> None:
    unit = loads.line_rectangles(loads.line_loads(multicast(900, 800, 450), 3))
    assert sorted(unit.tolist()) == [[0, 0, 800, 450, 899, 3, 1, 0, 0], [1, 0, 800, 1, 451, 3, 1, 0, 0]]


def test_repeated_groups_along_a_line_share_rectangles() -> None:
    """If every 37th PE of a line multicasts to its group, there are few rectangles, not several per group."""
    unit = loads.line_rectangles(loads.line_loads(shared_multicast(755, 200, 0, 755, 37), 1))
    assert len(unit) < 200 * 2 * 3


@pytest.mark.parametrize(
    ("source", "target", "source_col", "target_col", "cols", "stride"),
    [
        (Rect(0, 0, 3, 4), Rect(0, 4, 3, 4), 3, 0, 1, 1),
        (Rect(0, 0, 3, 4), Rect(0, 4, 3, 4), 0, 0, 4, 2),
        (Rect(0, 4, 3, 4), Rect(3, 4, 3, 4), 0, 0, 4, 3),
        (Rect(6, 4, 3, 4), Rect(0, 0, 3, 4), 0, 3, 1, 1),
        (Rect(3, 4, 3, 4), Rect(0, 0, 3, 4), 0, 0, 4, 1),
        (Rect(0, 2, 3, 4), Rect(3, 1, 4, 4), 0, 1, 3, 2),
        (Rect(5, 2, 4, 4), Rect(2, 1, 3, 4), 1, 0, 3, 1),
    ],
)
def test_translation_loads_the_links_of_its_paths(
    source: Rect, target: Rect, source_col: int, target_col: int, cols: int, stride: int
) -> None:
    pieces = redistribution(10, source.rows, target.rows)
    messages = Translation(
        target_stage=1,
        source_col=source_col,
        target_col=target_col,
        cols=cols,
        pieces=pieces,
        words=pieces[:, 4],
        vectors=1,
        target_elements=4,
        stride=stride,
    )
    rectangles = loads.translation(source, target, messages)
    got = link_map(rectangles, 4, 9, 8)
    expected = np.zeros_like(got)
    for sender, receiver, _, _, words in pieces.tolist():
        for col in range(receiver % messages.stride, cols, messages.stride):
            r, c = source.row + sender, source.col + source_col + col
            end_row, end_col = target.row + receiver, target.col + target_col + col
            while c != end_col:
                expected[loads.EAST if end_col > c else loads.WEST, r, c] += words
                c += 1 if end_col > c else -1
            while r != end_row:
                expected[loads.SOUTH if end_row > r else loads.NORTH, r, c] += words
                r += 1 if end_row > r else -1
    assert np.array_equal(got, expected)
    assert max_link_words(rectangles) == expected.max()
    assert hops_of(rectangles) == expected.sum()


@pytest.mark.parametrize(("cols", "leaving"), [(1, True), (2, False), (5, True), (5, False)])
def test_edge_streams_load_all_links_to_the_edge(cols: int, *, leaving: bool) -> None:
    rect = Rect(2, 1, 4, 5)
    first = 5 - cols
    edge = EdgeStream(wafer=0, rect=rect, first_row=1, rows=2, first_col=first, cols=cols, words=7, leaving=leaving)
    got = link_map(loads.edge_streams(edge), 4, 8, 8)
    expected = np.zeros_like(got)
    for col in range(first, 5):
        passed = range(col, 4) if leaving else range(col)
        for link in passed:
            expected[loads.EAST, 3:5, 1 + link] += 7
    assert np.array_equal(got, expected)


def test_cache_shift_loads_one_link_per_row_that_passes_an_entry() -> None:
    got = link_map(loads.cache_shift(Rect(2, 1, 4, 5), [3], 7), 4, 8, 8)
    expected = np.zeros_like(got)
    expected[loads.NORTH, 3:6, 1:6] = 7
    assert np.array_equal(got, expected)


# Size of the link maps of the random rectangles below.
PLANES, MAP_ROWS, MAP_COLS = 5, 7, 9
WORDS = st.integers(-(2**40), 2**40)


def interval(length: int) -> st.SearchStrategy[list[int]]:
    """Return a strategy for [begin, end] of a half-open interval in ``length`` positions."""
    return st.lists(st.integers(0, length), min_size=2, max_size=2).map(sorted)


@st.composite
def rectangle(draw: st.DrawFn) -> list[int]:
    """Draw a rectangle of links with words and repetitions, which fits into the map. See `link_map` for the fields."""
    (row, end_row), (col, end_col) = draw(interval(MAP_ROWS)), draw(interval(MAP_COLS))
    row_step, col_step = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    max_repeats = [
        (left // step) for left, step in ((MAP_ROWS - end_row, row_step), (MAP_COLS - end_col, col_step)) if step
    ]
    times = 1 + min([draw(st.integers(0, 4)), *max_repeats])
    return [draw(st.integers(0, PLANES - 1)), row, end_row, col, end_col, draw(WORDS), times, row_step, col_step]


def as_array(rows: list[list[int]]) -> I64:
    return np.array(rows, np.int64).reshape(-1, 9)


RECTANGLES = st.lists(rectangle(), max_size=30).map(as_array)


def link_by_link(rectangles: I64) -> I64:
    """Add the words of rectangles link by link, as a reference for `link_map`: int64 ``[planes, rows, cols]``."""
    total = np.zeros((PLANES, MAP_ROWS, MAP_COLS), np.int64)
    for plane, row, end_row, col, end_col, words, times, row_step, col_step in rectangles.tolist():
        for time in range(times):
            for r in range(row, end_row):
                for c in range(col, end_col):
                    total[plane, r + time * row_step, c + time * col_step] += words
    return total


@given(RECTANGLES)
def test_link_map_equals_adding_link_by_link(rectangles: I64) -> None:
    expected = link_by_link(rectangles)
    assert np.array_equal(link_map(rectangles, PLANES, MAP_ROWS, MAP_COLS), expected)
    used = np.full((PLANES, MAP_ROWS, MAP_COLS), 77, np.int64)
    assert link_map(rectangles, PLANES, MAP_ROWS, MAP_COLS, out=used) is used
    assert np.array_equal(used, expected)
    assert hops_of(rectangles) == expected.sum()


@given(RECTANGLES)
def test_max_link_words_is_the_maximum_of_the_map(rectangles: I64) -> None:
    rectangles[:, 5] = abs(rectangles[:, 5])
    assert max_link_words(rectangles) == link_by_link(rectangles).max()


@given(
    st.lists(st.tuples(st.integers(0, 1), interval(3), st.integers(0, MAP_COLS - 1), st.integers(1, 2)), max_size=60)
)
def test_merge_repeats_keeps_the_map(fields: list[tuple[int, list[int], int, int]]) -> None:
    rectangles = as_array([[plane, *rows, col, col + 1, words, 1, 0, 0] for plane, rows, col, words in fields])
    found = merge_repeats(rectangles)
    assert len(found) <= len(rectangles)
    assert np.array_equal(link_by_link(found), link_by_link(rectangles))


def test_merge_repeats_merges_rectangles_at_equal_steps() -> None:
    equal_steps = [[1, 2, 5, col, col + 2, 7, 1, 0, 0] for col in (0, 3, 6)]
    other_words = [[1, 2, 5, col, col + 2, 8, 1, 0, 0] for col in (0, 1, 2, 4, 6)]
    assert merge_repeats(as_array(equal_steps)).tolist() == [[1, 2, 5, 0, 2, 7, 3, 0, 3]]
    assert merge_repeats(as_array(equal_steps + other_words)[::-1]).tolist() == [
        [1, 2, 5, 0, 2, 7, 3, 0, 3],
        [1, 2, 5, 0, 2, 8, 3, 0, 1],
        [1, 2, 5, 4, 6, 8, 2, 0, 2],
    ]


def test_cached_max_link_words_does_not_depend_on_the_position() -> None:
    """The cache key ignores a common shift of all rectangles, and no other property."""
    random = np.random.default_rng(3)
    for _ in range(30):
        begins, sizes = random.integers(0, 9, (6, 2)), random.integers(1, 5, (6, 2))
        planes, words = random.integers(0, 3, 6), random.integers(1, 50, 6)
        ends = begins + sizes
        found = rectangles_of(planes, begins[:, 0], ends[:, 0], begins[:, 1], ends[:, 1], words, 2, 1, 3)
        shifted = found + np.array([4, 100, 100, 7, 7, 0, 0, 0, 0])
        for each in (found, shifted, found + np.array([0, 0, 0, 0, 0, 1, 0, 0, 0])):
            assert cached_max_link_words(each) == cached_max_link_words(each) == max_link_words(each)
    assert cached_max_link_words(found[:0]) == 0
