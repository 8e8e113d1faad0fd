"""Sections of a line: where the line is cut, which are equal, and that the slowest one decides."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.line.sections import LineArrays, sections_of
from wse.hardware.load import load_wafer
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.point_to_point import point_to_point
from wse_mappings.schedule import Arrival

COSTS = LineCosts.of(load_wafer("wse3"), gap=7, relay=3)
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def head_groups(sizes: list[int]) -> tuple[tuple[int, int], ...]:
    """Segments of a line, one after another."""
    return tuple((sum(sizes[:i]), size) for i, size in enumerate(sizes))


@given(SIZES, st.integers(1, 300))
@settings(max_examples=15, deadline=None)
def test_a_line_needs_the_time_of_its_slowest_section(sizes: list[int], words: int) -> None:
    schedule = k_tree(sum(sizes), 1, Arrival.ADD, broadcast=True, segments=head_groups(sizes))
    got = PatternTimes(COSTS).time([LinePattern(schedule, 0, words, ROWS)]).cycles
    assert got == line_cycles(schedule.messages, words, COSTS)


@given(SIZES)
def test_equal_sections_are_one_and_single_pes_are_none(sizes: list[int]) -> None:
    schedule = k_tree(sum(sizes), 1, Arrival.ADD, broadcast=True, segments=head_groups(sizes))
    assert len(sections_of([LineArrays(schedule.messages, None, None)])) == len(set(sizes) - {1})


def test_sections_differ_by_the_hops_between_their_pes_and_by_colours() -> None:
    messages = k_tree(8, 1, Arrival.ADD, broadcast=True, segments=((0, 4), (4, 4))).messages
    places = np.array([0, 1, 2, 3, 9, 10, 12, 13])
    colours = np.arange(len(messages), dtype=np.int32)
    assert len(sections_of([LineArrays(messages, None, places)])) == 2
    assert len(sections_of([LineArrays(messages, None, np.array([0, 1, 2, 4, 9, 10, 11, 13]))])) == 1
    assert len(sections_of([LineArrays(messages, colours, None)])) == 2


def test_a_line_is_not_cut_where_another_pattern_passes() -> None:
    apart, over = point_to_point(30, 1, ((0, 9), (10, 17))), multicast(30, 1, 0)
    assert len(sections_of([LineArrays(apart.messages, None, None)])) == 2
    assert len(sections_of([LineArrays(apart.messages, None, None), LineArrays(over.messages, None, None)])) == 1
    times = PatternTimes(COSTS)
    alone, beside = LinePattern(apart, 0, 200, ROWS), LinePattern(over, 0, 200, COLUMNS)
    assert times.time([alone, beside]).cycles.total > times.time([alone]).cycles.total
