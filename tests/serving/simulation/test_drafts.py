"""Drafts of a simulation: passes of answers against closed forms, and tokens that come in bursts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_costs import PlainCosts

from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.continuous.simulate import simulate_continuous
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.statistics import gap_distribution, per_token_s

DRAFTS = Drafts(acceptances=(0.8, 0.7, 0.5), seed=3)


def chances(drafts: Drafts) -> np.ndarray:
    """The probabilities of 1, 2 and so on tokens of a pass."""
    survival = [1.0, *np.cumprod(drafts.acceptances), 0.0]
    return -np.diff(survival)


def test_mean_of_a_pass_is_that_of_leviathan() -> None:
    """(1 - a^(n+1)) / (1 - a) for one acceptance at all of n positions; 1 + a1 + a1 a2 + ... else."""
    assert Drafts(acceptances=(0.7,) * 5).tokens_per_pass == pytest.approx((1 - 0.7**6) / (1 - 0.7))
    assert DRAFTS.tokens_per_pass == pytest.approx(1 + 0.8 + 0.56 + 0.28)


def test_passes_of_long_answers_are_as_walds_identity_has_them() -> None:
    """E[passes] E[X] = tokens + those beyond the end, of which renewal theory has E[X (X - 1)] / (2 E[X])."""
    tokens, requests = 400, 40_000
    sizes, share = np.arange(1, 5), chances(DRAFTS)
    mean = float(sizes @ share)
    beyond = float((sizes * (sizes - 1)) @ share) / (2 * mean)
    passes = DRAFTS.passes(np.full(requests, tokens))
    assert passes.mean() == pytest.approx((tokens + beyond) / mean, rel=4e-4)
    variance = float((sizes**2) @ share) - mean**2
    assert passes.var() == pytest.approx(variance / mean**3 * tokens, rel=0.04)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(1, 6))
def test_drafts_that_are_always_or_never_accepted(tokens: list[int], length: int) -> None:
    asked = np.array(tokens)
    always, never = (Drafts(acceptances=(share,) * length).passes(asked) for share in (1.0, 0.0))
    assert always.tolist() == [math.ceil(count / (length + 1)) for count in tokens]
    assert never.tolist() == tokens


def test_tokens_come_in_bursts() -> None:
    """Of a pass's tokens one comes after it and the others at once, so that most gaps are none."""
    work = plain_workload(np.arange(50.0) * 1e4, np.full(50, 8), np.full(50, 1001))
    outcome = simulate_continuous(
        work, PlainCosts(pass_s=0.01, prompt_s=1e-3), ContinuousPolicy(max_users=4, prompt_tokens=64), drafts=DRAFTS
    )
    mean = DRAFTS.tokens_per_pass
    assert per_token_s(outcome).mean() == pytest.approx(0.01 / mean, rel=0.01)
    gaps = gap_distribution(outcome)
    assert gaps.p50 == 0  # 1 - 1 / 2.64 of them
    assert (gaps.p90, gaps.most) == (pytest.approx(0.01), pytest.approx(0.01))
    assert gaps.mean == pytest.approx(per_token_s(outcome).mean())


def test_passes_cost_by_the_context_that_drafts_have_reached() -> None:
    """All of two drafted tokens accepted: passes after 12, 15 and 18 tokens."""
    drafts = Drafts(acceptances=(1.0, 1.0))
    costs = PlainCosts(pass_s=0.01, context_s=1e-4, prompt_s=1e-3)
    work = plain_workload(np.zeros(1), np.array([12]), np.array([10]))
    policy = ContinuousPolicy(max_users=1, prompt_tokens=64)
    outcome = simulate_continuous(work, costs, policy, drafts=drafts)
    expected = 3 * 0.01 + 1e-4 * (12 + 15 + 18)
    assert outcome.end_s[0] - outcome.first_s[0] == pytest.approx(expected)
    bus = simulate_static(work, costs, StaticPolicy(batch_slots=1), drafts=drafts)
    assert bus.end_s[0] - bus.first_s[0] == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.floats(0, 0.3), st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=25),
    st.integers(1, 6),
    st.sampled_from(["continuous", "own", "static"]),
)
@settings(max_examples=40, deadline=None)
def test_every_token_comes_whatever_the_drafts(asked: list[tuple[float, int, int]], seats: int, policy: str) -> None:
    gaps, prompts, answers = (np.array(column) for column in zip(*asked, strict=True))
    work = plain_workload(gaps.cumsum(), prompts, answers)
    costs = PlainCosts(pass_s=0.01, user_s=0.001, context_s=1e-4, prompt_s=0.002)
    if policy == "static":
        outcome = simulate_static(work, costs, StaticPolicy(batch_slots=seats), drafts=DRAFTS)
    else:
        own = PrefillMachine(costs=costs) if policy == "own" else None
        joins = ContinuousPolicy(max_users=seats, prompt_tokens=16)
        outcome = simulate_continuous(work, costs, joins, prefill=own, drafts=DRAFTS)
    passes = (outcome.gaps[:, 2] * outcome.gaps[:, 3]).sum()
    assert passes == DRAFTS.passes(answers - 1).sum()
    assert (outcome.end_s >= outcome.first_s).all()
    held, expected = outcome.little
    assert held == pytest.approx(expected)
