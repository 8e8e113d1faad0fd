"""Tests of cuts of a dimension: contiguous runs, splits, groups of experts, and moves to another cut."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.contiguous import apportion, even_runs, runs_with_fewest_cuts
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS, expert_groups
from wse_mappings.cuts.split import (
    balanced_counts,
    balanced_segments,
    blocks,
    grouped_blocks,
    padded_blocks,
    redistribution,
    whole_tiles,
)
from wse_mappings.rounding import ceil_div

ITEM_SIZES = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=9)


@given(sizes=ITEM_SIZES, data=st.data())
def test_even_runs_have_the_smallest_possible_maximum(sizes: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(sizes)))
    runs = even_runs(sizes, parts)
    assert [index for start, count in runs for index in range(start, start + count)] == list(range(len(sizes)))
    assert len(runs) == parts
    assert all(count >= 1 for _, count in runs)

    def cost(ends: tuple[int, ...]) -> tuple[float, float]:
        sums = [sum(sizes[a:b]) for a, b in pairwise((0, *ends, len(sizes)))]
        return max(sums), sum(s * s for s in sums)

    min_cost = min(cost(ends) for ends in combinations(range(1, len(sizes)), parts - 1))
    assert cost(tuple(start for start, _ in runs[1:])) == min_cost


def test_even_runs_minimise_the_maximum_before_the_sum_of_squares() -> None:
    """The runs 3, 2 and 6 have a smaller sum of squares, 49 instead of 51, but a larger maximum."""
    assert even_runs([3.0, 2.0, 5.0, 1.0], 3) == [(0, 2), (2, 1), (3, 1)]


def test_even_runs_are_longer_first_among_equals() -> None:
    assert even_runs([1.0] * 7, 3) == [(0, 3), (3, 2), (5, 2)]


@given(sizes=ITEM_SIZES, spare=st.integers(0, 30))
def test_apportion_adds_up_and_is_within_one_of_the_proportion(sizes: list[float], spare: int) -> None:
    parts = apportion(sizes, len(sizes) + spare)
    assert sum(parts) == len(sizes) + spare
    whole = sum(sizes)
    assert all(part >= 1 for part in parts)
    assert whole == 0 or all(abs(part - 1 - s / whole * spare) < 1 for part, s in zip(parts, sizes, strict=True))


def test_more_parts_than_items_are_refused() -> None:
    with pytest.raises(ValueError, match="2 items cannot be divided into 3 nonempty runs"):
        even_runs([1.0, 1.0], 3)
    with pytest.raises(ValueError, match="1 cannot be divided into 2 positive integers"):
        apportion([1.0, 1.0], 1)


def test_runs_with_fewest_cuts_are_the_best_of_all_divisions() -> None:
    """The result is compared with all divisions of two different layers in parts."""
    random = np.random.default_rng(0)
    for parts in (1, 2, 3, 4, 7):
        sizes = [*random.integers(1, 9, 5).tolist(), *random.integers(1, 9, 5).tolist()]
        cuts = [index not in (4, 9) for index in range(10)]
        costs = {}
        for ends in combinations(range(1, 10), parts - 1):
            bounds = [0, *ends, 10]
            sums = [sum(sizes[start:end]) for start, end in pairwise(bounds)]
            cost = (max(sums), sum(cuts[end - 1] for end in ends), sum(size * size for size in sums))
            costs[tuple((start, end - start) for start, end in pairwise(bounds))] = cost
        assert costs[tuple(runs_with_fewest_cuts(sizes, parts, cuts))] == min(costs.values())


def test_runs_with_fewest_cuts_refuse_more_runs_than_items() -> None:
    with pytest.raises(ValueError, match="2 items cannot be divided into 3 nonempty runs"):
        runs_with_fewest_cuts([1, 1], 3, [True, False])


TOTALS, PARTS = st.integers(0, 500), st.integers(1, 40)


@given(total=st.integers(1, 500), parts=PARTS)
def test_padded_blocks_hold_every_index_once_in_order_with_padding_at_the_end(total: int, parts: int) -> None:
    blocks = padded_blocks(total, parts)
    assert blocks.shape == (parts, ceil_div(total, parts))
    flat = blocks.reshape(-1).tolist()
    assert flat == [*range(total), *[-1] * (len(flat) - total)]


@given(total=st.integers(1, 500), parts=PARTS, group=st.integers(1, 40))
def test_grouped_blocks_hold_every_index_once_and_few_groups_each(total: int, parts: int, group: int) -> None:
    blocks = grouped_blocks(total, parts, group)
    assert len(blocks) == parts
    assert blocks[blocks >= 0].tolist() == [*range(total)]
    groups = ceil_div(total, group)
    max_groups = max(len({index // group for index in block if index >= 0}) for block in blocks.tolist())
    assert max_groups == ceil_div(groups, parts)
    width = blocks.shape[1]
    if parts >= groups:  # narrower blocks would need more parts
        assert width == group or width == 1 or sum(ceil_div(group, width - 1) for _ in range(groups)) > parts
    else:
        assert width == max_groups * group


@given(total=TOTALS, parts=PARTS)
def test_balanced_counts_differ_by_at_most_one_and_larger_ones_are_first(total: int, parts: int) -> None:
    counts = balanced_counts(total, parts).tolist()
    assert sum(counts) == total
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1


@given(total=TOTALS, parts=PARTS)
def test_balanced_segments_follow_each_other_without_gaps(total: int, parts: int) -> None:
    covered = [index for start, count in balanced_segments(total, parts) for index in range(start, start + count)]
    assert covered == list(range(total))


SIZES = {"cols": st.integers(1, 17), "count": st.integers(1, 20), "size": st.integers(1, 23)}


@pytest.mark.parametrize("placement", [*EXPERT_PLACEMENTS, "3"])
@given(**SIZES)
def test_every_row_of_every_expert_is_on_one_column(placement: str, cols: int, count: int, size: int) -> None:
    rows = expert_groups(cols, count, size, placement).rows
    assert sorted(rows[rows >= 0].tolist()) == list(range(count * size))


@given(**SIZES)
def test_dedicated_experts_share_columns_or_have_several_but_never_both(cols: int, count: int, size: int) -> None:
    groups = expert_groups(cols, count, size, DEDICATED)
    experts_per_col = (groups.experts >= 0).sum(axis=1)
    segment_cols = [length for _, length in groups.segments]
    assert experts_per_col.max() - experts_per_col.min() <= 1
    assert max(segment_cols) - min(segment_cols) <= 1
    assert experts_per_col.max() == 1 or max(segment_cols) == 1
    assert sum(segment_cols) == cols


@given(**SIZES)
def test_distributed_experts_are_on_all_columns(cols: int, count: int, size: int) -> None:
    groups = expert_groups(cols, count, size, DISTRIBUTED)
    assert groups.experts_per_col == count
    assert (groups.experts == np.arange(count)).all()


GROUPS = st.sampled_from([0, 0, 3, 4, 7])


@given(
    extent=st.integers(1, 40), rows=st.integers(1, 9), target_rows=st.integers(1, 9), group=GROUPS, target_group=GROUPS
)
def test_recut_moves_every_element_once(
    extent: int, rows: int, target_rows: int, group: int, target_group: int
) -> None:
    source, want = blocks(extent, rows, group), blocks(extent, target_rows, target_group)
    got, times = np.full_like(want, -1), np.zeros_like(want)
    for sender, receiver, first, place, count in redistribution(
        extent, rows, target_rows, group, target_group
    ).tolist():
        got[receiver, place : place + count] = source[sender, first : first + count]
        times[receiver, place : place + count] += 1
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(times, want >= 0)


@given(rows=st.integers(1, 9), target_rows=st.integers(1, 9))
def test_whole_tiles_reach_every_row_once(rows: int, target_rows: int) -> None:
    moves = whole_tiles(5, rows, target_rows)
    assert moves[:, 1].tolist() == list(range(target_rows))
    assert (np.diff(moves[:, 0]) >= 0).all()
    assert 0 <= moves[:, 0].min() <= moves[:, 0].max() < rows
    assert rows != target_rows or (moves[:, 0] == moves[:, 1]).all()
