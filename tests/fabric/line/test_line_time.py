"""Times of patterns on a line: formulas, causes, streams and contention."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.model import Fabric
from wse.hardware.load import load_software, load_wafer
from wse.program.steps import COLUMNS, ROWS
from wse.studies.validate.agreement.layers import compile_layers, layers
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast
from wse_mappings.patterns.point_to_point import point_to_point
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.patterns.ring_reduce import ring_reduce
from wse_mappings.patterns.ring_shift import ring_shift
from wse_mappings.schedule import Arrival, LineSchedule

WSE2 = LineCosts(hop=1, ramp=2, gap=16, words_per_cycle=1.0, queue_words=2)


def chain(length: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """A reduce from the east end to PE 0, neighbour by neighbour."""
    return np.array([(pe, pe - 1, Arrival.ADD) for pe in range(length - 1, 0, -1)], np.int32)


@given(length=st.integers(2, 512), words=st.integers(1, 8192))
@settings(max_examples=15, deadline=None)
def test_chain_reduce_takes_words_plus_six_a_stage_and_a_constant(length: int, words: int) -> None:
    """T = B + (2 T_R + 2)(P - 1) + constant; the constant is that of one stage, whatever P and B."""
    constant = line_cycles(chain(2), 1, WSE2).total - (1 + 6)
    assert line_cycles(chain(length), words, WSE2).total == words + 6 * (length - 1) + constant


@given(length=st.integers(2, 512), words=st.integers(1, 8192))
@settings(max_examples=12, deadline=None)
def test_flooding_broadcast_takes_words_plus_distance_plus_the_ramps(length: int, words: int) -> None:
    """T = B + P + 2 T_R, from the first operation to the last word in memory."""
    pattern = multicast(length, 1, 0)
    assert line_cycles(pattern.line_messages(0), words, WSE2).total == words + length + 2 * 2


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 48])
def test_a_ring_step_is_two_hops_whatever_the_length(length: int) -> None:
    pattern = ring_shift(length, 1)
    expected = 0 if length == 1 else min(length - 1, 2) + 99 + 3 + 3
    assert line_cycles(pattern.line_messages(0), 100, WSE2).total == expected


@pytest.mark.parametrize("make", [ring_reduce, diagonal_multicast, diagonal_stream])
@pytest.mark.parametrize("length", [1, 2, 3, 17])
@pytest.mark.parametrize("words", [1, 7, 900])
def test_the_variants_called_slowest_bound_all_others(make: object, length: int, words: int) -> None:
    pattern: LineSchedule = make(length)  # type: ignore[operator]

    def slowest(chosen: list[int]) -> float:
        return max(
            line_cycles(pattern.messages[pattern.first[v] : pattern.first[v + 1]], words, WSE2).total for v in chosen
        )

    for variants in pattern.variants:
        assert len(pattern.critical(variants)) <= 5
        assert slowest(pattern.critical(variants)) == slowest(variants.tolist())


def test_causes_of_a_chain_are_distance_streaming_and_stages() -> None:
    cycles = line_cycles(chain(10), 100, WSE2)
    assert cycles.hops == 9 + 99
    assert cycles.relays == 3 + 8 * 5 + 3
    assert cycles.launch == cycles.compute == 0
    assert cycles.total == sum(cycles[1:])


PATTERN_TIMES_WSE2 = load_wafer("wse2")
COSTS = LineCosts.of(PATTERN_TIMES_WSE2, 16)


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
    times = PatternTimes(LineCosts.of(PATTERN_TIMES_WSE2, gap))

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
    software = load_software("tuned", PATTERN_TIMES_WSE2.generation)
    waited = 0.0
    for wanted in layers(4, 3):
        program, machine = compile_layers(wanted, PATTERN_TIMES_WSE2, software)
        cost = Fabric(program, machine, software).decode_cost(wanted.cached)
        hops = cost.by_cause[:, CAUSES.index("hops")]
        assert (cost.contention <= hops).all()
        np.testing.assert_array_equal(cost.contention > 0, cost.streams > 1)
        waited += float(cost.contention.sum())
    assert waited > 0
