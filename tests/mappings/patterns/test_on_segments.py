"""All-reduces over segments of a line: who has which sum, and the colours that they need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.mappings.replay import replay
from wse_mappings.outcome import outcome_of
from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
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
