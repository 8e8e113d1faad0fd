"""Tests of two steps of the line model: cycles of repeated rounds, and division of a line into sections."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.line.rounds import exchange_cycles, rounds_of
from wse.backends.fabric.line.sections import LineArrays, sections_of
from wse.hardware.load import load_wafer
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.rings import ring_reduce
from wse_mappings.patterns.streams import point_to_point
from wse_mappings.schedule import Arrival

COSTS = LineCosts.of(load_wafer("wse2"), gap=7, relay=3, sync=50)


def replay(length: int, line: int, words: int, add_cycles: float) -> list[float]:
    """Simulate all rounds of a store-and-forward ring reduce on one line.

    Each PE stores a message, adds it and then sends the sum. Rounds overlap where different PEs work on them.

    Args:
        length: Number of PEs and of rounds.
        line: Index of the line.
        words: Number of words per message.
        add_cycles: Cycles to add a received message.

    Returns:
        The cycle in which each round ends at its root.
    """
    schedule = ring_reduce(length, store_and_forward=True)
    idle_from = np.zeros(length)
    ends = []
    for round_index in range(length):
        root = int(schedule.line_messages(line, round_index)[-1, 1])
        low = [(pe, pe + 1) for pe in range(root)]
        high = [(pe, pe - 1) for pe in range(length - 1, root, -1)]
        for source, target in low + high:
            begin = max(idle_from[source], idle_from[target])
            idle_from[source] = begin + COSTS.sync + words - 1
            idle_from[target] = idle_from[source] + add_cycles
        ends.append(float(idle_from[root]))
    return ends


@pytest.mark.parametrize(("length", "words"), [(2, 41), (24, 1), (61, 41)])
def test_rounds_of_stored_sums_match_a_simulation_of_all_rounds(length: int, words: int) -> None:
    """The reference is the slowest line, or the slowest of a sample if there are many lines."""
    rounds = rounds_of(ring_reduce(length, store_and_forward=True), words, 20, COSTS)
    simulated = max(replay(length, line, words, add_cycles=20)[-1] for line in range(0, length, 1 + length // 32))
    modelled = rounds.first.total + (length - 1) * rounds.period.total
    assert modelled == pytest.approx(simulated, rel=0.03), (rounds, simulated)


@pytest.mark.parametrize("store_and_forward", [False, True])
def test_first_round_grows_with_the_line_and_further_rounds_do_not(store_and_forward: bool) -> None:  # noqa: FBT001
    short, long = (
        rounds_of(ring_reduce(length, store_and_forward=store_and_forward), 16, 20, COSTS) for length in (100, 400)
    )
    assert short.period == long.period
    assert long.first.total == pytest.approx(4 * short.first.total, rel=0.1)
    assert short.period.total < short.first.total


def test_exchange_between_neighbours_sends_and_then_receives() -> None:
    assert exchange_cycles(1, COSTS) == COSTS.sync + 1
    assert exchange_cycles(32, COSTS) == COSTS.sync + 63
    slow = LineCosts.of(load_wafer("wse3"), gap=7, sync=50)
    assert exchange_cycles(32, slow) == 50 + 63 + 63 // 8


SECTIONS_COSTS = LineCosts.of(load_wafer("wse3"), gap=7, relay=3)
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def adjacent_segments(sizes: list[int]) -> tuple[tuple[int, int], ...]:
    """Return (first PE, number of PEs) of adjacent segments of a line."""
    return tuple((sum(sizes[:i]), size) for i, size in enumerate(sizes))


@given(SIZES, st.integers(1, 300))
@settings(max_examples=15, deadline=None)
def test_line_cycles_are_those_of_its_slowest_section(sizes: list[int], words: int) -> None:
    schedule = k_tree(sum(sizes), 1, Arrival.ADD, broadcast=True, segments=adjacent_segments(sizes))
    got = PatternTimes(SECTIONS_COSTS).time([LinePattern(schedule, 0, words, ROWS)]).cycles
    assert got == line_cycles(schedule.messages, words, SECTIONS_COSTS)


@given(SIZES)
def test_equal_sections_are_merged_and_single_pes_omitted(sizes: list[int]) -> None:
    schedule = k_tree(sum(sizes), 1, Arrival.ADD, broadcast=True, segments=adjacent_segments(sizes))
    assert len(sections_of([LineArrays(schedule.messages, None, None)])) == len(set(sizes) - {1})


def test_sections_with_different_hops_or_colours_are_distinct() -> None:
    messages = k_tree(8, 1, Arrival.ADD, broadcast=True, segments=((0, 4), (4, 4))).messages
    places = np.array([0, 1, 2, 3, 9, 10, 12, 13])
    colours = np.arange(len(messages), dtype=np.int32)
    assert len(sections_of([LineArrays(messages, None, places)])) == 2
    assert len(sections_of([LineArrays(messages, None, np.array([0, 1, 2, 4, 9, 10, 11, 13]))])) == 1
    assert len(sections_of([LineArrays(messages, colours, None)])) == 2


def test_line_is_not_divided_where_another_pattern_passes() -> None:
    apart, over = point_to_point(30, 1, ((0, 9), (10, 17))), multicast(30, 1, 0)
    assert len(sections_of([LineArrays(apart.messages, None, None)])) == 2
    assert len(sections_of([LineArrays(apart.messages, None, None), LineArrays(over.messages, None, None)])) == 1
    times = PatternTimes(SECTIONS_COSTS)
    alone, beside = LinePattern(apart, 0, 200, ROWS), LinePattern(over, 0, 200, COLUMNS)
    assert times.time([alone, beside]).cycles.total > times.time([alone]).cycles.total
