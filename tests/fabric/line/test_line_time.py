"""Tests of the cycle counts of patterns on a line: against formulas, by cause, and with several patterns at once."""

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
from wse_mappings.patterns.rings import ring_all_reduce, ring_reduce, ring_shift
from wse_mappings.patterns.streams import point_to_point
from wse_mappings.schedule import Arrival, LineSchedule

WSE2 = LineCosts(hop=1, ramp=2, gap=16, words_per_cycle=1.0, queue_words=2)


def chain(length: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Return the messages of a chain reduce from the last PE to PE 0: int32 ``[length - 1, 3]``."""
    return np.array([(pe, pe - 1, Arrival.ADD) for pe in range(length - 1, 0, -1)], np.int32)


@pytest.mark.parametrize("length", [1, 2, 3, 16])
def test_ring_step_has_two_hops_for_any_length(length: int) -> None:
    pattern = ring_shift(length, 1)
    expected = 0 if length == 1 else min(length - 1, 2) + 99 + 3 + 3
    assert line_cycles(pattern.line_messages(0), 100, WSE2).total == expected


@pytest.mark.parametrize("make", [ring_reduce, diagonal_multicast, diagonal_stream])
@pytest.mark.parametrize(("length", "words"), [(1, 7), (3, 1), (17, 900)])
def test_critical_variants_include_the_slowest(make: object, length: int, words: int) -> None:
    pattern: LineSchedule = make(length)  # type: ignore[operator]

    def slowest(chosen: list[int]) -> float:
        return max(
            line_cycles(pattern.messages[pattern.first[v] : pattern.first[v + 1]], words, WSE2).total for v in chosen
        )

    for variants in pattern.variants:
        assert len(pattern.critical(variants)) <= 5
        assert slowest(pattern.critical(variants)) == slowest(variants.tolist())


def test_chain_cycles_are_attributed_to_hops_and_relays() -> None:
    cycles = line_cycles(chain(10), 100, WSE2)
    assert cycles.hops == 9 + 99
    assert cycles.relays == 3 + 8 * 5 + 3
    assert cycles.launch == cycles.compute == 0
    assert cycles.total == sum(cycles[1:])


PATTERN_TIMES_WSE2 = load_wafer("wse2")
COSTS = LineCosts.of(PATTERN_TIMES_WSE2, 16)


def cycles(*transfers: LinePattern) -> float:
    return PatternTimes(COSTS).time(transfers).cycles.total


@given(
    length=st.integers(2, 80), words=st.integers(1, 900), more_words=st.integers(1, 900), axis=st.sampled_from([0, 1])
)
@settings(max_examples=12, deadline=None)
def test_two_simultaneous_shifts_cost_as_much_as_one_shift_of_all_words(
    length: int, words: int, more_words: int, axis: int
) -> None:
    """Both shifts share the ramps of every PE, on which one word per cycle leaves."""
    shift = ring_shift(length, 1)
    both = cycles(LinePattern(shift, 0, words, ROWS), LinePattern(shift, 0, more_words, axis))
    assert both == cycles(LinePattern(shift, 0, words + more_words, ROWS))


@given(words=st.integers(1, 500), start=st.integers(0, 60), end=st.integers(0, 60))
@settings(max_examples=12, deadline=None)
def test_second_stream_on_a_line_adds_at_most_its_words(words: int, start: int, end: int) -> None:
    if start == end or start in (20, 50) or end in (20, 50):
        return
    one, other = point_to_point(61, 1, ((20, 50),)), point_to_point(61, 1, ((start, end),))
    both = PatternTimes(COSTS).time([LinePattern(point_to_point(61, 1, ((20, 50), (start, end))), 0, words, ROWS)])
    alone = [cycles(LinePattern(schedule, 0, words, ROWS)) for schedule in (one, other)]
    assert max(alone) <= both.cycles.total <= max(alone) + words
    if not max(20, start) < min(50, end):  # the streams share no link
        assert both.cycles.total == max(alone)
        assert (both.contention_cycles, both.streams) == (0, 1)
    elif words > 60:  # the streams are longer than their paths
        assert both.contention_cycles > 0
        assert both.streams == 2


@pytest.mark.parametrize(("length", "words"), [(16, 300), (64, 20)])
def test_contention_of_an_all_reduce_exceeds_that_of_a_reduce_if_there_are_many_words(length: int, words: int) -> None:
    """Multicast words use the ramp of a local root while words of the reduce still arrive there."""
    times = PatternTimes(COSTS)
    both = times.time([LinePattern(k_tree(length, 1, Arrival.ADD, broadcast=True), 0, words, ROWS)])
    reduced = times.time([LinePattern(k_tree(length, 1, Arrival.ADD, broadcast=False), 0, words, ROWS)])
    extra = both.contention_cycles - reduced.contention_cycles
    assert both.cycles.hops >= both.contention_cycles
    assert sum(both.cycles[1:]) == pytest.approx(both.cycles.total)
    assert (extra > words / 2) if words >= 300 else (extra == 0)


@given(length=st.integers(2, 40), words=st.integers(1, 300), gap=st.integers(0, 60))
@settings(max_examples=12, deadline=None)
def test_ring_all_reduce_cycles_follow_from_its_steps(length: int, words: int, gap: int) -> None:
    times = PatternTimes(LineCosts.of(PATTERN_TIMES_WSE2, gap))

    def ring(places: int, total_words: int) -> float:
        return times.time([LinePattern(ring_all_reduce(places, 1, Arrival.ADD), 0, total_words, ROWS)]).cycles.total

    half = words  # 2 * words are divided into two equal parts
    first = 6 + half  # two ramps, one hop and one cycle, then the words
    assert ring(2, 2 * words) == max(first, half + gap) + first
    part = length * words
    steps = 2 * (length - 1)
    hops = 2 if length > 2 else 1
    assert ring(length, part) >= steps * (5 + hops + words - 1)
    assert ring(length, part) <= steps * (5 + hops + words + gap)


def test_pattern_in_parts_is_timed_without_other_patterns() -> None:
    ring, flood = ring_all_reduce(8, 1, Arrival.ADD), multicast(8, 1, 0)
    alone = [cycles(LinePattern(schedule, 0, 64, ROWS)) for schedule in (ring, flood)]
    assert cycles(LinePattern(ring, 0, 64, ROWS), LinePattern(flood, 0, 64, COLUMNS)) == max(alone)


def test_phase_cost_reports_contention_cycles_and_streams_per_step() -> None:
    software = load_software("tuned", PATTERN_TIMES_WSE2.generation)
    contention_cycles = 0.0
    for layer in layers(2, 3):
        program, machine = compile_layers(layer, PATTERN_TIMES_WSE2, software)
        cost = Fabric(program, machine, software).decode_cost(layer.cached)
        hops = cost.by_cause[:, CAUSES.index("hops")]
        assert (cost.contention <= hops).all()
        np.testing.assert_array_equal(cost.contention > 0, cost.streams > 1)
        contention_cycles += float(cost.contention.sum())
    assert contention_cycles > 0
