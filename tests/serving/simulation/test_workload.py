"""Workloads that are drawn: the same for the same seed, of the rate and lengths that were requested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_costs import PlainCosts

from wse.serving.simulation.arrivals import Arrivals
from wse.serving.simulation.capacity import capacity_requests_per_s
from wse.serving.simulation.continuous.machine import simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.workload import FAST, Workload, WorkloadOptions, draw_workload

OPTIONS = WorkloadOptions(requests=20_000, prompt_tokens=100, new_tokens=50, length_cv=0.8, context=1000, seed=4)


def drawn(**changes: object) -> WorkloadOptions:
    return replace(OPTIONS, **changes)  # type: ignore[arg-type]


def test_same_seed_draws_the_same() -> None:
    first, second, other = (draw_workload(drawn(seed=seed)) for seed in (4, 4, 5))
    assert np.array_equal(first.arrival_s, second.arrival_s)
    assert np.array_equal(first.prompt_tokens, second.prompt_tokens)
    assert not np.array_equal(first.arrival_s, other.arrival_s)


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "bursts"])
def test_rate_and_lengths_are_those_asked_for(arrivals: Arrivals) -> None:
    work = draw_workload(drawn(arrivals=arrivals, burst=10, fast_share=0.25)).at_rate(7.0)
    assert work.rate_per_s == pytest.approx(7.0)
    assert work.prompt_tokens.mean() == pytest.approx(100, rel=0.02)
    assert work.prompt_tokens.std() == pytest.approx(80, rel=0.05)
    assert (work.tier == FAST).mean() == pytest.approx(0.25, abs=0.01)
    assert work.most_tokens <= 1000


@pytest.mark.parametrize("users", [1, 7, 218, 1500])
def test_capacity_is_the_rate_of_a_server_that_never_waits(users: int) -> None:
    """Services of 2 s on average. Equal requests are admitted in bursts, as many at a time as are served."""
    work = draw_workload(drawn(requests=500, prompt_tokens=1, new_tokens=11, length_cv=0.0))
    policy = ContinuousPolicy(max_users=users, prompt_tokens=users)
    costs = PlainCosts(pass_s=0.2)
    rate = capacity_requests_per_s(work, users, lambda held: simulate_continuous(held, costs, policy))
    assert rate == pytest.approx(0.5 * users, rel=0.01)


@pytest.mark.parametrize("spread_s", [0.0, 0.5, 1.9])
@pytest.mark.parametrize("users", [1, 7, 218, 12_000])
def test_capacity_counts_whole_bursts(users: int, spread_s: float) -> None:
    """Each user's request takes 2 s, and the next one starts when it ends. First starts are ``spread_s`` apart."""

    def serve(held: Workload) -> SimulationOutcome:
        index = np.arange(len(held))
        start_s = index // users * 2.0 + index % users / users * spread_s
        sums = dict.fromkeys(("busy_s", "work_s", "prefill_busy_s", "user_s", "in_system_s"), 0.0)
        times = {"start_s": start_s, "first_s": start_s, "end_s": start_s + 2, "left_s": start_s + 2}
        return SimulationOutcome(
            workload=held, gaps=np.empty((0, 4)), makespan_s=float(start_s[-1] + 2), **times, **sums
        )

    assert capacity_requests_per_s(draw_workload(drawn(requests=500)), users, serve) == pytest.approx(users / 2)
