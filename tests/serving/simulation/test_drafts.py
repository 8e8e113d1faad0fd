"""Tests of drafts in simulations: number of passes against closed forms, and tokens that arrive in bursts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_costs import PlainCosts

from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.static import simulate_static
from wse.serving.simulation.statistics import gap_distribution, per_token_s

DRAFTS = Drafts(acceptances=(0.8, 0.7, 0.5), seed=3)


def chances(drafts: Drafts) -> np.ndarray:
    """Return the probabilities that a pass yields 1, 2, ... tokens."""
    survival = [1.0, *np.cumprod(drafts.acceptances), 0.0]
    return -np.diff(survival)


def test_passes_of_long_answers_follow_walds_identity() -> None:
    """By Wald's identity, E[passes] E[X] = tokens + overshoot, where X is the number of tokens of a pass.

    By renewal theory, the mean overshoot beyond the end of the answer is E[X (X - 1)] / (2 E[X]).
    """
    tokens, requests = 400, 40_000
    sizes, share = np.arange(1, 5), chances(DRAFTS)
    mean = float(sizes @ share)
    beyond = float((sizes * (sizes - 1)) @ share) / (2 * mean)
    passes = DRAFTS.passes(np.full(requests, tokens))
    assert passes.mean() == pytest.approx((tokens + beyond) / mean, rel=4e-4)
    variance = float((sizes**2) @ share) - mean**2
    assert passes.var() == pytest.approx(variance / mean**3 * tokens, rel=0.04)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(1, 6))
def test_passes_with_drafts_that_are_always_or_never_accepted(tokens: list[int], length: int) -> None:
    asked = np.array(tokens)
    always, never = (Drafts(acceptances=(share,) * length).passes(asked) for share in (1.0, 0.0))
    assert always.tolist() == [math.ceil(count / (length + 1)) for count in tokens]
    assert never.tolist() == tokens


def test_tokens_of_a_pass_arrive_together() -> None:
    """The tokens of a pass arrive together, so most gaps between tokens are 0."""
    work = plain_workload(np.arange(50.0) * 1e4, np.full(50, 8), np.full(50, 1001))
    outcome = simulate_continuous(
        work, PlainCosts(pass_s=0.01, prompt_s=1e-3), ContinuousPolicy(max_users=4, prompt_tokens=64), drafts=DRAFTS
    )
    mean = DRAFTS.tokens_per_pass
    assert per_token_s(outcome).mean() == pytest.approx(0.01 / mean, rel=0.01)
    gaps = gap_distribution(outcome)
    assert gaps.p50 == 0  # the fraction of zero gaps is 1 - 1 / 2.64
    assert (gaps.p90, gaps.most) == (pytest.approx(0.01), pytest.approx(0.01))
    assert gaps.mean == pytest.approx(per_token_s(outcome).mean())


def test_pass_time_depends_on_the_context_reached_with_drafts() -> None:
    """Both draft tokens of each pass are accepted: passes after 12, 15 and 18 tokens."""
    drafts = Drafts(acceptances=(1.0, 1.0))
    costs = PlainCosts(pass_s=0.01, context_s=1e-4, prompt_s=1e-3)
    work = plain_workload(np.zeros(1), np.array([12]), np.array([10]))
    policy = ContinuousPolicy(max_users=1, prompt_tokens=64)
    outcome = simulate_continuous(work, costs, policy, drafts=drafts)
    expected = 3 * 0.01 + 1e-4 * (12 + 15 + 18)
    assert outcome.end_s[0] - outcome.first_s[0] == pytest.approx(expected)
    static = simulate_static(work, costs, batch_slots=1, drafts=drafts)
    assert static.end_s[0] - static.first_s[0] == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.floats(0, 0.3), st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=25),
    st.integers(1, 6),
    st.sampled_from(["continuous", "separate_prefill", "static"]),
)
@settings(max_examples=40, deadline=None)
def test_simulations_with_drafts_generate_every_token(
    asked: list[tuple[float, int, int]], max_users: int, policy: str
) -> None:
    gaps, prompts, answers = (np.array(column) for column in zip(*asked, strict=True))
    work = plain_workload(gaps.cumsum(), prompts, answers)
    costs = PlainCosts(pass_s=0.01, user_s=0.001, context_s=1e-4, prompt_s=0.002)
    if policy == "static":
        outcome = simulate_static(work, costs, batch_slots=max_users, drafts=DRAFTS)
    else:
        separate_prefill = PrefillMachine(costs=costs) if policy == "separate_prefill" else None
        joins = ContinuousPolicy(max_users=max_users, prompt_tokens=16)
        outcome = simulate_continuous(work, costs, joins, prefill=separate_prefill, drafts=DRAFTS)
    passes = (outcome.gaps[:, 2] * outcome.gaps[:, 3]).sum()
    assert passes == DRAFTS.passes(answers - 1).sum()
    assert (outcome.end_s >= outcome.first_s).all()
    mean_in_system, expected = outcome.little
    assert mean_in_system == pytest.approx(expected)
