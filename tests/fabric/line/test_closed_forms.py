"""Tests of the closed forms of collectives: against simulator logs, the fabric model and the lower bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_logs import logs

from wse.backends.fabric.line.closed_forms import (
    Grouping,
    closed_form,
    collective_bound,
    distance_to_bound,
    model_cycles,
    reduce_bound,
)
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.errors import BadInput, UnknownName
from wse.hardware.load import load_software, load_wafer
from wse_mappings.outcome import Collective
from wse_mappings.patterns import binary_tree, star, two_phase
from wse_mappings.patterns.auto_gen import auto_gen, best_depth
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival, LineSchedule

WSE2, WSE3 = load_wafer("wse2"), load_wafer("wse3")
TUNED = LineCosts.of(WSE2, load_software("tuned", "wse2").reduce_gap_cycles)


@pytest.mark.parametrize(
    ("pes", "depths"), [(16, (1, 4, 5, 15, 15, 15)), (64, (2, 5, 10, 10, 63, 63)), (256, (3, 7, 10, 21, 22, 255))]
)
def test_best_depth_of_auto_gen_matches_published_depths(pes: int, depths: tuple[int, ...]) -> None:
    words = (1, 16, 64, 256, 1024, 4096)
    assert tuple(best_depth(pes, count, 5) for count in words) == depths


def cycles(pattern: LineSchedule, words: int) -> float:
    return line_cycles(pattern.messages, words, TUNED, pattern.message_colours).total


@given(length=st.integers(2, 300), words=st.integers(1, 4096), grouping=st.sampled_from([None, *Grouping]))
@settings(max_examples=12, deadline=None)
def test_chain_broadcast_and_snake_equal_the_fabric_model(length: int, words: int, grouping: Grouping | None) -> None:
    def form(collective: str, algorithm: str, rows: int = 1) -> float:
        return closed_form(collective, algorithm, rows, length, words, WSE2, grouping=grouping)

    assert form("reduce", "chain") == pytest.approx(cycles(chain(length, 1, Arrival.ADD), words))
    assert form("broadcast", "flooding") == pytest.approx(cycles(multicast(length, 1, 0), words))
    assert form("reduce", "snake", 2) == pytest.approx(cycles(chain(2 * length, 1, Arrival.ADD), words))
    assert closed_form("reduce", "x_y_chain", 1, 1, words, WSE2) == 0


def test_two_phase_with_added_terms_differs_from_the_simulator_by_a_constant() -> None:
    """Over all word counts, the difference varies by at most 2 cycles. With overlapped terms it varies more."""
    rows = sorted(logs("reduce", "two-phase", "first"), key=lambda log: log.words)
    additive, overlapped = (
        [log.cycles - model_cycles(two_phase.terms(log.length, log.words, log.group), WSE2, how) for log in rows]
        for how in Grouping
    )
    assert max(additive) - min(additive) <= 2
    assert max(overlapped) - min(overlapped) > 400


def test_closed_form_uses_hop_and_ramp_cycles_of_the_wafer() -> None:
    """A chain over 100 PEs has 99 relays, each with one hop and two ramps."""
    slower = closed_form("reduce", "chain", 1, 100, 8, WSE3) - closed_form("reduce", "chain", 1, 100, 8, WSE2)
    assert slower == 99 * (WSE3.hop_cycles - WSE2.hop_cycles + 2 * (WSE3.ramp_cycles - WSE2.ramp_cycles))


def test_groupings_differ_if_a_pe_receives_more_words_than_a_link() -> None:
    length = 64
    for terms in (star.terms(length, 500), binary_tree.terms(length, 500), two_phase.terms(length, 500)):
        added, overlapped = (model_cycles(terms, WSE2, grouping) for grouping in Grouping)
        load = terms.energy_hops / terms.links
        assert terms.contention_words > load
        assert added - overlapped == pytest.approx(min(terms.distance_hops, terms.contention_words - load))


@pytest.mark.parametrize(("length", "words"), [(4, 4096), (16, 1), (64, 16), (256, 256), (256, 4096)])
def test_distance_to_bound_has_a_minimum_and_is_small_for_auto_gen(length: int, words: int) -> None:
    reduces_to_one_end = [
        star.star(length, 1, Arrival.ADD),
        chain(length, 1, Arrival.ADD),
        binary_tree.binary_tree(length, 1, Arrival.ADD),
        two_phase.two_phase(length, 1, Arrival.ADD),
        auto_gen(length, 1, Arrival.ADD, best_depth(length, words, 5)),
    ]
    distances = {p.name: distance_to_bound(cycles(p, words), length, words, WSE2) for p in reduces_to_one_end}
    assert min(distances.values()) >= 0.93, distances
    if words >= 16:  # the bound has no launch gaps, which dominate the time of a tree of short messages
        assert distances["auto_gen"] <= 1.4, distances
    for groups in ((), None):
        tree = k_tree(length, 1, Arrival.ADD, broadcast=False, groups=groups)
        root = root_of(length, groups)
        assert distance_to_bound(cycles(tree, words), length, words, WSE2, root=root) >= 0.93


def test_reduce_bound_of_an_inner_root_depends_on_the_longer_side() -> None:
    assert reduce_bound(9, 50, WSE2, root=3) == reduce_bound(6, 50, WSE2) < reduce_bound(9, 50, WSE2)


@pytest.mark.parametrize(
    ("collective", "algorithm", "size", "message"),
    [
        ("gather", "star", (1, 4, 4), "unknown collective 'gather'"),
        ("reduce", "ring", (1, 4, 4), "unknown algorithm of reduce 'ring'"),
        ("broadcast", "floodin", (1, 4, 4), "did you mean 'flooding'"),
        ("reduce", "chain", (2, 4, 4), "closed form of chain: 2x4 PEs are not a line; give one row or column, or use"),
        ("all_reduce", "ring", (2, 4, 4), "closed form of ring: 2x4 PEs are not a line"),
        ("reduce", "snake", (0, 4, 4), "closed form of reduce: 4 words on 0x4 PEs; give at least 1 of each"),
    ],
)
def test_closed_form_refuses_unknown_or_unsupported_collectives(
    collective: str, algorithm: str, size: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(BadInput) as error:
        closed_form(collective, algorithm, *size, WSE2)
    assert message in str(error.value)
    assert isinstance(error.value, UnknownName) == ("unknown" in message or "mean" in message)


@pytest.mark.parametrize(("length", "words", "root"), [(1, 4, 0), (4, 0, 0), (4, 4, 4), (4, 4, -1)])
def test_reduce_bound_refuses_empty_lines_and_roots_outside(length: int, words: int, root: int) -> None:
    with pytest.raises(BadInput, match="give at least 2 PEs and 1 word, and a root on the line"):
        reduce_bound(length, words, WSE2, root=root)


WAFER = load_wafer("wse2")
TIMES = PatternTimes(LineCosts.for_software(WAFER, load_software("tuned", WAFER.generation)))


@pytest.mark.parametrize(("length", "words"), [(2, 30), (40, 1), (40, 30)])
def test_flooding_and_gather_from_an_end_reach_their_bounds(length: int, words: int) -> None:
    for root in (0, length - 1):
        broadcast = TIMES.alone_cycles(multicast(length, 1, root), words)
        gathered = TIMES.alone_cycles(gather(length, 1, range(length), root), words * length)
        assert broadcast == collective_bound("broadcast", length, words, WAFER, root)
        assert gathered == collective_bound("gather", length, words, WAFER, root)


@pytest.mark.parametrize("root", [0, 3, 8])
def test_gather_and_broadcast_are_not_faster_than_their_bounds(root: int) -> None:
    cycles_of_collective: dict[Collective, float] = {
        "broadcast": TIMES.alone_cycles(multicast(9, 1, root), 12),
        "gather": TIMES.alone_cycles(gather(9, 1, range(9), root), 12 * 9),
    }
    for collective, cycles in cycles_of_collective.items():
        bound = collective_bound(collective, 9, 12, WAFER, root)
        assert 0.6 * cycles < bound <= cycles
