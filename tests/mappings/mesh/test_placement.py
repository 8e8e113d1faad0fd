"""Tests of placement on a mesh: bands of regions, rings, free rectangles, and skipped columns."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.mesh.path_segments import move_skips, skipped_columns
from wse_mappings.mesh.placement import Rect, even_bands, free_rects, snake_bands
from wse_mappings.patterns.rings import ring_align, ring_pe, ring_place, ring_shift, skew


def pes(rect: Rect) -> set[tuple[int, int]]:
    return {(rect.row + row, rect.col + col) for row in range(rect.rows) for col in range(rect.cols)}


def are_adjacent(a: Rect, b: Rect) -> bool:
    """Return whether a PE of one region is next to a PE of the other."""
    return any((row + down, col + right) in pes(b) for row, col in pes(a) for down, right in ((0, 1), (0, -1), (1, 0)))


@given(rows=st.integers(1, 4), spare=st.integers(0, 5), data=st.data())
def test_snake_bands_are_disjoint_and_consecutive_regions_adjacent(rows: int, spare: int, data: st.DataObject) -> None:
    band = st.lists(st.integers(1, 6), min_size=1, max_size=4)
    widths = data.draw(st.lists(band, min_size=1, max_size=5))
    cols = max(map(sum, widths)) + spare
    if data.draw(st.booleans()):  # regions that fill their bands
        widths = [[*across[:-1], across[-1] + cols - sum(across)] for across in widths]
    regions = snake_bands(cols, [rows] * len(widths), widths)
    assert [r.cols for r in regions] == [width for across in widths for width in across]
    covered = [pe for r in regions for pe in pes(r)]
    assert len(set(covered)) == len(covered)
    assert all(0 <= row < rows * len(widths) and 0 <= col < cols for row, col in covered)
    if all(sum(across) == cols for across in widths):
        assert all(are_adjacent(a, b) for a, b in pairwise(regions))


@pytest.mark.parametrize("widths", [[[6, 5], [6, 6]], [[5, 6], [6, 5]], [[4, 4], [3, 3]], [[4, 4, 2], [7]]])
def test_snake_bands_are_adjacent_with_unused_columns(widths: list[list[int]]) -> None:
    regions = snake_bands(12, [1] * len(widths), widths)
    assert all(are_adjacent(a, b) for a, b in pairwise(regions))


@given(mesh=st.tuples(st.integers(1, 24), st.integers(1, 24)), data=st.data())
def test_even_bands_give_the_largest_regions_of_the_given_number(mesh: tuple[int, int], data: st.DataObject) -> None:
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


LENGTHS = st.integers(1, 200)


@given(length=LENGTHS, turns=st.integers(-2, 2))
def test_ring_order_is_even_pes_up_and_odd_pes_down(length: int, turns: int) -> None:
    order = [ring_pe(place + turns * length, length) for place in range(length)]
    assert order == [*range(0, length, 2), *sorted(range(1, length, 2), reverse=True)]
    assert [ring_place(pe, length) for pe in order] == list(range(length))


@given(length=st.integers(1, 64))
def test_ring_shift_moves_every_word_to_the_next_place(length: int) -> None:
    shift = ring_shift(length, 1)
    places = [ring_place(pe, length) for pe in range(length)]
    after = replay(shift, places, [None] * length)
    assert after == [(place - 1) % length for place in places]
    assert max(hops(shift), default=0) <= 2


@pytest.mark.parametrize("length", [1, 2, 7, 12])
def test_ring_align_moves_the_tiles_of_line_i_back_by_its_place(length: int) -> None:
    """Afterwards, the PE at place p of line i has the tile that was at place p + ring_place(i)."""
    align = ring_align(length)
    for line in range(length):
        words: list[object] = list(range(length))
        for round_ in range(length // 2):
            words = replay(align, words, [None] * length, line, round_)
        want = [ring_pe(ring_place(pe, length) + ring_place(line, length), length) for pe in range(length)]
        assert words == want


@pytest.mark.parametrize("length", [2, 7, 12])
def test_ring_align_has_the_same_hops_on_every_line_and_in_every_round(length: int) -> None:
    """A line that is aligned still sends words, which are not stored.

    Lines differ only in direction.
    """
    align = ring_align(length)
    rounds = len(align.variants)
    assert rounds == length // 2
    for line in range(length):
        assert {tuple(sorted(hops(align, line, r))) for r in range(rounds)} == {tuple(sorted(hops(align)))}
    assert max(hops(align)) <= 2


@given(length=st.integers(1, 64), line=st.integers(0, 63))
def test_skew_is_the_order_after_the_alignment(length: int, line: int) -> None:
    line %= length
    places = [ring_place(int(k), length) for k in skew(line, length)]
    assert places == [(ring_place(line, length) + ring_place(pe, length)) % length for pe in range(length)]


ROWS, COLS = 5, 4
RECTS = st.builds(Rect, st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(1, 4))


@given(st.lists(RECTS, max_size=5))
def test_free_rectangles_are_all_maximal_ones(occupied: list[Rect]) -> None:
    used = set().union(*map(pes, occupied))
    every = [
        Rect(row, col, rows, cols)
        for row, col in product(range(ROWS), range(COLS))
        for rows, cols in product(range(1, ROWS - row + 1), range(1, COLS - col + 1))
    ]
    free = [rect for rect in every if not pes(rect) & used]
    maximal = {rect for rect in free if not any(pes(rect) < pes(other) for other in free)}
    found = free_rects(ROWS, COLS, occupied)
    assert set(found) == maximal
    assert len(found) == len(maximal)
    areas = [rect.rows * rect.cols for rect in found]
    assert areas == sorted(areas, reverse=True)


@given(st.sets(st.integers(0, 12), min_size=1, max_size=5), st.data())
def test_skips_move_by_the_minimum_total_distance(places: set[int], data: st.DataObject) -> None:
    required = data.draw(st.sets(st.integers(0, 12), max_size=len(places)))
    start, after = sorted(places), move_skips(np.array(sorted(places)), np.array(sorted(required), np.int64)).tolist()
    assert required <= set(after)
    assert after == sorted(set(after))
    assert len(after) == len(start)
    every = [c for c in combinations(range(13), len(start)) if required <= set(c)]
    assert sum(abs(a - b) for a, b in zip(start, after, strict=True)) == min(
        sum(abs(a - b) for a, b in zip(start, chosen, strict=True)) for chosen in every
    )


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**32), st.integers(0, 4))
def test_rows_skip_equal_numbers_of_columns_including_dead_pes(rows: int, cols: int, seed: int, more: int) -> None:
    dead = np.random.default_rng(seed).random((rows, cols)) < 0.2
    count = min(cols, int(dead.sum(axis=1).max()) + more)
    found = skipped_columns(dead, count)
    assert found.shape == (rows, count)
    assert (np.diff(found, axis=1) > 0).all()
    for row in range(rows):
        assert set(np.flatnonzero(dead[row])) <= set(found[row].tolist())


def test_dead_pe_costs_one_straight_column() -> None:
    dead = np.zeros((5, 7), bool)
    dead[3, 2] = True
    assert (skipped_columns(dead, 1) == 2).all()
    assert (skipped_columns(dead, 2) == [2, 6]).all()
