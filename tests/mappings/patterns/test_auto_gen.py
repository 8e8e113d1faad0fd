"""The auto-gen tree has the least energy of all trees, and the requested depth."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.auto_gen import UNREACHED, auto_gen, least_energy
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.star import star
from wse_mappings.schedule import Arrival, LineSchedule


def depth_of(schedule: LineSchedule) -> int:
    """Return the number of messages on the longest path from a PE to the root."""
    parent = dict(schedule.messages[:, :2].tolist())

    def way(pe: int) -> int:
        return 0 if pe == 0 else 1 + way(parent[pe])

    return max(way(pe) for pe in range(schedule.length))


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
def test_the_energy_is_the_least_of_all_trees(length: int, depth: int) -> None:
    best = min(energy for deep, energy in all_trees(length) if deep <= depth)
    assert least_energy(length)[length, min(depth, length - 1)] == best


@given(length=st.integers(1, 90), depth=st.integers(1, 90))
def test_every_pe_is_summed_once_by_the_tree_of_least_energy(length: int, depth: int) -> None:
    schedule = auto_gen(length, 2, Arrival.ADD, depth)
    assert sorted(replay(schedule, [(pe,) for pe in range(length)])[0]) == list(range(length))
    assert sum(hops(schedule)) == least_energy(length)[length, min(depth, length - 1)]
    assert depth_of(schedule) <= depth


@given(length=st.integers(2, 60))
def test_the_ends_are_the_star_and_the_chain(length: int) -> None:
    assert sorted(auto_gen(length, 1, Arrival.ADD, 1).messages.tolist()) == sorted(
        star(length, 1, Arrival.ADD).messages.tolist()
    )
    assert sorted(auto_gen(length, 1, Arrival.ADD, length - 1).messages.tolist()) == sorted(
        chain(length, 1, Arrival.ADD).messages.tolist()
    )


@given(length=st.integers(2, 60), depth=st.integers(1, 60))
def test_colours_alternate_from_a_pe_to_the_one_that_it_sends_to(length: int, depth: int) -> None:
    schedule = auto_gen(length, 1, Arrival.ADD, depth)
    colour = dict(zip(schedule.messages[:, 0].tolist(), schedule.message_colours.tolist(), strict=True))
    assert all(target == 0 or colour[source] != colour[target] for source, target, _ in schedule.messages.tolist())


def test_more_depth_takes_no_more_hops_and_what_is_out_of_reach_stays_so() -> None:
    energy = least_energy(200)
    assert (np.diff(energy[1:, 1:], axis=1) <= 0).all()
    assert (energy[2:, 0] == UNREACHED).all()
    assert energy[200, -1] == 199
    assert energy[200, 1] == 199 * 200 // 2


def test_a_long_line_is_no_deeper_than_the_interpreters_stack() -> None:
    assert len(auto_gen(1024, 1, Arrival.ADD, 1023).messages) == 1023


def test_a_line_cannot_reduce_at_depth_0() -> None:
    with pytest.raises(ValueError, match="auto_gen: depth 0 for a line of 2 PEs: give 1 or more"):
        auto_gen(2, 1, Arrival.ADD, 0)
    assert len(auto_gen(1, 1, Arrival.ADD, 0).messages) == 0
