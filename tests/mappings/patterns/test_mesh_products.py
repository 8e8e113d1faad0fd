"""MeshGEMM and dist-GEMM-T, replayed with one number per tile: their schedules form products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.ring_reduce import ring_keep, ring_reduce
from wse_mappings.patterns.ring_shift import ring_align, ring_shift
from wse_mappings.schedule import LineSchedule

SIDES = range(1, 14)
Grid = list[list[Any]]


def along_rows(schedule: LineSchedule, grid: Grid, round_: int = 0) -> Grid:
    """Execute one round on every row of a square, from one buffer into another."""
    side = len(grid)
    return [replay(schedule, grid[row], [None] * side, row, round_) for row in range(side)]


def along_columns(schedule: LineSchedule, grid: Grid, round_: int = 0) -> Grid:
    return transposed(along_rows(schedule, transposed(grid), round_))


def transposed(grid: Grid) -> Grid:
    return [list(column) for column in zip(*grid, strict=True)]


def aligned(a: Grid, b: Grid) -> tuple[Grid, Grid]:
    side = len(a)
    for turn in range(side // 2):
        a, b = along_rows(ring_align(side), a, turn), along_columns(ring_align(side), b, turn)
    return a, b


@pytest.mark.parametrize("side", SIDES)
def test_mesh_gemm_is_the_matrix_product(side: int) -> None:
    rng = np.random.default_rng(side)
    A, B = rng.integers(-9, 10, (2, side, side))
    a, b = aligned(A.tolist(), B.tolist())
    product = np.zeros((side, side), np.int64)
    for _ in range(side):
        product += np.array(a) * np.array(b)
        a, b = along_rows(ring_shift(side, side), a), along_columns(ring_shift(side, side), b)
    np.testing.assert_array_equal(product, A @ B)


@pytest.mark.parametrize("side", SIDES)
def test_dist_gemm_t_is_the_product_with_the_transpose(side: int) -> None:
    """The result is Q K^T.

    Q stays, the rows of K move round the columns' ring, and the row sums of round t go to the PE t
    places back.
    """
    rng = np.random.default_rng(side)
    Q, K = rng.integers(-9, 10, (2, side, side))
    moving = K.tolist()
    kept: Grid = [[None] * side for _ in range(side)]
    for turn in range(side):
        partial = (Q * np.array(moving)).tolist()
        for row in range(side):
            summed = replay(ring_reduce(side), partial[row], line=row, round_=turn)
            kept[row] = replay(ring_keep(side), summed, kept[row], row, turn)
        moving = along_columns(ring_shift(side, side), moving)
    np.testing.assert_array_equal(np.array(kept), Q @ K.T)


@pytest.mark.parametrize("side", SIDES)
def test_every_pe_keeps_one_row_sum_and_keeping_sends_nothing(side: int) -> None:
    for row in range(side):
        roots = [int(ring_keep(side).line_messages(row, turn)[0, 1]) for turn in range(side)]
        assert sorted(roots) == list(range(side))
        assert all(hops(ring_keep(side), row, turn) == [] for turn in range(side))


@pytest.mark.parametrize("side", SIDES)
def test_ring_reduce_uses_every_link_of_a_line_once(side: int) -> None:
    for turn in range(side):
        assert hops(ring_reduce(side), 0, turn) == [1] * (side - 1)
