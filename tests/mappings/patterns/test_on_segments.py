"""Tests of patterns on segments of a line, of patterns between wafers, and of head groups on segments."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import replay
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.split import balanced_segments
from wse_mappings.outcome import outcome_of
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.line_reduces import both_sides
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.on_segments import all_reduce_on_segments
from wse_mappings.patterns.wafer_collectives import wafer_all_reduce, wafer_multicast, wafer_reduce
from wse_mappings.schedule import Arrival, LineSchedule

PATTERNS: dict[str, Callable[[int], LineSchedule]] = {
    "chain": lambda length: chain(length, 1, Arrival.ADD),
    "both_sides": lambda length: both_sides(length, 1, Arrival.ADD, chain),
    "k_tree": lambda length: k_tree(length, 1, Arrival.ADD, broadcast=False),
    "k_tree_all_reduce": lambda length: k_tree(length, 1, Arrival.ADD, broadcast=True),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("length", [1, 7])
def test_all_reduce_gives_the_sum_to_all_pes(name: str, length: int) -> None:
    if length > 1:
        assert outcome_of(all_reduce_on_segments(PATTERNS[name], length, 1, Arrival.ADD)).collective == "all_reduce"
    values = [float(pe * pe) for pe in range(length)]
    largest = all_reduce_on_segments(PATTERNS[name], length, 3, Arrival.MAX)
    assert replay(largest, values, line=2) == [max(values)] * length


@pytest.mark.parametrize("name", PATTERNS)
def test_segments_have_separate_sums(name: str) -> None:
    segments = ((0, 3), (3, 1), (4, 5))
    schedule = all_reduce_on_segments(PATTERNS[name], 9, 1, Arrival.ADD, segments=segments)
    values = list(range(1, 10))
    sums = [sum(values[start : start + count]) for start, count in segments for _ in range(count)]
    assert replay(schedule, values) == sums


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("segment", [(2, 4), (3, 1)])
def test_sum_of_a_segment_is_sent_to_all_pes(name: str, segment: tuple[int, int]) -> None:
    _, count = segment
    schedule = all_reduce_on_segments(PATTERNS[name], 9, 1, Arrival.ADD, segments=(segment,), to_all=True)
    assert replay(schedule, [1] * 9) == [count] * 9


def test_all_reduce_is_unchanged_and_a_reduce_needs_one_more_colour() -> None:
    tree = PATTERNS["k_tree_all_reduce"](20)
    placed = all_reduce_on_segments(PATTERNS["k_tree_all_reduce"], 20, 1, Arrival.ADD)
    assert placed.messages.tolist() == tree.messages.tolist()
    assert placed.colours == tree.colours
    assert all_reduce_on_segments(PATTERNS["chain"], 20, 1, Arrival.ADD).colours == 3


@given(cols_per_wafer=st.integers(1, 6), wafers=st.integers(1, 6), data=st.data())
def test_wafers_of_a_team_get_the_sum_in_wafer_order(cols_per_wafer: int, wafers: int, data: st.DataObject) -> None:
    place, teams = data.draw(st.integers(0, cols_per_wafer - 1)), data.draw(st.integers(1, wafers))
    schedule = wafer_all_reduce(cols_per_wafer * wafers, 2, wafers, place, Arrival.ADD, teams)
    words = [f"({pe})" for pe in range(cols_per_wafer * wafers)]
    results = replay(schedule, words, [""] * len(words), line=1)
    for first, count in balanced_segments(wafers, teams):
        columns = [wafer * cols_per_wafer + place for wafer in range(first, first + count)]
        assert {results[column] for column in columns} == {"".join(words[column] for column in columns)}
    assert sum(map(bool, results)) == wafers


@given(cols_per_wafer=st.integers(1, 6), wafers=st.integers(2, 6), data=st.data())
def test_multicast_of_one_wafer_reaches_a_column_of_all_others(
    cols_per_wafer: int, wafers: int, data: st.DataObject
) -> None:
    root_wafer = data.draw(st.integers(0, wafers - 1))
    leave, enter = data.draw(st.tuples(*[st.integers(0, cols_per_wafer - 1)] * 2))
    before = list(range(cols_per_wafer * wafers))
    results = replay(wafer_multicast(cols_per_wafer * wafers, 1, wafers, root_wafer, leave, enter), before)
    for wafer in range(wafers):
        got = root_wafer * cols_per_wafer + leave if wafer != root_wafer else root_wafer * cols_per_wafer + enter
        assert results[wafer * cols_per_wafer + enter] == got
    assert sum(a != b for a, b in zip(results, before, strict=True)) == wafers - 1


@given(cols_per_wafer=st.integers(1, 6), wafers=st.integers(2, 6), data=st.data())
def test_reduce_adds_words_of_other_wafers_to_those_of_one(
    cols_per_wafer: int, wafers: int, data: st.DataObject
) -> None:
    root_wafer, place = data.draw(st.integers(0, wafers - 1)), data.draw(st.integers(0, cols_per_wafer - 1))
    words = [f"({pe})" for pe in range(cols_per_wafer * wafers)]
    results = replay(wafer_reduce(cols_per_wafer * wafers, 1, wafers, root_wafer, place), words, [""] * len(words))
    order = [root_wafer, *(wafer for wafer in range(wafers) if wafer != root_wafer)]
    assert results[root_wafer * cols_per_wafer + place] == "".join(
        words[wafer * cols_per_wafer + place] for wafer in order
    )
    assert sum(map(bool, results)) == 1


@given(cols_per_wafer=st.integers(1, 9), segment_count=st.integers(1, 5), data=st.data())
def test_multicast_in_segments_stays_in_each_segment(
    cols_per_wafer: int, segment_count: int, data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, cols_per_wafer - 1))
    results = replay(
        multicast(cols_per_wafer * segment_count, 1, root, segment_count), list(range(cols_per_wafer * segment_count))
    )
    assert results == [pe // cols_per_wafer * cols_per_wafer + root for pe in range(cols_per_wafer * segment_count)]


@given(cols_per_wafer=st.integers(1, 9), segment_count=st.integers(1, 5), heads=st.integers(1, 20))
def test_heads_have_whole_segments_or_segments_have_whole_heads(
    cols_per_wafer: int, segment_count: int, heads: int
) -> None:
    groups = head_groups(cols_per_wafer * segment_count, heads, 8, 8, segment_count=segment_count)
    kv_heads = groups.kv_heads.reshape(segment_count, -1)
    heads_by_segment = [sorted(set(row[row >= 0].tolist())) for row in kv_heads]
    if heads >= segment_count:
        assert sorted(head for heads_on_segment in heads_by_segment for head in heads_on_segment) == list(
            range(heads)
        ), "no head is on two segments"
        found = [first // cols_per_wafer for first, _ in groups.segments]
        counts = [found.count(segment) for segment in range(segment_count)]
        assert max(counts) - min(counts) <= 1
    else:
        assert {len(heads_on_segment) for heads_on_segment in heads_by_segment} == {1}
    rows = groups.rows(8, 3)
    assert sorted(rows[rows >= 0].tolist()) == list(range(heads * 24))


@given(
    cols_per_wafer=st.integers(1, 40),
    wafers=st.integers(2, 5),
    kv_heads=st.integers(1, 6),
    queries_per_kv=st.integers(1, 8),
)
def test_copies_of_a_kv_head_are_on_the_columns_of_their_queries(
    cols_per_wafer: int, wafers: int, kv_heads: int, queries_per_kv: int
) -> None:
    """Every query feature is on one column, together with the same feature of its keys."""
    size = 6
    groups = head_groups_of_wafers(cols_per_wafer * wafers, kv_heads, queries_per_kv, size, 4, segment_count=wafers)
    assert queries_per_kv % groups.copies == 0
    if kv_heads * queries_per_kv >= wafers:
        assert len(groups.segments) >= wafers, "no scores are summed over wafers"
    queries, keys = groups.rows(size, queries_per_kv), groups.rows(size, 1)
    assert sorted(queries[queries >= 0].tolist()) == list(range(kv_heads * queries_per_kv * size))
    assert set(keys[keys >= 0].tolist()) == set(range(kv_heads * size))
    shape = (
        cols_per_wafer * wafers,
        groups.kv_heads_per_col,
        queries_per_kv // groups.copies,
        groups.features_per_head,
    )
    keys_of_queries = np.broadcast_to(keys.reshape(shape[0], shape[1], 1, shape[3]), shape)
    queries = queries.reshape(shape)
    is_feature = queries >= 0
    assert (queries[is_feature] % size == keys_of_queries[is_feature] % size).all()
    assert (queries[is_feature] // size // queries_per_kv == keys_of_queries[is_feature] // size).all()


def test_number_of_copies_minimises_the_weights() -> None:
    """There are eight KV heads of 64 pairs with 8 queries each, on 8 wafers of 750 columns.

    Each group has one query head.
    """
    groups = head_groups_of_wafers(6000, 8, 8, 128, 128, segment_count=8)
    assert (groups.copies, groups.features_per_head) == (8, 2)
