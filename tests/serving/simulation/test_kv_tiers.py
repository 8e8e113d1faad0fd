"""Tests of tiers that store evicted prefixes: a prefix is loaded if that is faster than reading it again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_costs import PlainCosts

from tests.support.plain_workload import BLOCK, chained_workload
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.kv.kv_tiers import KvTier, ParkedBlocks
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.statistics import first_token_s
from wse.serving.simulation.workload import Workload


def simulate(workload: Workload, costs: PlainCosts, *tiers: KvTier, chunk: int | None = 1_000) -> SimulationOutcome:
    """Simulate a workload with tiers for evicted prefixes; `chunk` is the number of prompt tokens per round."""
    policy = ContinuousPolicy(max_users=8, prompt_tokens=chunk, prefix_cache=True, kv_tiers=tiers)
    return simulate_continuous(workload, costs, policy)


def tier(tokens: int = 1_000, s_per_token: float = 0.01, latency_s: float = 0.1) -> KvTier:
    """Return a tier in host memory."""
    return KvTier(name="host", capacity_tokens=tokens, s_per_token=s_per_token, latency_s=latency_s)


@pytest.mark.parametrize("chunk", [1_000, None], ids=["passes", "gaps"])
def test_two_users_reload_their_prefixes_in_a_cache_for_one(chunk: int | None) -> None:
    """Each user reads 75 tokens first. Later, 70 tokens are loaded in 0.1 s + 70 x 0.01 s, and 5 are read in 5 s.
    The requests do not overlap. A cache of 80 tokens has room for one prompt and its answer.
    """
    chains = [[user * 10 + block for block in range(7)] for user in (0, 1, 0, 1, 0)]
    costs = PlainCosts(pass_s=0.5, prompt_s=1.0, kv_capacity_tokens=80)
    work = chained_workload(chains, every_s=200.0)
    outcome = simulate(work, costs, tier(), chunk=chunk)
    assert first_token_s(outcome) == pytest.approx([75.0, 75.0, 5.8, 5.8, 5.8])
    assert outcome.start_s == pytest.approx(work.arrival_s)
    assert outcome.prefixes.loaded_tokens == (3 * 70,)
    assert outcome.prefixes.parked_tokens == (4 * 70,)
    assert (outcome.prefixes.hits, outcome.prefixes.known_tokens, outcome.prefixes.recomputed_tokens) == (3, 210, 0)


@pytest.mark.parametrize(("s_per_token", "is_loaded"), [(0.999, False), (0.997, True)])
def test_reading_again_is_chosen_when_it_is_faster(s_per_token: float, *, is_loaded: bool) -> None:
    """Loading 70 tokens takes 0.1 s plus their transfer; reading them takes 70 s."""
    chains = [[user * 10 + block for block in range(7)] for user in (0, 1, 0)]
    costs = PlainCosts(pass_s=0.5, prompt_s=1.0, kv_capacity_tokens=80)
    outcome = simulate(chained_workload(chains, every_s=200.0), costs, tier(s_per_token=s_per_token))
    assert outcome.prefixes.loaded_tokens == (70 * is_loaded,)
    assert outcome.prefixes.recomputed_tokens == 70 * (not is_loaded)
    assert first_token_s(outcome)[2] == pytest.approx(5.1 + 70 * s_per_token if is_loaded else 75)


def test_loads_over_a_link_are_sequential_and_leave_the_machine_to_others() -> None:
    """Users 0 and 1 return at the same time, and their loads end after 7 s and 14 s. User 3 has nothing to load."""
    first, second, large = list(range(7)), list(range(10, 17)), list(range(20, 42))
    chains = [first, second, large, first, second, []]
    costs = PlainCosts(pass_s=0.001, prompt_s=1.0, kv_capacity_tokens=240)
    work = chained_workload(chains, every_s=500.0)
    work = replace(work, arrival_s=np.array([0.0, 500.0, 1_000.0, 2_000.0, 2_000.0, 2_000.0]))
    outcome = simulate(work, costs, tier(s_per_token=0.1, latency_s=0.0), chunk=None)
    assert outcome.prefixes.loaded_tokens == (2 * 70,)
    assert first_token_s(outcome)[3:] == pytest.approx([7 + 5, 14 + 5, 5], abs=0.1)


def test_blocks_move_from_tier_to_tier_in_the_order_of_use() -> None:
    parked = ParkedBlocks([tier(20), tier(30), tier(100)])
    for block in range(8):
        parked.park(block, BLOCK)
    assert [parked.tier_of(block) for block in range(8)] == [2, 2, 2, 1, 1, 1, 0, 0]
    parked.remove(4)
    parked.park(8, BLOCK)
    assert [parked.tier_of(block) for block in range(9)] == [2, 2, 2, 1, None, 1, 1, 0, 0]
    parked.park(9, 25)  # too large for the first tier
    assert [parked.tier_of(block) for block in range(10)] == [2, 2, 2, 2, None, 2, 2, 0, 0, 1]
    assert parked.parked_tokens == [90, 70 + 25, 60]
    parked.park(10, 101)
    assert parked.tier_of(10) is None


CHAINS = st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=25)


@given(CHAINS, st.lists(st.integers(0, 60), max_size=3), st.integers(0, 100))
def test_larger_tiers_never_save_fewer_tokens(chains: list[list[int]], sizes: list[int], more: int) -> None:
    """Users do not overlap and loads are fast, so the tiers and the cache are one stack of recently used blocks."""
    costs = PlainCosts(pass_s=0.5, prompt_s=1.0, kv_capacity_tokens=60)
    work = chained_workload(chains, every_s=100.0)
    fast = {"s_per_token": 1e-3, "latency_s": 0.0}
    plain, small, large = (
        simulate(work, costs, *tiers)
        for tiers in ([], [tier(size, **fast) for size in sizes], [tier(size, **fast) for size in [*sizes, more]])
    )
    uses = [outcome.prefixes for outcome in (plain, small, large)]
    assert [use.saved_tokens for use in uses] == sorted(use.saved_tokens for use in uses)
    assert len({use.known_tokens for use in uses}) == 1
    for outcome, use in zip((plain, small, large), uses, strict=True):
        assert use.cached_tokens >= 0 <= min(use.loaded_tokens, default=0)
        assert use.recomputed_tokens >= 0
        assert use.known_tokens <= work.prompt_tokens.sum()
        assert (first_token_s(outcome) <= first_token_s(plain) + 1e-9).all()


@given(CHAINS, st.integers(0, 200), st.floats(0, 20), st.sampled_from([16, None]), st.sampled_from([None, 8, 12]))
def test_all_requests_are_served_if_loads_overlap(
    chains: list[list[int]], size: int, every_s: float, chunk: int | None, max_states: int | None
) -> None:
    """Little's law, which every simulation checks, is true also if loads overlap with rounds."""
    state_tokens = 0 if max_states is None else 15
    costs = PlainCosts(
        pass_s=0.5,
        prompt_s=1.0,
        kv_capacity_tokens=120,
        kv_block_tokens=16,
        max_states=max_states,
        state_tokens=state_tokens,
    )
    host = replace(tier(size, 0.3, 0.7), state_tokens=state_tokens, s_per_state=0.4)
    outcome = simulate(chained_workload(chains, every_s=every_s), costs, host, chunk=chunk)
    assert (outcome.first_s >= outcome.start_s).all()
    assert (outcome.start_s >= outcome.workload.arrival_s).all()
    assert outcome.prefixes.known_tokens >= outcome.prefixes.saved_tokens
