"""Rounds that overlap, against an event by event replay of every PE's part in all of them."""

from __future__ import annotations

import numpy as np
import pytest

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.rounds import exchange_cycles, rounds_of
from wse.hardware.load import load_wafer
from wse_mappings.patterns.ring_reduce import ring_reduce

COSTS = LineCosts.of(load_wafer("wse2"), gap=7, relay=3, sync=50)


def replay(length: int, line: int, words: int, add: float) -> list[float]:
    """The end of each round of a line whose PEs store a message, add it and then send; they alone keep rounds apart."""
    schedule = ring_reduce(length, store_and_forward=True)
    free = np.zeros(length)
    ends = []
    for turn in range(length):
        root = int(schedule.line_messages(line, turn)[-1, 1])
        low = [(pe, pe + 1) for pe in range(root)]
        high = [(pe, pe - 1) for pe in range(length - 1, root, -1)]
        for source, target in low + high:
            begin = max(free[source], free[target])
            free[source] = begin + COSTS.sync + words - 1
            free[target] = free[source] + add
        ends.append(float(free[root]))
    return ends


@pytest.mark.parametrize("length", [2, 9, 24, 61, 128, pytest.param(240, marks=pytest.mark.slow)])
@pytest.mark.parametrize("words", [1, 41])
def test_what_a_further_round_adds_where_sums_are_stored(length: int, words: int) -> None:
    """What the slowest line takes for all of them; of long lines some rounds are left out, where the root turns."""
    rounds = rounds_of(ring_reduce(length, store_and_forward=True), words, 20, COSTS)
    whole = max(replay(length, line, words, add=20)[-1] for line in range(0, length, 1 + length // 32))
    told = rounds.first.total + (length - 1) * rounds.period.total
    assert told == pytest.approx(whole, rel=0.03), (rounds, whole)


@pytest.mark.parametrize("store_and_forward", [False, True])
def test_a_further_round_hangs_on_a_few_pes_and_the_first_on_the_line(store_and_forward: bool) -> None:  # noqa: FBT001
    short, long = (
        rounds_of(ring_reduce(length, store_and_forward=store_and_forward), 16, 20, COSTS) for length in (100, 400)
    )
    assert short.period == long.period
    assert long.first.total == pytest.approx(4 * short.first.total, rel=0.1)
    assert short.period.total < short.first.total


def test_four_transfers_lie_between_a_root_and_the_next_where_sums_are_stored() -> None:
    """Into the old root, over two links to the new one, and what comes to it from the other side."""
    rounds = rounds_of(ring_reduce(200, store_and_forward=True), 30, 11, COSTS)
    four = 4 * (COSTS.sync + 29)
    assert four + 3 * 11 <= rounds.period.total <= four + 4 * 11


def test_sums_that_stream_are_not_held_up_by_whole_messages() -> None:
    stream, store = (
        rounds_of(ring_reduce(100, store_and_forward=store_and_forward), 200, 100, COSTS)
        for store_and_forward in (False, True)
    )
    assert stream.first.total < store.first.total / 10
    assert stream.period.total < store.period.total


def test_an_exchange_between_neighbours_sends_and_then_takes_in() -> None:
    assert exchange_cycles(1, COSTS) == COSTS.sync + 1
    assert exchange_cycles(32, COSTS) == COSTS.sync + 63
    slow = LineCosts.of(load_wafer("wse3"), gap=7, sync=50)
    assert exchange_cycles(32, slow) == 50 + 63 + 63 // 8
