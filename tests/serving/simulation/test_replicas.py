"""Tests of replicas that share a stream of requests, and of the room that requests occupy in KV caches."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plain_costs import COSTS, PIECES, POLICIES, PlainCosts
from tests.support.plain_workload import plain_workload, single_blocks
from wse.reports.progress import ignore
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.kv.kv_room import KvRoom
from wse.serving.simulation.kv.prefixes import NO_PREFIX
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.replicas import simulate_continuous, simulate_replicas
from wse.serving.simulation.workload import Workload, WorkloadOptions, draw_workload


def workload(requests: int = 400, rate: float = 3.0, cv: float = 1.0) -> Workload:
    """Return drawn requests that arrive with `rate` per second; `cv` is the coefficient of variation of lengths."""
    options = WorkloadOptions(
        requests=requests,
        prompt_tokens=20,
        new_tokens=30,
        prompt_cv=cv,
        answer_cv=cv,
        context=400,
        fast_share=0.2,
        seed=0,
    )
    return draw_workload(options).at_rate(rate)


def simulate(
    work: Workload, replicas: int, policy: ContinuousPolicy = PIECES, *, least_loaded: bool = True
) -> SimulationOutcome:
    """Simulate a workload on several replicas."""
    make = partial(ContinuousMachine, costs=COSTS, policy=policy)
    return simulate_replicas(work, replicas, make, ignore, least_loaded=least_loaded)


@POLICIES
def test_requests_given_one_by_one_are_served_as_known_requests(policy: ContinuousPolicy) -> None:
    work = workload()
    known, given = simulate_continuous(work, COSTS, policy), simulate(work, 1, policy)
    for name in ("start_s", "first_s", "end_s", "left_s"):
        np.testing.assert_allclose(getattr(given, name), getattr(known, name), rtol=1e-9, atol=1e-9)
    assert given.busy_s == pytest.approx(known.busy_s)
    assert given.user_s == pytest.approx(known.user_s)


@POLICIES
def test_round_robin_gives_each_machine_every_third_request(policy: ContinuousPolicy) -> None:
    work = workload()
    outcome = simulate(work, 3, policy, least_loaded=False)
    for number in range(3):
        own = np.arange(number, len(work), 3)
        alone = simulate_continuous(work.part(own), COSTS, policy)
        np.testing.assert_allclose(outcome.end_s[own], alone.end_s)
        np.testing.assert_allclose(outcome.first_s[own], alone.first_s)


def test_two_replicas_of_a_closed_loop_serve_twice_the_rate_of_one_with_half_of_the_users() -> None:
    work = replace(workload(cv=0.0), arrival_s=np.arange(400) / 20)
    both = simulate(replace(work, in_flight=8), 2)
    half = replace(work.part(np.arange(0, 400, 2)), in_flight=4)
    assert both.makespan_s == pytest.approx(simulate(half, 1).makespan_s, rel=0.01)


def test_machines_with_different_numbers_of_users_finish_a_closed_loop_at_about_the_same_time() -> None:
    work = replace(workload(requests=1_000, cv=0.0), arrival_s=np.arange(1_000) / 20)
    rates = [len(work) / simulate(replace(work, in_flight=users), 3).makespan_s for users in (9, 10, 11, 12)]
    steps = np.diff(rates) / (rates[-1] - rates[0])
    np.testing.assert_allclose(steps, 1 / 3, atol=0.1)


@pytest.mark.parametrize("least_loaded", [True, False], ids=["least loaded", "in turn"])
def test_machines_without_a_request_are_counted_too(*, least_loaded: bool) -> None:
    work = workload(requests=4)
    outcome = simulate(work, 8, least_loaded=least_loaded)
    assert (outcome.replicas, len(outcome.workload)) == (8, 4)
    assert outcome.busy_s == pytest.approx(simulate(work, 4, least_loaded=least_loaded).busy_s)


def test_least_loaded_choice_makes_requests_wait_less_than_round_robin() -> None:
    work = workload(requests=2_000, rate=30.0)
    fewest, round_robin = (
        np.mean(simulate(work, 4, least_loaded=least_loaded).first_s - work.arrival_s) for least_loaded in (True, False)
    )
    assert fewest < 0.95 * round_robin


WINDOW = 32


@dataclass(frozen=True, kw_only=True)
class WindowedCosts(PlainCosts):
    """Costs of a model in which every second layer has a window of 32 tokens; blocks have 8 tokens."""

    kv_block_tokens: int = 8
    reused_tokens_multiple: int = 8

    def room_tokens(self, tokens: int) -> int:
        whole = -(-tokens // 8) * 8
        return (whole + min(whole, WINDOW)) // 2


def workload_kv_room(prompts: list[int], new: int, prefix_tokens: int = 0) -> Workload:
    """Return requests with `new` tokens each that share a prefix of `prefix_tokens` tokens."""
    plain = plain_workload(np.zeros(len(prompts)), np.array(prompts), np.full(len(prompts), new))
    tree = single_blocks([prefix_tokens])
    return replace(plain, prefix=np.full(len(prompts), 0 if prefix_tokens else NO_PREFIX), prefix_tree=tree)


def test_request_with_a_shared_prefix_occupies_its_own_tokens_and_windows() -> None:
    """48 of 96 tokens are shared. Layers without a window and layers with one occupy half of the room per token each.

    The first request occupies 48 + 16 tokens of room. The second one occupies 24 + 16 for its tokens after the prefix.
    After both have left, the prefix occupies 24 + 16.
    """
    room = KvRoom(
        workload_kv_room([90, 90], 6, prefix_tokens=50), WindowedCosts(kv_capacity_tokens=200), prefix_cache=True
    )
    room.take(0)
    room.keep_prefix(0)
    assert room.free == 200 - 64
    assert room.take(1) == 48
    assert room.free == 200 - 64 - (48 + 32) // 2
    room.give_back(0)
    assert room.free == 200 - 40 - 40
    room.give_back(1)
    assert room.free == 200 - 40
    assert (room.hits, room.cached_tokens) == (1, 48)


def test_prefix_is_removed_if_its_own_request_fits_only_without_it() -> None:
    """After its 48 cached tokens, which occupy 40 of 70, the request needs 24 + 16 more; without them, it needs 64."""
    room = KvRoom(
        workload_kv_room([90, 90], 6, prefix_tokens=50), WindowedCosts(kv_capacity_tokens=70), prefix_cache=True
    )
    room.take(0)
    room.keep_prefix(0)
    room.give_back(0)
    assert room.free == 30
    assert room.fits(1)
    assert room.take(1) == 0
    assert room.free == 70 - 64


def test_shared_and_kept_prefixes_occupy_the_cache_once() -> None:
    """Three requests of 64 tokens share 48. The first has ended before the others arrive; meanwhile 48 are kept."""
    work = replace(workload_kv_room([60] * 3, 4, prefix_tokens=48), arrival_s=np.array([0.0, 100.0, 100.0]))
    costs = PlainCosts(pass_s=1.0, kv_capacity_tokens=1_000, kv_block_tokens=16)
    policy = ContinuousPolicy(max_users=3, prompt_tokens=1_000, prefix_cache=True)
    outcome = simulate_continuous(work, costs, policy)
    first_s, others_s = (float(outcome.left_s[i] - outcome.start_s[i]) for i in (0, 1))
    assert outcome.kv_token_s == pytest.approx(64 * first_s + 48 * (100 - first_s) + (48 + 2 * 16) * others_s)


@given(st.lists(st.integers(40, 200), min_size=1, max_size=12), st.integers(1, 60), st.sampled_from([0, 24, 40]))
def test_all_room_except_prefixes_is_free_after_the_requests(prompts: list[int], new: int, prefix_tokens: int) -> None:
    costs = WindowedCosts(kv_capacity_tokens=10_000)
    room = KvRoom(workload_kv_room(prompts, new, prefix_tokens), costs, prefix_cache=True)
    for request in range(len(prompts)):
        room.take(request)
        room.keep_prefix(request)
        assert room.free >= 0
    for request in range(len(prompts)):
        room.give_back(request)
    assert room.free == 10_000 - costs.room_tokens(prefix_tokens)


@pytest.mark.parametrize(("capacity", "together"), [(64, 1), (192, 3)])
def test_requests_are_served_concurrently_as_far_as_windows_leave_room(capacity: int, together: int) -> None:
    costs = WindowedCosts(pass_s=1.0, kv_capacity_tokens=capacity)
    work = workload_kv_room([90] * 6, 6)
    outcome = simulate_continuous(work, costs, ContinuousPolicy(max_users=8, prompt_tokens=1000))
    assert (np.sort(outcome.start_s)[:together] == 0).all()
    assert (np.sort(outcome.start_s)[together:] > 0).all()
