"""Tests of continuous batching in simulations: every request is served, at times that are computed by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_costs import PlainCosts

from tests.support.plain_workload import plain_workload, single_blocks
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.statistics import gap_distribution, levels, per_token_s
from wse.serving.simulation.workload import FAST, NORMAL, Workload

COSTS = PlainCosts(
    pass_s=0.01, user_s=0.001, context_s=1e-4, prompt_s=0.002, piece_s=0.005, drain=0.003, chunk_tokens=4
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw up to 25 requests with any arrival times, lengths, tiers and shared prefixes."""
    count = draw(st.integers(1, 25))

    def numbers(most: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(1, most), min_size=count, max_size=count)))

    gaps = draw(st.lists(st.floats(0, 0.3), min_size=count, max_size=count))
    prefix_tokens = draw(st.integers(0, 10))
    plain = plain_workload(np.cumsum(gaps), prefix_tokens + numbers(30), numbers(40))
    prefixes = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    tier = np.array(draw(st.lists(st.sampled_from([FAST, NORMAL]), min_size=count, max_size=count)))
    return replace(plain, tier=tier, prefix=prefixes, prefix_tree=single_blocks([prefix_tokens] * 3))


@given(
    workloads(),
    st.integers(1, 6),
    st.integers(80, 300),
    st.sampled_from([1, 16]),
    st.sampled_from(["same", "kept prefixes", "own"]),
)
@settings(max_examples=40, deadline=None)
def test_requests_are_served_once_and_within_the_room(
    work: Workload, max_users: int, room: int, block: int, prefill: str
) -> None:
    room = -(-room // block) * block
    costs = replace(COSTS, kv_capacity_tokens=room, kv_block_tokens=block)
    policy = ContinuousPolicy(max_users=max_users, prompt_tokens=16, prefix_cache=prefill == "kept prefixes")
    machine = PrefillMachine(costs=COSTS, transfer_s=0.01, transfer_s_per_token=1e-4) if prefill == "own" else None
    outcome = simulate_continuous(work, costs, policy, prefill=machine)
    assert (outcome.start_s >= work.arrival_s - 1e-12).all()
    assert (outcome.first_s > outcome.start_s).all()
    assert (outcome.end_s >= outcome.first_s).all()
    tokens = (outcome.gaps[:, 2] * outcome.gaps[:, 3]).sum()
    assert tokens == (work.new_tokens - 1).sum()
    mean_in_system, expected = outcome.little
    assert mean_in_system == pytest.approx(expected)
    for when in np.concatenate([outcome.start_s, outcome.left_s]):
        inside = (outcome.start_s <= when) & (when < outcome.left_s)
        assert inside.sum() <= max_users
        if not policy.prefix_cache:
            assert (-(-(work.prompt_tokens + work.new_tokens)[inside] // block) * block).sum() <= room


def serve(arrival_s: list[float], prompts: list[int], answers: list[int], **policy: int) -> SimulationOutcome:
    """Simulate requests with given arrival times and lengths; by default, 8 users and 8 prompt tokens per round."""
    work = plain_workload(np.array(arrival_s), np.array(prompts), np.array(answers))
    return simulate_continuous(work, COSTS, ContinuousPolicy(**{"max_users": 8, "prompt_tokens": 8} | policy))


def test_single_request_takes_its_prompt_parts_and_passes() -> None:
    """A prompt of 10 tokens is read in parts of 8 and 2; then there are passes after 10, 11 and 12 tokens."""
    outcome = serve([1.0], [10], [4])
    first = 2 * 0.005 + 10 * 0.002 + 0.003
    assert outcome.first_s[0] - 1.0 == pytest.approx(first)
    passes = 3 * 0.011 + 1e-4 * (10 + 11 + 12)
    assert outcome.end_s[0] - outcome.first_s[0] == pytest.approx(passes)
    assert per_token_s(outcome)[0] == pytest.approx(passes / 3)
    assert outcome.work_s == pytest.approx(outcome.busy_s) == pytest.approx(first - 0.003 + passes)


@pytest.mark.parametrize("prefill", ["same", "own"])
def test_gaps_between_tokens_add_up_to_the_time_from_first_to_last(prefill: str) -> None:
    """The mean over all users includes the wait for the second token, with drain and transfer of the cache."""
    random = np.random.Generator(np.random.Philox(2))
    work = plain_workload(random.exponential(0.1, 60).cumsum(), random.integers(1, 30, 60), random.integers(1, 40, 60))
    machine = PrefillMachine(costs=COSTS, transfer_s=0.05, transfer_s_per_token=1e-3) if prefill == "own" else None
    outcome = simulate_continuous(work, COSTS, ContinuousPolicy(max_users=4, prompt_tokens=16), prefill=machine)
    gaps = gap_distribution(outcome)
    spans = (outcome.end_s - outcome.first_s).sum()
    assert gaps.mean * (work.new_tokens - 1).sum() == pytest.approx(spans, rel=1e-6)


def test_fast_request_overtakes_waiting_requests() -> None:
    work = plain_workload(np.array([0.0, 0.1, 0.2]), np.full(3, 4), np.full(3, 100))
    work = replace(work, tier=np.array([NORMAL, NORMAL, FAST]))
    outcome = simulate_continuous(work, COSTS, ContinuousPolicy(max_users=1, prompt_tokens=8))
    assert outcome.start_s.argsort().tolist() == [0, 2, 1]


def test_prompts_on_a_separate_machine_do_not_lengthen_gaps() -> None:
    """Gaps are only those of decode passes, and a first token waits for the prompts before it."""
    work = plain_workload(np.array([0.0, 0.0]), np.array([100, 100]), np.array([30, 30]))
    machine = PrefillMachine(costs=COSTS, transfer_s=0.05, transfer_s_per_token=0.001)
    outcome = simulate_continuous(work, COSTS, ContinuousPolicy(max_users=8, prompt_tokens=8), prefill=machine)
    reading = 0.005 + 100 * 0.002
    assert outcome.first_s.tolist() == pytest.approx([reading + 0.003, 2 * reading + 0.003])
    assert outcome.start_s.tolist() == pytest.approx([0.0, reading])
    gaps = gap_distribution(outcome)
    assert gaps.p90 <= 0.01 + 2 * 0.001 + 130e-4
    # The second token waits for the transfer of the cache and for a running pass.
    moved = 0.05 + 100 * 0.001
    assert moved + 0.01 < gaps.most < moved + 2 * (0.01 + 2 * 0.001 + 130e-4)
    assert outcome.prefill_busy_s == pytest.approx(2 * reading)


def test_caches_are_sent_one_after_another_on_the_link() -> None:
    """Two prompts are read in less time than the transfer of one cache, so the second one waits for the link.

    Each cache takes 0.1 s per token, and 0.25 s for its states of linear attention.
    """
    work = plain_workload(np.array([0.0, 0.0]), np.array([10, 20]), np.array([2, 2]))
    costs = PlainCosts(prompt_s=0.001)
    machine = PrefillMachine(costs=costs, transfer_s=0.5, transfer_s_per_token=0.1, transfer_s_per_state=0.25)
    plain = PlainCosts(pass_s=0.01)
    outcome = simulate_continuous(work, plain, ContinuousPolicy(max_users=8, prompt_tokens=8), prefill=machine)
    assert outcome.first_s.tolist() == pytest.approx([0.01, 0.03])
    sent = [0.01 + 1.25, 0.01 + 1.25 + 2.25]
    assert outcome.end_s.tolist() == pytest.approx([at + 0.5 + 0.01 for at in sent])


def test_kept_prefix_is_not_read_again() -> None:
    work = plain_workload(np.array([0.0, 10.0, 20.0]), np.array([50, 52, 60]), np.full(3, 2))
    work = replace(work, prefix=np.array([0, 0, 1]), prefix_tree=single_blocks([40, 40]))
    policy = ContinuousPolicy(max_users=8, prompt_tokens=1000, prefix_cache=True)
    outcome = simulate_continuous(work, COSTS, policy)
    waits = outcome.first_s - work.arrival_s
    assert waits.tolist() == pytest.approx([0.008 + tokens * 0.002 for tokens in (50, 12, 60)])
    assert (outcome.prefixes.hits, outcome.prefixes.saved_tokens) == (1, 40)


def test_pass_time_depends_on_the_mean_context_of_the_users_in_flight() -> None:
    """The second user joins after several passes of the first."""
    outcome = serve([0.0, 0.2], [4, 40], [60, 20], prompt_tokens=64)
    joined = next(at for at, users in enumerate(outcome.gaps[:, 3]) if users == 2)
    before = int(outcome.gaps[:joined, 2].sum())
    assert before > 5
    assert outcome.gaps[joined, 0] == pytest.approx(0.01 + 2 * 0.001 + 1e-4 * ((4 + before + 40) // 2))


def test_levels_count_waiting_and_served_requests() -> None:
    outcome = serve([0.0, 0.0, 0.0], [4, 4, 4], [20, 20, 20], max_users=1)
    over_time = levels(outcome, 200)
    assert over_time.waiting[1] == 2
    assert set(over_time.answering.tolist()) <= {0.0, 1.0}
    assert over_time.kv_tokens.max() == 24
    assert over_time.waiting[-1] == 0


def test_tokens_of_a_pipeline_do_not_wait_for_the_start_of_a_round() -> None:
    """Each request takes its passes from its first token on, whenever it joins, plus 0.8 ms for prompts in gaps."""
    work = plain_workload(np.array([0.0, 0.123, 0.2771]), np.full(3, 4), np.array([100, 50, 30]))
    policy = ContinuousPolicy(max_users=8, prompt_tokens=None)
    outcome = simulate_continuous(work, PlainCosts(pass_s=0.01, prompt_s=1e-4), policy)
    assert outcome.end_s - outcome.first_s == pytest.approx(0.01 * (work.new_tokens - 1), abs=1e-3)
