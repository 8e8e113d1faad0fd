"""Patterns that run at once, those in parts, and what a phase says of words that wait for others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.model import Fabric
from wse.hardware.load import load_software, load_wafer
from wse.program.steps import COLUMNS, ROWS
from wse.studies.validate.agreement.layers import compile_layers, layers
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.point_to_point import point_to_point
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.patterns.ring_shift import ring_shift
from wse_mappings.schedule import Arrival

WSE2 = load_wafer("wse2")
COSTS = LineCosts.of(WSE2, 16)


def cycles(*transfers: LinePattern) -> float:
    return PatternTimes(COSTS).time(transfers).cycles.total


@given(length=st.integers(2, 80), words=st.integers(1, 900), more=st.integers(1, 900), axis=st.sampled_from([0, 1]))
@settings(max_examples=12, deadline=None)
def test_two_shifts_at_once_take_what_one_of_all_words_does(length: int, words: int, more: int, axis: int) -> None:
    """They share the ramps of every PE, and along one axis the links; a word a cycle leaves a PE."""
    shift = ring_shift(length, 1)
    both = cycles(LinePattern(shift, 0, words, ROWS), LinePattern(shift, 0, more, axis))
    assert both == cycles(LinePattern(shift, 0, words + more, ROWS))


@given(words=st.integers(1, 500), start=st.integers(0, 60), end=st.integers(0, 60))
@settings(max_examples=12, deadline=None)
def test_streams_on_a_line_take_the_longest_to_one_after_the_other(words: int, start: int, end: int) -> None:
    if start == end or start in (20, 50) or end in (20, 50):
        return
    one, other = point_to_point(61, 1, ((20, 50),)), point_to_point(61, 1, ((start, end),))
    both = PatternTimes(COSTS).time([LinePattern(point_to_point(61, 1, ((20, 50), (start, end))), 0, words, ROWS)])
    alone = [cycles(LinePattern(schedule, 0, words, ROWS)) for schedule in (one, other)]
    assert max(alone) <= both.cycles.total <= max(alone) + words
    if not max(20, start) < min(50, end):  # no link in one direction
        assert both.cycles.total == max(alone)
        assert (both.contention_cycles, both.streams) == (0, 1)
    elif words > 60:  # longer than the way
        assert both.contention_cycles > 0
        assert both.streams == 2


@pytest.mark.parametrize(("length", "words"), [(16, 8), (16, 300), (64, 20), (64, 1000)])
def test_contention_is_what_an_all_reduce_takes_beyond_its_reduce_and_its_multicast(length: int, words: int) -> None:
    """While words still come to a local root, those that are multicast take its ramp; none where few words go far."""
    times = PatternTimes(COSTS)
    both = times.time([LinePattern(k_tree(length, 1, Arrival.ADD, broadcast=True), 0, words, ROWS)])
    reduced = times.time([LinePattern(k_tree(length, 1, Arrival.ADD, broadcast=False), 0, words, ROWS)])
    extra = both.contention_cycles - reduced.contention_cycles
    assert both.cycles.hops >= both.contention_cycles
    assert sum(both.cycles[1:]) == pytest.approx(both.cycles.total)
    assert (extra > words / 2) if words >= 300 else (extra == 0)


@given(length=st.integers(2, 40), words=st.integers(1, 300), gap=st.integers(0, 60))
@settings(max_examples=12, deadline=None)
def test_a_ring_of_two_is_two_exchanges_and_longer_ones_take_as_many_steps(length: int, words: int, gap: int) -> None:
    times = PatternTimes(LineCosts.of(WSE2, gap))

    def ring(places: int, of: int) -> float:
        return times.time([LinePattern(ring_all_reduce(places, 1, Arrival.ADD), 0, of, ROWS)]).cycles.total

    half = words  # of 2 * words: both parts alike
    first = 6 + half  # two ramps, a hop and a cycle, then the words
    assert ring(2, 2 * words) == max(first, half + gap) + first
    part = length * words
    steps = 2 * (length - 1)
    hops = 2 if length > 2 else 1
    assert ring(length, part) >= steps * (5 + hops + words - 1)
    assert ring(length, part) <= steps * (5 + hops + words + gap)


def test_patterns_in_parts_beside_others_are_timed_alone() -> None:
    ring, flood = ring_all_reduce(8, 1, Arrival.ADD), multicast(8, 1, 0)
    alone = [cycles(LinePattern(schedule, 0, 64, ROWS)) for schedule in (ring, flood)]
    assert cycles(LinePattern(ring, 0, 64, ROWS), LinePattern(flood, 0, 64, COLUMNS)) == max(alone)


def test_a_phase_says_which_steps_wait_for_words_of_others_and_how_many_share_a_link() -> None:
    software = load_software("tuned", WSE2.generation)
    waited = 0.0
    for wanted in layers(4, 3):
        program, machine = compile_layers(wanted, WSE2, software)
        cost = Fabric(program, machine, software).decode_cost(wanted.cached)
        hops = cost.by_cause[:, CAUSES.index("hops")]
        assert (cost.contention <= hops).all()
        np.testing.assert_array_equal(cost.contention > 0, cost.streams > 1)
        waited += float(cost.contention.sum())
    assert waited > 0
