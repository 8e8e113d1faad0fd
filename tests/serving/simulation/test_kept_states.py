"""Tests of models with linear attention: a prompt continues only where the state of an earlier one was kept."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plain_costs import PlainCosts
from tests.support.plain_workload import BLOCK, chained_workload
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.kv.kv_room import KvRoom
from wse.serving.simulation.kv.kv_tiers import KvTier
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.statistics import first_token_s

CHAINS = st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=20)


def cached_tokens(chains: Sequence[Sequence[int]], **costs: Any) -> tuple[list[int], KvRoom]:
    """Serve requests one after another; return how many prompt tokens each continues, and the KV cache."""
    work = chained_workload(chains, 1_000.0)
    room = KvRoom(work, PlainCosts(**costs), prefix_cache=True)
    counts = []
    for request in range(len(chains)):
        assert room.fits(request)
        counts.append(room.take(request))
        room.keep_prefix(request)
        room.give_back(request)
    return counts, room


def test_prompt_continues_only_at_the_end_of_an_earlier_prefix() -> None:
    """The second prompt finds the blocks 1 and 2, but no state at their end; its blocks are stored once."""
    chains = [[1, 2, 3], [1, 2, 4], [1, 2, 3, 5], [1, 2], [1, 2, 6]]
    counts, room = cached_tokens(chains, max_states=100, kv_capacity_tokens=1_000)
    assert counts == [0, 0, 30, 0, 20]
    assert room.occupied == 6 * BLOCK
    assert room.reserved == 0


@given(CHAINS)
def test_longest_kept_prefix_is_continued_if_there_is_room(chains: list[list[int]]) -> None:
    counts, _ = cached_tokens(chains, max_states=100)
    for request, chain in enumerate(chains):
        ends = [len(e) for e in chains[:request] if e == chain[: len(e)]]
        assert counts[request] == BLOCK * max(ends, default=0)


def test_states_of_users_and_prefixes_share_their_room() -> None:
    """With three states, one for the user, two prefixes can be continued: those that were used last."""
    chains = [[1], [2], [1], [3], [1], [2]]
    assert cached_tokens(chains, max_states=3)[0] == [0, 0, 10, 0, 10, 0]
    counts, room = cached_tokens(chains, max_states=1)
    assert counts == [0] * 6
    assert [room.take(0), room.take(1)] == [0, 0]  # users are limited elsewhere, not by the states


@given(CHAINS, st.integers(1, 4), st.integers(0, 20), st.integers(0, 120))
def test_requests_are_served_however_small_the_room_is(
    chains: list[list[int]], max_states: int, state_tokens: int, spare_tokens: int
) -> None:
    """The longest request has 60 tokens, so that 8 blocks and its own state just fit."""
    capacity = 64 + state_tokens + spare_tokens
    counts, room = cached_tokens(
        chains, max_states=max_states, state_tokens=state_tokens, kv_capacity_tokens=capacity, kv_block_tokens=8
    )
    without_states, _ = cached_tokens(chains)
    assert all(count <= most for count, most in zip(counts, without_states, strict=True))
    assert room.reserved == 0
    assert 0 <= room.free <= capacity


def tier(**values: Any) -> KvTier:
    """Return a tier in which a state is as large as 20 tokens."""
    return KvTier(**{"name": "host", "capacity_tokens": 1_000, "s_per_token": 0.01, "latency_s": 0.1, **values})


def simulate(chains: Sequence[Sequence[int]], *tiers: KvTier, **costs: Any) -> SimulationOutcome:
    """Simulate requests one after another; a prompt token takes 1 s."""
    policy = ContinuousPolicy(max_users=1, prompt_tokens=1_000, prefix_cache=True, kv_tiers=tiers)
    return simulate_continuous(chained_workload(chains, 1_000.0), PlainCosts(pass_s=0.5, prompt_s=1.0, **costs), policy)


def test_prefix_is_loaded_with_its_state() -> None:
    """The cache has room for one request. A load takes 0.1 s + 30 x 0.01 s + 3 s for the state."""
    chains = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [1, 2]]
    host = tier(state_tokens=20, s_per_state=3.0)
    outcome = simulate(chains, host, max_states=10, kv_capacity_tokens=40)
    assert first_token_s(outcome) == pytest.approx([35, 35, 5 + 3.4, 25])
    assert outcome.prefixes.loaded_tokens == (30,)
    assert outcome.prefixes.loaded_states == (1,)
    small = simulate(chains, replace(host, capacity_tokens=79), max_states=10, kv_capacity_tokens=40)
    assert small.prefixes.loaded_states == (0,)  # two prefixes of 30 tokens and one state of 20 do not fit


@pytest.mark.parametrize(("max_states", "parked"), [(2, 2), (1, 3)])
def test_parked_state_continues_a_prefix_that_is_still_in_the_cache(max_states: int, parked: int) -> None:
    """With two states, one for the user, the state of the first prefix is parked and its blocks stay.

    With one state, which the user needs, no state is kept, and all are parked.
    """
    chains = [[1, 2, 3], [4, 5, 6], [1, 2, 3]]
    outcome = simulate(chains, tier(state_tokens=20, s_per_state=3.0), max_states=max_states)
    assert first_token_s(outcome) == pytest.approx([35, 35, 5 + 3.1])
    assert (outcome.prefixes.cached_tokens, outcome.prefixes.loaded_tokens) == (30, (0,))
    assert outcome.prefixes.parked_tokens == (parked * 20,)
