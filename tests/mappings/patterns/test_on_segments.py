"""Patterns on segments of a line, and between wafers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import replay
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.split import balanced_segments
from wse_mappings.outcome import outcome_of
from wse_mappings.patterns.between_wafers import wafer_all_reduce, wafer_multicast, wafer_reduce
from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.on_segments import all_reduce_on_segments
from wse_mappings.schedule import Arrival, LineSchedule

MADE: dict[str, Callable[[int], LineSchedule]] = {
    "chain": lambda length: chain(length, 1, Arrival.ADD),
    "both_sides": lambda length: both_sides(length, 1, Arrival.ADD, chain),
    "k_tree": lambda length: k_tree(length, 1, Arrival.ADD, broadcast=False),
    "k_tree_all_reduce": lambda length: k_tree(length, 1, Arrival.ADD, broadcast=True),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_all_pes_of_a_line_get_its_sum(name: str, length: int) -> None:
    if length > 1:
        assert outcome_of(all_reduce_on_segments(MADE[name], length, 1, Arrival.ADD)).collective == "all_reduce"
    values = [float(pe * pe) for pe in range(length)]
    largest = all_reduce_on_segments(MADE[name], length, 3, Arrival.MAX)
    assert replay(largest, values, line=2) == [max(values)] * length


@pytest.mark.parametrize("name", MADE)
def test_stretches_have_sums_of_their_own(name: str) -> None:
    segments = ((0, 3), (3, 1), (4, 5))
    schedule = all_reduce_on_segments(MADE[name], 9, 1, Arrival.ADD, segments=segments)
    values = list(range(1, 10))
    sums = [sum(values[start : start + count]) for start, count in segments for _ in range(count)]
    assert replay(schedule, values) == sums


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("segment", [(2, 4), (0, 5), (4, 5), (3, 1)])
def test_the_sum_of_a_stretch_goes_to_all_pes(name: str, segment: tuple[int, int]) -> None:
    _, count = segment
    schedule = all_reduce_on_segments(MADE[name], 9, 1, Arrival.ADD, segments=(segment,), to_all=True)
    assert replay(schedule, [1] * 9) == [count] * 9


def test_an_all_reduce_stays_as_it_is_and_a_reduce_takes_a_colour_more() -> None:
    tree = MADE["k_tree_all_reduce"](20)
    placed = all_reduce_on_segments(MADE["k_tree_all_reduce"], 20, 1, Arrival.ADD)
    assert placed.messages.tolist() == tree.messages.tolist()
    assert placed.colours == tree.colours
    assert all_reduce_on_segments(MADE["chain"], 20, 1, Arrival.ADD).colours == 3


@given(each=st.integers(1, 6), wafers=st.integers(1, 6), where=st.data())
def test_wafers_of_a_team_have_the_sum_in_their_order(each: int, wafers: int, where: st.DataObject) -> None:
    place, teams = where.draw(st.integers(0, each - 1)), where.draw(st.integers(1, wafers))
    schedule = wafer_all_reduce(each * wafers, 2, wafers, place, Arrival.ADD, teams)
    words = [f"({pe})" for pe in range(each * wafers)]
    held = replay(schedule, words, [""] * len(words), line=1)
    for first, count in balanced_segments(wafers, teams):
        columns = [wafer * each + place for wafer in range(first, first + count)]
        assert {held[column] for column in columns} == {"".join(words[column] for column in columns)}
    assert sum(map(bool, held)) == wafers


@given(each=st.integers(1, 6), wafers=st.integers(2, 6), where=st.data())
def test_words_of_one_wafer_reach_a_column_of_all_others(each: int, wafers: int, where: st.DataObject) -> None:
    one, (leave, enter) = where.draw(st.integers(0, wafers - 1)), where.draw(st.tuples(*[st.integers(0, each - 1)] * 2))
    before = list(range(each * wafers))
    held = replay(wafer_multicast(each * wafers, 1, wafers, one, leave, enter), before)
    for wafer in range(wafers):
        got = one * each + leave if wafer != one else one * each + enter
        assert held[wafer * each + enter] == got
    assert sum(a != b for a, b in zip(held, before, strict=True)) == wafers - 1


@given(each=st.integers(1, 6), wafers=st.integers(2, 6), where=st.data())
def test_one_wafer_adds_what_the_others_have_to_its_own(each: int, wafers: int, where: st.DataObject) -> None:
    one, place = where.draw(st.integers(0, wafers - 1)), where.draw(st.integers(0, each - 1))
    words = [f"({pe})" for pe in range(each * wafers)]
    held = replay(wafer_reduce(each * wafers, 1, wafers, one, place), words, [""] * len(words))
    order = [one, *(wafer for wafer in range(wafers) if wafer != one)]
    assert held[one * each + place] == "".join(words[wafer * each + place] for wafer in order)
    assert sum(map(bool, held)) == 1


@given(each=st.integers(1, 9), segment_count=st.integers(1, 5), where=st.data())
def test_a_multicast_in_stretches_stays_in_each(each: int, segment_count: int, where: st.DataObject) -> None:
    root = where.draw(st.integers(0, each - 1))
    held = replay(multicast(each * segment_count, 1, root, segment_count), list(range(each * segment_count)))
    assert held == [pe // each * each + root for pe in range(each * segment_count)]


@given(each=st.integers(1, 9), segment_count=st.integers(1, 5), heads=st.integers(1, 20))
def test_heads_go_to_whole_stretches_or_stretches_to_whole_heads(each: int, segment_count: int, heads: int) -> None:
    groups = head_groups(each * segment_count, heads, 8, 8, segment_count=segment_count)
    of_stretch = groups.kv_heads.reshape(segment_count, -1)
    held = [sorted(set(row[row >= 0].tolist())) for row in of_stretch]
    if heads >= segment_count:
        assert sorted(head for mine in held for head in mine) == list(range(heads)), "no head is on two stretches"
        found = [first // each for first, _ in groups.segments]
        counts = [found.count(stretch) for stretch in range(segment_count)]
        assert max(counts) - min(counts) <= 1
    else:
        assert {len(mine) for mine in held} == {1}
    rows = groups.rows(8, 3)
    assert sorted(rows[rows >= 0].tolist()) == list(range(heads * 24))


@given(each=st.integers(1, 40), wafers=st.integers(2, 5), kv_heads=st.integers(1, 6), share=st.integers(1, 8))
def test_copies_of_a_kv_head_are_beside_their_queries(each: int, wafers: int, kv_heads: int, share: int) -> None:
    """Every query feature is on one column, together with the same feature of its keys."""
    size = 6
    groups = head_groups_of_wafers(each * wafers, kv_heads, share, size, 4, segment_count=wafers)
    assert share % groups.copies == 0
    if kv_heads * share >= wafers:
        assert len(groups.segments) >= wafers, "no scores are summed over wafers"
    queries, keys = groups.rows(size, share), groups.rows(size, 1)
    assert sorted(queries[queries >= 0].tolist()) == list(range(kv_heads * share * size))
    assert set(keys[keys >= 0].tolist()) == set(range(kv_heads * size))
    here = (each * wafers, groups.kv_heads_per_col, share // groups.copies, groups.features_per_head)
    beside = np.broadcast_to(keys.reshape(here[0], here[1], 1, here[3]), here)
    queries = queries.reshape(here)
    real = queries >= 0
    assert (queries[real] % size == beside[real] % size).all()
    assert (queries[real] // size // share == beside[real] // size).all()


def test_as_many_copies_are_taken_as_leave_the_fewest_weights() -> None:
    """There are eight KV heads of 64 pairs with 8 queries each, on 8 wafers of 750 columns.

    Each group has one query head.
    """
    groups = head_groups_of_wafers(6000, 8, 8, 128, 128, segment_count=8)
    assert (groups.copies, groups.features_per_head) == (8, 2)
