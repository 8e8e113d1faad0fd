"""Tests of a simulated machine whose requests become known one by one, and of the times of their tokens."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.support.plain_costs import COSTS, PIECES, POLICIES
from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.kv.kv_tiers import KvTier
from wse.serving.simulation.replicas import simulate_continuous
from wse.serving.simulation.workload import Workload, WorkloadOptions, draw_workload

SEPARATE_PREFILL = PrefillMachine(costs=COSTS, transfer_s=0.01, transfer_s_per_token=1e-4)


def requests(arrival_s: Sequence[float], prompt_tokens: Sequence[int], new_tokens: Sequence[int]) -> Workload:
    """Return a workload with one request per entry."""
    return plain_workload(np.array(arrival_s), np.array(prompt_tokens), np.array(new_tokens))


def live_times(live: LiveMachine, work: Workload) -> dict[int, list[tuple[float, int]]]:
    """Serve requests that become known as they arrive; return (time in s, tokens so far) pairs by request."""
    added = [
        live.add(float(at), int(prompt), int(new))
        for at, prompt, new in zip(work.arrival_s, work.prompt_tokens, work.new_tokens, strict=True)
    ]
    live.run_until(1e6)
    times: dict[int, list[tuple[float, int]]] = {request: [] for request in added}
    for at_s, request, tokens in live.pop_tokens(np.inf):
        times[request].append((at_s, tokens))
    return times


@POLICIES
@pytest.mark.parametrize("prefill", [None, SEPARATE_PREFILL], ids=["same", "own"])
def test_first_and_last_tokens_equal_those_of_a_simulation_of_known_requests(
    policy: ContinuousPolicy, prefill: PrefillMachine | None
) -> None:
    options = WorkloadOptions(requests=200, prompt_tokens=20, new_tokens=30, prompt_cv=1.0, answer_cv=1.0, context=400)
    work = draw_workload(options).at_rate(6.0)
    known = simulate_continuous(work, COSTS, policy, prefill=prefill)
    times = list(live_times(LiveMachine(requests([0.0], [20], [30]), COSTS, policy, prefill=prefill), work).values())
    np.testing.assert_allclose([answer[0][0] for answer in times], known.first_s, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([answer[-1][0] for answer in times], known.end_s, rtol=1e-9, atol=1e-9)
    assert [answer[-1][1] for answer in times] == work.new_tokens.tolist()
    assert all(np.diff([at for at, _ in answer]).min(initial=1.0) > 0 for answer in times)


def test_live_requests_with_drafts_get_all_their_tokens() -> None:
    work = requests(np.arange(20) / 2, [20] * 20, [40] * 20)
    live = LiveMachine(work, COSTS, PIECES, drafts=Drafts(acceptances=(0.7, 0.5)))
    times = live_times(live, work)
    assert {answer[-1][1] for answer in times.values()} == {40}
    assert len({len(answer) for answer in times.values()}) > 3
    assert np.mean([len(answer) - 1 for answer in times.values()]) == pytest.approx(39 / 2.05, rel=0.15)


@POLICIES
@pytest.mark.parametrize("at_s", [0.05, 0.5, 3.0], ids=["read", "decoded", "late"])
def test_a_cancelled_request_frees_its_slot_and_its_cache(policy: ContinuousPolicy, at_s: float) -> None:
    live = LiveMachine(requests([0.0], [60], [100]), COSTS, replace(policy, max_users=1, prefix_cache=True))
    first, second = live.add(0.0, 60, 100, "abc"), live.add(0.01, 60, 100, "abd")
    live.run_until(0.04)
    assert (live.running_requests, live.queue_length) == (1, 1)
    live.cancel(first, at_s)
    live.run_until(100.0)
    assert {due.request for due in live.pop_tokens(100.0)} == {second}
    assert (live.running_requests, live.queue_length, live.kv_fraction) == (0, 0, 0.0)
    admitted_s = live.machine.record.start_s[second]
    alone_s = simulate_continuous(requests([0.0], [60], [100]), COSTS, policy).end_s[0]
    assert min(at_s, alone_s) - 1e-9 <= admitted_s <= min(at_s, alone_s) + 0.1
    live.machine.record.check_little()
    assert live.machine.record.cached_tokens[second] == (
        0 if at_s < 0.1 else 32
    )  # a prompt that was not read to its end is not kept


def test_a_cancelled_request_that_waits_is_never_admitted() -> None:
    live = LiveMachine(requests([0.0], [60], [100]), COSTS, replace(PIECES, max_users=1))
    add = partial(live.add, prompt_tokens=60, new_tokens=100)
    added = [add(at) for at in (0.0, 0.01, 0.02)]
    live.cancel(added[1], 0.03)
    live.cancel(added[1], 0.04)  # has no further effect
    live.run_until(100.0)
    assert {due.request for due in live.pop_tokens(100.0)} == {added[0], added[2]}
    assert live.next_change_s() == np.inf


def test_a_cancelled_request_whose_cache_is_being_sent_frees_its_slot() -> None:
    live = LiveMachine(requests([0.0], [60], [100]), COSTS, PIECES, prefill=SEPARATE_PREFILL)
    request = live.add(0.0, 60, 100)
    live.run_until(1e-9)
    assert 0.0 < live.machine.ready.next_s < np.inf
    live.cancel(request, 1e-9)
    assert (live.running_requests, live.kv_fraction, live.machine.ready.next_s) == (0, 0.0, np.inf)
    live.machine.record.check_little()


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_cancelled_request_whose_prefix_is_being_loaded_frees_its_slot(*, is_cancelled: bool) -> None:
    """A cache of 170 tokens has room for one prompt of 60 and its answer, so the second parks the first one's prefix.

    The load of 48 tokens takes 0.02 s + 48 x 0.1 ms, in which reading them would take 0.1 s.
    """
    tier = KvTier(name="host", capacity_tokens=1_000, s_per_token=1e-4, latency_s=0.02)
    costs = replace(COSTS, kv_capacity_tokens=170)
    live = LiveMachine(requests([0.0], [60], [100]), costs, replace(PIECES, prefix_cache=True, kv_tiers=(tier,)))
    for at, text in ((0.0, "abc"), (10.0, "def")):
        live.add(at, 60, 100, text)
    request = live.add(20.0, 60, 100, "abc")
    live.run_until(20.01)
    assert live.machine.loads.next_s == pytest.approx(20.0 + 0.02 + 48 * 1e-4)
    assert live.next_change_s() == live.machine.loads.next_s
    if is_cancelled:
        live.cancel(request, 20.01)
        assert (live.running_requests, live.kv_fraction, live.machine.loads.next_s) == (0, 0.0, np.inf)
    live.run_until(100.0)
    assert (request in {due.request for due in live.pop_tokens(100.0)}) != is_cancelled
    record = live.machine.record
    assert (record.cached_tokens[request], record.loaded_tokens[request]) == (0, 0 if is_cancelled else 48)
    assert (live.running_requests, live.next_change_s()) == (0, np.inf)
    live.machine.record.check_little()


def test_a_request_that_has_left_needs_little_memory() -> None:
    live = LiveMachine(requests([0.0], [8], [2]), COSTS, PIECES)
    tracemalloc.start()
    for number in range(500):
        live_times(live, requests([number], [8], [2]))
    used_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used_bytes / 500 < 500


@POLICIES
def test_the_next_change_is_the_end_of_a_round_or_of_a_prompt(policy: ContinuousPolicy) -> None:
    live = LiveMachine(requests([0.0], [8], [3]), COSTS, policy)
    request = live.add(1.0, 8, 3)
    changes = []
    while (at_s := live.next_change_s()) < np.inf:
        assert len(changes) < 20
        changes.append(at_s)
        live.run_until(np.nextafter(at_s, np.inf))
    due = live.pop_tokens(np.inf)
    assert [(d.request, d.tokens) for d in due] == [(request, 1), (request, 2), (request, 3)]
    assert changes[0] == 1.0
