"""Contiguous runs of weighted items, and integers in proportion to weights."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.contiguous import apportion, even_runs, runs_with_fewest_cuts

SHARES = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=9)


@given(shares=SHARES, data=st.data())
def test_no_other_cut_has_a_smaller_largest_run(shares: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(shares)))
    runs = even_runs(shares, parts)
    assert [index for start, count in runs for index in range(start, start + count)] == list(range(len(shares)))
    assert len(runs) == parts
    assert all(count >= 1 for _, count in runs)

    def cost(ends: tuple[int, ...]) -> tuple[float, float]:
        sums = [sum(shares[a:b]) for a, b in pairwise((0, *ends, len(shares)))]
        return max(sums), sum(s * s for s in sums)

    least = min(cost(ends) for ends in combinations(range(1, len(shares)), parts - 1))
    assert cost(tuple(start for start, _ in runs[1:])) == least


def test_a_smaller_largest_run_goes_before_a_smaller_sum_of_squares() -> None:
    """The runs 3, 2 and 6 have a smaller sum of squares, 49 instead of 51, but a larger maximum."""
    assert even_runs([3.0, 2.0, 5.0, 1.0], 3) == [(0, 2), (2, 1), (3, 1)]


def test_earlier_runs_are_longer_where_that_leaves_a_choice() -> None:
    assert even_runs([1.0] * 7, 3) == [(0, 3), (3, 2), (5, 2)]


@given(shares=SHARES, spare=st.integers(0, 30))
def test_parts_add_up_and_are_within_one_of_their_proportion(shares: list[float], spare: int) -> None:
    parts = apportion(shares, len(shares) + spare)
    assert sum(parts) == len(shares) + spare
    whole = sum(shares)
    assert all(part >= 1 for part in parts)
    assert whole == 0 or all(abs(part - 1 - s / whole * spare) < 1 for part, s in zip(parts, shares, strict=True))


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="2 items cannot be divided into 3 nonempty runs"):
        even_runs([1.0, 1.0], 3)
    with pytest.raises(ValueError, match="1 cannot be divided into 2 positive integers"):
        apportion([1.0, 1.0], 1)


def test_of_the_evenest_runs_those_that_cut_the_least_are_taken() -> None:
    """The result is compared with all divisions of two different layers in parts."""
    random = np.random.default_rng(0)
    for parts in (1, 2, 3, 4, 7):
        shares = [*random.integers(1, 9, 5).tolist(), *random.integers(1, 9, 5).tolist()]
        cuts = [index not in (4, 9) for index in range(10)]
        ways = {}
        for ends in combinations(range(1, 10), parts - 1):
            bounds = [0, *ends, 10]
            sums = [sum(shares[start:end]) for start, end in pairwise(bounds)]
            cost = (max(sums), sum(cuts[end - 1] for end in ends), sum(size * size for size in sums))
            ways[tuple((start, end - start) for start, end in pairwise(bounds))] = cost
        assert ways[tuple(runs_with_fewest_cuts(shares, parts, cuts))] == min(ways.values())


def test_there_are_no_more_runs_than_shares() -> None:
    with pytest.raises(ValueError, match="2 items cannot be divided into 3 nonempty runs"):
        runs_with_fewest_cuts([1, 1], 3, [True, False])
