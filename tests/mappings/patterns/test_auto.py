"""Tests of the search for the cheapest pattern, and of generated reduction trees."""

import math
from functools import cache, partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from tests.wavelet.line_machines import WSE2, cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.program.steps import ROWS
from wse_mappings.patterns.auto import cheapest_pattern, schedule_bound_cycles
from wse_mappings.patterns.auto_gen import auto_gen, best_depth, least_energy
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.line_reduces import both_sides, reduce_multicast
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.pattern import Reduce
from wse_mappings.patterns.pattern_families import Operation, pattern_families
from wse_mappings.patterns.rings import ring_all_reduce
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

ADD = Arrival.ADD
LEVEL = 5  # two ramps of 2 and one
FIXED: dict[str, Reduce] = {"star": star, "chain": chain, "binary_tree": binary_tree, "two_phase": two_phase}


def fabric_cycles(schedule: LineSchedule, words: int, gap: int) -> float:
    """Return the cycles of the fabric model on WSE-2."""
    times = PatternTimes(LineCosts.of(WSE2, gap))
    return times.time([LinePattern(schedule, 0, words, ROWS)]).cycles.total


def fixed_patterns(operation: Operation, length: int, words: int) -> list[LineSchedule]:
    """Return the patterns that a user could have selected, with the parameters of their authors."""
    if operation == "broadcast":
        return [multicast(length, 1, 0)]
    reduces = [*FIXED.values(), partial(auto_gen, depth=best_depth(length, words, LEVEL))]
    if operation == "reduce":
        trees = [k_tree(length, 1, ADD, broadcast=False, groups=groups) for groups in ((), None)]
        return trees + [reduce(length, 1, ADD) for reduce in reduces]
    trees = [k_tree(length, 1, ADD, broadcast=True, groups=groups) for groups in ((), None)]
    ring = [ring_all_reduce(length, 1, ADD)]
    return trees + ring + [reduce_multicast(reduce(length, 1, ADD), 0) for reduce in reduces]


@pytest.mark.parametrize(
    ("operation", "length", "words", "gap"),
    [
        ("reduce", 16, 1, 52),
        ("reduce", 130, 2048, 0),
        ("all_reduce", 1, 1, 0),
        ("all_reduce", 16, 2048, 52),
        ("all_reduce", 130, 1, 52),
        ("broadcast", 2, 2048, 0),
    ],
)
def test_cheapest_pattern_costs_at_most_as_much_as_fixed_patterns(
    operation: Operation, length: int, words: int, gap: int
) -> None:
    def cost(schedule: LineSchedule) -> float:
        return fabric_cycles(schedule, words, gap)

    chosen = cheapest_pattern(operation, length, 1, ADD, words=words, level_cycles=LEVEL, cost=cost)
    assert chosen.cost == cost(chosen.schedule)
    costs = {schedule.name: cost(schedule) for schedule in fixed_patterns(operation, length, words)}
    assert chosen.cost <= min(costs.values()), f"{chosen.label}: {chosen.cost:.0f}; {costs}"


@given(
    operation=st.sampled_from(["reduce", "all_reduce"]),
    length=st.integers(1, 40),
    words=st.integers(1, 300),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_members_of_families_compute_the_operation(
    operation: Operation, length: int, words: int, random: object
) -> None:
    labels = [(pe,) for pe in range(length)]
    for family in pattern_families(operation, length, 3, ADD, words=words, level_cycles=LEVEL):
        assert all(1 <= start <= max(1, family.max_number) for start in family.starts)
        schedule, root = family.make(random.randint(1, family.max_number))  # type: ignore[attr-defined]
        assert schedule.variants.shape == (1, 3)
        if schedule.parts > 1:
            continue  # executed part by part in tests/mappings/patterns/test_reduces.py
        results = [sorted(bag) for bag in replay(schedule, labels)]
        assert results[root] == list(range(length))
        if operation == "all_reduce":
            assert results == [results[root]] * length


@given(operation=st.sampled_from(get_args(Operation)), length=st.integers(1, 14), words=st.integers(1, 60))
@settings(max_examples=10)
def test_bounds_of_patterns_are_at_most_their_cycles(operation: Operation, length: int, words: int) -> None:
    for family in pattern_families(operation, length, 1, ADD, words=words, level_cycles=LEVEL):
        for number in family.starts:
            schedule, _ = family.make(number)
            bound_cycles = family.bound_cycles or schedule_bound_cycles(schedule, words, LEVEL)
            assert bound_cycles <= cycles(schedule, words, gap=0), family.label.format(number)


@pytest.mark.parametrize("make", FIXED.values())
@pytest.mark.parametrize("length", [2, 21])
def test_both_sides_end_in_the_middle_with_separate_colours(make: Reduce, length: int) -> None:
    schedule = both_sides(length, 1, ADD, make)
    sums = replay(schedule, [(pe,) for pe in range(length)])
    assert sorted(sums[length // 2]) == list(range(length))
    is_from_west = schedule.messages[:, 0] < length // 2
    assert not set(schedule.message_colours[is_from_west].tolist()) & set(
        schedule.message_colours[~is_from_west].tolist()
    )
    assert set(schedule.message_colours.tolist()) <= set(range(schedule.colours))


def test_patterns_without_message_colours_can_be_combined() -> None:
    tree = k_tree(9, 2, ADD, broadcast=False)
    all_reduce = reduce_multicast(tree, 4)
    assert all_reduce.message_colours is None
    assert all_reduce.colours == tree.colours + 1
    assert (np.array(replay(all_reduce, list(np.eye(9, dtype=np.int64)))) == 1).all()
    assert (
        both_sides(9, 1, ADD, lambda length, lines, what: k_tree(length, lines, what, broadcast=False)).message_colours
        is None
    )


def test_ring_is_not_used_for_pairs() -> None:
    labels = [f.label for f in pattern_families("all_reduce", 8, 1, Arrival.ARGMAX, words=2, level_cycles=LEVEL)]
    assert "ring" not in labels
    assert "ring" in [f.label for f in pattern_families("all_reduce", 8, 1, ADD, words=2, level_cycles=LEVEL)]


def test_search_changes_the_parameter_until_no_step_helps() -> None:
    """Only two-phase reduces with five long hops are cheap: groups of 17 to 19.

    The search starts from other group sizes.
    """

    def cost(schedule: LineSchedule) -> float:
        distance = abs(sum(hop > 1 for hop in hops(schedule)) - 5) if schedule.name == "two_phase" else math.inf
        return 10_000 + distance  # above the lower bounds of all patterns

    best = cheapest_pattern("reduce", 100, 1, ADD, words=1, level_cycles=LEVEL, cost=cost)
    assert (best.label, best.cost) == ("two-phase in groups of 18", 10_000)


@pytest.mark.parametrize(
    ("operation", "length", "words", "message"),
    [
        ("gather", 4, 4, "auto: gather of 4 words over 4 PEs: give reduce, all_reduce, broadcast, and at least a word"),
        ("reduce", 0, 4, "auto: reduce of 4 words over 0 PEs"),
        ("reduce", 4, 0, "auto: reduce of 0 words over 4 PEs"),
    ],
)
def test_invalid_requests_are_refused(operation: Operation, length: int, words: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cheapest_pattern(operation, length, 1, ADD, words=words, level_cycles=LEVEL, cost=lambda _: 0)


def depth_of(schedule: LineSchedule) -> int:
    """Return the number of messages on the longest path from a PE to the root."""
    parent = dict(schedule.messages[:, :2].tolist())

    def path_length(pe: int) -> int:
        return 0 if pe == 0 else 1 + path_length(parent[pe])

    return max(path_length(pe) for pe in range(schedule.length))


@cache
def all_trees(count: int) -> frozenset[tuple[int, int]]:
    """Return (depth, hops) of every tree that reduces ``count`` neighbours into the first.

    Subtrees must also consist of neighbours.
    """
    if count == 1:
        return frozenset({(0, 0)})
    found = set()
    for last in range(1, count):
        for near, near_hops in all_trees(count - last):
            for far, far_hops in all_trees(last):
                found.add((max(near, far + 1), near_hops + far_hops + count - last))
    return frozenset(found)


@given(length=st.integers(2, 12), depth=st.integers(1, 12))
def test_least_energy_is_the_minimum_of_all_trees(length: int, depth: int) -> None:
    best = min(energy for deep, energy in all_trees(length) if deep <= depth)
    assert least_energy(length)[length, min(depth, length - 1)] == best


@given(length=st.integers(1, 90), depth=st.integers(1, 90))
def test_auto_gen_sums_every_pe_once_with_the_least_energy(length: int, depth: int) -> None:
    schedule = auto_gen(length, 2, Arrival.ADD, depth)
    assert sorted(replay(schedule, [(pe,) for pe in range(length)])[0]) == list(range(length))
    assert sum(hops(schedule)) == least_energy(length)[length, min(depth, length - 1)]
    assert depth_of(schedule) <= depth


@given(length=st.integers(2, 60), depth=st.integers(1, 60))
def test_auto_gen_alternates_colours_along_paths(length: int, depth: int) -> None:
    schedule = auto_gen(length, 1, Arrival.ADD, depth)
    colour = dict(zip(schedule.messages[:, 0].tolist(), schedule.message_colours.tolist(), strict=True))
    assert all(target == 0 or colour[source] != colour[target] for source, target, _ in schedule.messages.tolist())


def test_auto_gen_of_a_long_line_does_not_overflow_the_stack() -> None:
    assert len(auto_gen(1024, 1, Arrival.ADD, 1023).messages) == 1023


def test_auto_gen_refuses_depth_0() -> None:
    with pytest.raises(ValueError, match="auto_gen: depth 0 for a line of 2 PEs: give 1 or more"):
        auto_gen(2, 1, Arrival.ADD, 0)
    assert len(auto_gen(1, 1, Arrival.ADD, 0).messages) == 0
