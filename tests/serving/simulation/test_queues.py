"""Tests of simulated queues against closed forms, of drawn workloads, and of computed capacities."""

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
from wse.serving.simulation.kv.prefixes import path_to
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.static import simulate_static
from wse.serving.simulation.statistics import queueing_s
from wse.serving.simulation.workload import FAST, NORMAL, Workload, WorkloadOptions, draw_workload

REQUESTS = 10_000
LOAD = 0.5


def poisson_arrival_s(rate: float, requests: int = REQUESTS, seed: int = 3) -> F64:
    """Return the arrival times in seconds of a Poisson process with `rate` arrivals per second."""
    return np.random.Generator(np.random.Philox(seed)).exponential(1 / rate, requests).cumsum()


def ones(requests: int = REQUESTS) -> I64:
    return np.ones(requests, np.int64)


def served_one_by_one(arrival_s: F64, answers: I64, costs: PlainCosts) -> SimulationOutcome:
    """Simulate a machine for one user at a time; all prompts have one token."""
    work = plain_workload(arrival_s, ones(len(arrival_s)), answers)
    return simulate_continuous(work, costs, ContinuousPolicy(max_users=1, prompt_tokens=1))


def test_wait_for_answers_of_two_lengths_follows_pollaczek_khinchine() -> None:
    """The mean wait is λ E[S²] / (2 (1 - ρ)), here for services of two lengths."""
    long = np.random.Generator(np.random.Philox(7)).random(REQUESTS) < 0.1
    answers = np.where(long, 6, 2)  # passes: 5 or 1
    services = answers - 1.0
    rate = LOAD / services.mean()
    outcome = served_one_by_one(poisson_arrival_s(rate), answers, PlainCosts(pass_s=1.0))
    expected = rate * (services**2).mean() / (2 * (1 - LOAD))
    assert queueing_s(outcome).mean() == pytest.approx(expected, rel=0.05)
    assert outcome.busy_s / outcome.makespan_s == pytest.approx(LOAD, rel=0.02)


def test_wait_of_tiers_follows_cobham() -> None:
    """The mean wait of a tier is W₀ / ((1 - σ₋) (1 - σ)).

    σ is the load of the tier and of those before it, σ₋ the load of those before it, and W₀ the mean remaining time of
    the current service.
    """
    share = 0.3
    work = draw_workload(
        WorkloadOptions(requests=REQUESTS, prompt_tokens=1, new_tokens=1, context=2, fast_share=share, seed=11)
    ).at_rate(LOAD)
    outcome = simulate_continuous(work, PlainCosts(prompt_s=1.0), ContinuousPolicy(max_users=1, prompt_tokens=1))
    waits, rest, fast = queueing_s(outcome), LOAD / 2, share * LOAD
    assert waits[work.tier == FAST].mean() == pytest.approx(rest / (1 - fast), rel=0.04)
    assert waits[work.tier == NORMAL].mean() == pytest.approx(rest / ((1 - fast) * (1 - LOAD)), rel=0.05)


def test_requests_do_not_wait_at_low_load() -> None:
    """With 40 slots and passes of constant duration, an M/D/40 queue at a load of 1/4 has almost no wait."""
    answers = np.full(5_000, 11)
    work = plain_workload(poisson_arrival_s(1.0, 5_000), ones(5_000), answers)
    outcome = simulate_continuous(work, PlainCosts(pass_s=1.0), ContinuousPolicy(max_users=40, prompt_tokens=40))
    assert queueing_s(outcome).max() <= 1.0  # at most until the running pass ends
    assert outcome.user_s / outcome.makespan_s == pytest.approx(10.0, rel=0.05)  # Little's law: λ × 10 s


def test_requests_wait_for_a_batch_to_fill() -> None:
    """The mean wait is (batch slots - 1) / (2 λ) if a batch ends before the next one is full."""
    slots = 8
    work = plain_workload(poisson_arrival_s(1.0), ones(), ones())
    outcome = simulate_static(work, PlainCosts(piece_s=1e-4), batch_slots=slots)
    assert queueing_s(outcome).mean() == pytest.approx((slots - 1) / 2, rel=0.03)


def test_batch_that_does_not_wait_is_a_bulk_queue() -> None:
    """The mean wait is that of M/D/1 with bulk service, from the stationary distribution at departures.

    The unit of time is one service. A batch takes all waiting requests, up to its slots. If none waits, it starts with
    the next arrival. If n requests are left behind and k arrive in the next service, max(n - slots, 0) + k are left.
    """
    slots, rate, max_left = 4, 3.0, 400
    chances = np.exp([k * math.log(rate) - rate - math.lgamma(k + 1) for k in range(max_left)])
    step = np.zeros((max_left, max_left))
    for left in range(max_left):
        base = max(left - slots, 0)
        step[left, base:] = chances[: max_left - base]
    step /= step.sum(axis=1, keepdims=True)
    stationary = np.full(max_left, 1 / max_left)
    for _ in range(3_000):
        stationary = stationary @ step
    # Waiting requests x time per cycle: those left behind wait a whole service, arrivals half a service on average.
    behind = np.maximum(np.arange(max_left) - slots, 0) @ stationary
    waiting = behind + rate / 2
    cycle = 1 + stationary[0] / rate
    expected = waiting / cycle / rate
    work = plain_workload(poisson_arrival_s(rate, 30_000), ones(30_000), ones(30_000))
    constant = _ConstantBatchCosts()
    outcome = simulate_static(work, constant, batch_slots=slots, longest_wait_s=0.0)
    assert queueing_s(outcome).mean() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("users", "slots", "wait_s"), [(3, 8, 0.0), (8, 8, 0.0), (12, 8, 1.0)])
def test_users_of_a_closed_loop_share_batches(users: int, slots: int, wait_s: float) -> None:
    """A batch starts when all users wait, even with empty slots. Users without a slot wait for one batch."""
    work = replace(plain_workload(np.arange(1200) * 1e-6, ones(1200), ones(1200)), in_flight=users)
    outcome = simulate_static(work, _ConstantBatchCosts(), batch_slots=slots)
    assert outcome.makespan_s == pytest.approx(1200 / min(users, slots), rel=0.03)
    assert np.median(queueing_s(outcome)) <= wait_s + 1e-4


class _ConstantBatchCosts(PlainCosts):
    """Costs of batches that take one second for any number of requests."""

    def round_s(self, users: int, context: int, parts: object) -> float:
        return 0.0 if users else 1.0


OPTIONS = WorkloadOptions(
    requests=20_000, prompt_tokens=100, new_tokens=50, prompt_cv=0.8, answer_cv=0.8, context=1000, seed=4
)


def changed_options(**changes: object) -> WorkloadOptions:
    """Return `OPTIONS` with changes."""
    return replace(OPTIONS, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prefix_tokens", "scales_prefixes"), [(300, False), (960, True)], ids=["system prompt", "histories"]
)
def test_prompts_with_prefixes_have_the_requested_mean_and_spread(prefix_tokens: int, *, scales_prefixes: bool) -> None:
    options = changed_options(
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
    assert len({path_to(block, work.prefix_tree.parent.tolist())[0] for block in work.prefix.tolist()}) == 3


def test_same_seed_draws_the_same_workload() -> None:
    first, second, other = (draw_workload(changed_options(seed=seed)) for seed in (4, 4, 5))
    assert np.array_equal(first.arrival_s, second.arrival_s)
    assert np.array_equal(first.prompt_tokens, second.prompt_tokens)
    assert not np.array_equal(first.arrival_s, other.arrival_s)


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "bursts"])
def test_rate_and_lengths_are_the_requested_ones(arrivals: Arrivals) -> None:
    work = draw_workload(changed_options(arrivals=arrivals, burst=10, fast_share=0.25)).at_rate(7.0)
    assert work.rate_per_s == pytest.approx(7.0)
    assert work.prompt_tokens.mean() == pytest.approx(100, rel=0.02)
    assert work.prompt_tokens.std() == pytest.approx(80, rel=0.05)
    assert (work.tier == FAST).mean() == pytest.approx(0.25, abs=0.01)
    assert work.max_tokens <= 1000


@pytest.mark.parametrize("users", [1, 7, 218, 1500])
def test_capacity_is_the_rate_of_a_server_that_never_waits(users: int) -> None:
    """A service takes 2 s on average. Equal requests are admitted in bursts of as many as are served at a time."""
    work = draw_workload(changed_options(requests=500, prompt_tokens=1, new_tokens=11, prompt_cv=0.0, answer_cv=0.0))
    policy = ContinuousPolicy(max_users=users, prompt_tokens=users)
    costs = PlainCosts(pass_s=0.2)
    rate = capacity_requests_per_s(work, users, lambda requests: simulate_continuous(requests, costs, policy))
    assert rate == pytest.approx(0.5 * users, rel=0.01)


@pytest.mark.parametrize("spread_s", [0.0, 0.5, 1.9])
@pytest.mark.parametrize("users", [1, 7, 218, 12_000])
def test_capacity_counts_whole_bursts(users: int, spread_s: float) -> None:
    """A request takes 2 s, and the user's next one starts when it ends. First starts are spread over ``spread_s``."""

    def serve(requests: Workload) -> SimulationOutcome:
        index = np.arange(len(requests))
        start_s = index // users * 2.0 + index % users / users * spread_s
        sums = dict.fromkeys(("busy_s", "work_s", "prefill_busy_s", "user_s", "kv_token_s", "in_system_s"), 0.0)
        times = {"start_s": start_s, "first_s": start_s, "end_s": start_s + 2, "left_s": start_s + 2}
        return SimulationOutcome(
            workload=requests, gaps=np.empty((0, 4)), makespan_s=float(start_s[-1] + 2), **times, **sums
        )

    work = draw_workload(changed_options(requests=500))
    assert capacity_requests_per_s(work, users, serve) == pytest.approx(users / 2)


@pytest.mark.parametrize(
    ("users", "slots", "rate"), [(20, 40, 20 / (990 + 10)), (7, 40, 7 / (990 + 10)), (400, 2, 2 / (10 + 1))]
)
def test_users_who_pause_send_a_request_per_pause_and_answer(users: int, slots: int, rate: float) -> None:
    """An answer takes 10 passes of 1 s, and a pause 990 s.

    With 2 slots, only the machine limits the rate. The prompts of two requests are read in a round of their own, or in
    one of the passes of the other request. The mean of 600 random pauses differs from 990 s by up to 40 s, so the rate
    differs from its limit by up to 2 %.
    """
    work = draw_workload(changed_options(requests=500, prompt_tokens=1, new_tokens=11, prompt_cv=0.0, answer_cv=0.0))
    policy = ContinuousPolicy(max_users=slots, prompt_tokens=slots)

    def serve(requests: Workload) -> SimulationOutcome:
        return simulate_continuous(requests, PlainCosts(pass_s=1.0), policy)

    work = replace(work, think_s=990.0)
    within = 0.003 if users < slots else 0.02
    assert closed_loop_requests_per_s(work, users, rate, serve) == pytest.approx(rate, rel=within)
