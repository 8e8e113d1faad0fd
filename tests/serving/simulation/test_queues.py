"""Simulations of serving against queues with closed forms: one server, priorities, a batch that is served at once.

Sources: Pollaczek and Khinchine, and Cobham for priorities, in Kleinrock, Queueing Systems I and II (Wiley 1975, 1976);
Bailey, On queueing processes with bulk service (J. R. Stat. Soc. B 16(1), 1954).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_costs import PlainCosts

from tests.support.plain_workload import plain_workload
from wse.arrays import F64, I64
from wse.serving.simulation.continuous.machine import simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.statistics import queueing_s
from wse.serving.simulation.workload import FAST, NORMAL, WorkloadOptions, draw_workload

REQUESTS = 40_000
SERVICE_S = 1.0
LOAD = 0.8


def poisson(rate: float, requests: int = REQUESTS, seed: int = 3) -> F64:
    return np.random.Generator(np.random.Philox(seed)).exponential(1 / rate, requests).cumsum()


def ones(requests: int = REQUESTS) -> I64:
    return np.ones(requests, np.int64)


def served_one_by_one(arrival_s: F64, answers: I64, costs: PlainCosts) -> SimulationOutcome:
    work = plain_workload(arrival_s, ones(len(arrival_s)), answers)
    return simulate_continuous(work, costs, ContinuousPolicy(max_users=1, prompt_tokens=1))


def test_exponential_services_wait_as_in_an_m_m_1_queue() -> None:
    """The mean wait is ρ s / (1 - ρ), and longer than t with probability ρ exp(-(1 - ρ) t / s).

    Answers of geometric length, of 1,000 tokens on average, take exponential times except for a thousandth.
    """
    tokens = 1000
    answers = np.random.Generator(np.random.Philox(5)).geometric(1 / tokens, REQUESTS)
    outcome = served_one_by_one(poisson(LOAD), 1 + answers, PlainCosts(pass_s=SERVICE_S / tokens))
    waits = queueing_s(outcome)
    assert waits.mean() == pytest.approx(LOAD / (1 - LOAD), rel=0.06)
    for time in (1.0, 4.0, 10.0):
        assert (waits > time).mean() == pytest.approx(LOAD * math.exp(-(1 - LOAD) * time), rel=0.08)


def test_answers_of_any_length_wait_by_pollaczek_and_khinchine() -> None:
    """λ E[S²] / (2 (1 - ρ)), for services of two lengths."""
    long = np.random.Generator(np.random.Philox(7)).random(REQUESTS) < 0.1
    answers = np.where(long, 6, 2)  # passes: 5 or 1
    services = answers - 1.0
    rate = LOAD / services.mean()
    outcome = served_one_by_one(poisson(rate), answers, PlainCosts(pass_s=1.0))
    expected = rate * (services**2).mean() / (2 * (1 - LOAD))
    assert queueing_s(outcome).mean() == pytest.approx(expected, rel=0.05)
    assert outcome.busy_s / outcome.makespan_s == pytest.approx(LOAD, rel=0.02)


def test_fast_tier_waits_as_cobham_says() -> None:
    """W₀ / ((1 - σ₋) (1 - σ)), σ the load of a tier and of those before it, W₀ the rest of the service under way."""
    share = 0.3
    work = draw_workload(
        WorkloadOptions(requests=REQUESTS, prompt_tokens=1, new_tokens=1, context=2, fast_share=share, seed=11)
    ).at_rate(LOAD)
    outcome = simulate_continuous(work, PlainCosts(prompt_s=1.0), ContinuousPolicy(max_users=1, prompt_tokens=1))
    waits, rest, fast = queueing_s(outcome), LOAD / 2, share * LOAD
    assert waits[work.tier == FAST].mean() == pytest.approx(rest / (1 - fast), rel=0.04)
    assert waits[work.tier == NORMAL].mean() == pytest.approx(rest / ((1 - fast) * (1 - LOAD)), rel=0.05)


def test_as_many_servers_as_seats_never_wait_at_low_load() -> None:
    """With 40 seats and passes that cost nothing more for more users, an M/D/40 queue at a load of 1/4 has no wait."""
    answers = np.full(5_000, 11)
    work = plain_workload(poisson(1.0, 5_000), ones(5_000), answers)
    outcome = simulate_continuous(work, PlainCosts(pass_s=1.0), ContinuousPolicy(max_users=40, prompt_tokens=40))
    assert queueing_s(outcome).max() <= 1.0  # until the pass under way is over
    assert outcome.user_s / outcome.makespan_s == pytest.approx(10.0, rel=0.05)  # Little's law: λ × 10 s


def test_requests_wait_for_a_bus_to_fill() -> None:
    """(batch slots - 1) / (2 λ), where the bus is back before the next is full."""
    seats = 8
    work = plain_workload(poisson(1.0, 20_000), ones(20_000), ones(20_000))
    outcome = simulate_static(work, PlainCosts(piece_s=1e-4), StaticPolicy(batch_slots=seats))
    assert queueing_s(outcome).mean() == pytest.approx((seats - 1) / 2, rel=0.03)


def test_bus_that_does_not_wait_is_a_bulk_queue() -> None:
    """The mean wait of M/D/1 with bulk service, by the stationary distribution of those left behind at departures.

    Time is counted in services. A bus takes all who wait, up to its seats; where nobody waits it leaves with the first
    who comes. Given n left behind, k arrive during the next service: n' = max(n - batch slots, 0) + k.
    """
    seats, rate, most = 4, 3.0, 400
    chances = np.exp([k * math.log(rate) - rate - math.lgamma(k + 1) for k in range(most)])
    step = np.zeros((most, most))
    for left in range(most):
        base = max(left - seats, 0)
        step[left, base:] = chances[: most - base]
    step /= step.sum(axis=1, keepdims=True)
    stationary = np.full(most, 1 / most)
    for _ in range(3_000):
        stationary = stationary @ step
    # Waiting seats × time in a cycle: those left behind wait a service, arrivals during it half of one on average.
    behind = np.maximum(np.arange(most) - seats, 0) @ stationary
    waiting = behind + rate / 2
    cycle = 1 + stationary[0] / rate
    expected = waiting / cycle / rate
    work = plain_workload(poisson(rate, 100_000), ones(100_000), ones(100_000))
    constant = _ConstantBus()
    outcome = simulate_static(work, constant, StaticPolicy(batch_slots=seats, longest_wait_s=0.0))
    assert queueing_s(outcome).mean() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("users", "seats", "wait_s"), [(3, 8, 0.0), (8, 8, 0.0), (12, 8, 1.0)])
def test_users_of_a_closed_loop_ride_together_again(users: int, seats: int, wait_s: float) -> None:
    """A bus leaves when all users wait, even with empty seats; users who find no seat wait for one ride."""
    work = replace(plain_workload(np.arange(1200) * 1e-6, ones(1200), ones(1200)), in_flight=users)
    outcome = simulate_static(work, _ConstantBus(), StaticPolicy(batch_slots=seats))
    assert outcome.makespan_s == pytest.approx(1200 / min(users, seats), rel=0.03)
    assert np.median(queueing_s(outcome)) <= wait_s + 1e-4


class _ConstantBus(PlainCosts):
    """A bus that takes a second, whoever rides."""

    def round_s(self, users: int, context: int, parts: object) -> float:
        return 0.0 if users else 1.0
