"""Tests of reduces on lines and meshes, and of the patterns of matrix products on a mesh."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.rings import ring_keep, ring_reduce, ring_shift
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

LENGTHS = st.integers(1, 70)


def check(schedule: LineSchedule) -> None:
    """Check that PE 0 ends with all labels, and that colours are those declared."""
    bags = replay(schedule, [(pe,) for pe in range(schedule.length)])
    assert sorted(bags[0]) == list(range(schedule.length))
    assert len(schedule.message_colours) == len(schedule.messages)
    assert set(schedule.message_colours.tolist()) <= set(range(schedule.colours))


@given(LENGTHS, st.integers(1, 80))
def test_two_phase_sums_every_pe_once_for_any_group(length: int, group: int) -> None:
    schedule = two_phase(length, 1, Arrival.ADD, group)
    check(schedule)
    heads = [pe for pe in range(length) if (length - 1 - pe) % group == group - 1]
    assert sum(h > 1 for h in hops(schedule)) <= len(heads)


@pytest.mark.parametrize(("length", "group"), [(512, 32), (512, 8), (40, 8), (21, 7)])
def test_two_phase_alternates_colours_within_groups(length: int, group: int) -> None:
    schedule = two_phase(length, 1, Arrival.ADD, group)
    colour = dict(zip(schedule.messages[:, 0].tolist(), schedule.message_colours.tolist(), strict=True))
    for pe in range(1, length):
        place = (length - 1 - pe) % group
        if place not in (0, group - 1):
            assert colour[pe] != colour[pe + 1]
        if place == 0 and pe + 1 < length:
            assert colour[pe] == colour[pe + 1]


def test_star_starts_with_the_nearest_pe() -> None:
    assert star(5, 1, Arrival.ADD).messages[:, 0].tolist() == [1, 2, 3, 4]


SIDES = (1, 2, 5, 8)
Grid = list[list[Any]]


def along_rows(schedule: LineSchedule, grid: Grid, round_: int = 0) -> Grid:
    """Execute one round on every row of a square, from one buffer into another."""
    side = len(grid)
    return [replay(schedule, grid[row], [None] * side, row, round_) for row in range(side)]


def along_columns(schedule: LineSchedule, grid: Grid, round_: int = 0) -> Grid:
    """Execute one round on every column of a square, from one buffer into another."""
    return transposed(along_rows(schedule, transposed(grid), round_))


def transposed(grid: Grid) -> Grid:
    return [list(column) for column in zip(*grid, strict=True)]


@pytest.mark.parametrize("side", SIDES)
def test_dist_gemm_t_computes_the_product_with_the_transpose(side: int) -> None:
    """The result is Q K^T.

    Q stays in place, and the rows of K move along the rings of columns. The row sums of round t are stored on the PE t
    places back.
    """
    rng = np.random.default_rng(side)
    Q, K = rng.integers(-9, 10, (2, side, side))
    moving = K.tolist()
    stored: Grid = [[None] * side for _ in range(side)]
    for round_ in range(side):
        partial = (Q * np.array(moving)).tolist()
        for row in range(side):
            summed = replay(ring_reduce(side), partial[row], line=row, round_=round_)
            stored[row] = replay(ring_keep(side), summed, stored[row], row, round_)
        moving = along_columns(ring_shift(side, side), moving)
    np.testing.assert_array_equal(np.array(stored), Q @ K.T)


@pytest.mark.parametrize("side", SIDES)
def test_ring_keep_stores_one_row_sum_per_pe_without_messages(side: int) -> None:
    for row in range(side):
        roots = [int(ring_keep(side).line_messages(row, round_)[0, 1]) for round_ in range(side)]
        assert sorted(roots) == list(range(side))
        assert all(hops(ring_keep(side), row, round_) == [] for round_ in range(side))


@pytest.mark.parametrize("side", SIDES)
def test_ring_reduce_uses_every_link_of_a_line_once(side: int) -> None:
    for round_ in range(side):
        assert hops(ring_reduce(side), 0, round_) == [1] * (side - 1)
