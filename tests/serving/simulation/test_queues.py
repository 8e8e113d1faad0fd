"""Queues against their closed forms, and drawn workloads."""

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_costs import PlainCosts

from tests.support.plain_workload import plain_workload
from wse.arrays import F64, I64
from wse.serving.simulation.arrivals import Arrivals
from wse.serving.simulation.capacity import capacity_requests_per_s, closed_loop_requests_per_s
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.simulate import simulate_continuous
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.statistics import queueing_s
from wse.serving.simulation.workload import FAST, NORMAL, Workload, WorkloadOptions, draw_workload

REQUESTS = 40_000
LOAD = 0.8


def poisson(rate: float, requests: int = REQUESTS, seed: int = 3) -> F64:
    return np.random.Generator(np.random.Philox(seed)).exponential(1 / rate, requests).cumsum()


def ones(requests: int = REQUESTS) -> I64:
    return np.ones(requests, np.int64)


def served_one_by_one(arrival_s: F64, answers: I64, costs: PlainCosts) -> SimulationOutcome:
    work = plain_workload(arrival_s, ones(len(arrival_s)), answers)
    return simulate_continuous(work, costs, ContinuousPolicy(max_users=1, prompt_tokens=1))


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


OPTIONS = WorkloadOptions(
    requests=20_000, prompt_tokens=100, new_tokens=50, prompt_cv=0.8, answer_cv=0.8, context=1000, seed=4
)


def drawn(**changes: object) -> WorkloadOptions:
    return replace(OPTIONS, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prefix_tokens", "scales_prefixes"), [(300, False), (960, True)], ids=["system prompt", "histories"]
)
def test_prompts_with_prefixes_have_the_mean_and_spread_asked_for(prefix_tokens: int, *, scales_prefixes: bool) -> None:
    options = drawn(
        requests=20_000,
        prompt_tokens=1_000,
        prompt_cv=0.5,
        context=100_000,
        prefix_tokens=prefix_tokens,
        prefixes=3,
        scales_prefixes=scales_prefixes,
    )
    work = draw_workload(options)
    assert work.prompt_tokens.mean() == pytest.approx(1_000, rel=0.02)
    assert work.prompt_tokens.std() == pytest.approx(500, rel=0.04)
    assert work.prefix_tokens.mean() == pytest.approx(prefix_tokens, rel=0.02)
    assert work.prefix_tokens.std() == pytest.approx(scales_prefixes * 480, rel=0.04)
    assert (work.prefix_tokens < work.prompt_tokens).all()
    assert len({work.prefix_tree.path(block)[0] for block in work.prefix.tolist()}) == 3


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
    work = draw_workload(drawn(requests=500, prompt_tokens=1, new_tokens=11, prompt_cv=0.0, answer_cv=0.0))
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
        sums = dict.fromkeys(("busy_s", "work_s", "prefill_busy_s", "user_s", "kv_token_s", "in_system_s"), 0.0)
        times = {"start_s": start_s, "first_s": start_s, "end_s": start_s + 2, "left_s": start_s + 2}
        return SimulationOutcome(
            workload=held, gaps=np.empty((0, 4)), makespan_s=float(start_s[-1] + 2), **times, **sums
        )

    assert capacity_requests_per_s(draw_workload(drawn(requests=500)), users, serve) == pytest.approx(users / 2)


@pytest.mark.parametrize(
    ("users", "slots", "rate"), [(20, 40, 20 / (990 + 10)), (7, 40, 7 / (990 + 10)), (400, 2, 2 / (10 + 1))]
)
def test_users_who_pause_send_a_request_per_pause_and_answer(users: int, slots: int, rate: float) -> None:
    """An answer takes 10 passes of a second, and a pause 990 s. With 2 slots only the machine limits the rate:

    the prompts of two requests are read in a round of their own, or in one of the other's passes.
    """
    work = draw_workload(drawn(requests=500, prompt_tokens=1, new_tokens=11, prompt_cv=0.0, answer_cv=0.0))
    policy = ContinuousPolicy(max_users=slots, prompt_tokens=slots)

    def serve(requests: Workload) -> SimulationOutcome:
        return simulate_continuous(requests, PlainCosts(pass_s=1.0), policy)

    work = replace(work, think_s=990.0)
    assert closed_loop_requests_per_s(work, users, users / 990, serve) == pytest.approx(rate, rel=0.003)
