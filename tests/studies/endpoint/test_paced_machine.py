"""Tests of PacedMachine with a simulated clock: token times, timers, slow readers and cancelled requests."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
import pytest

from tests.support.plain_costs import PlainCosts
from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.live_replicas import LiveReplicas
from wse.serving.simulation.replicas import simulate_continuous
from wse.studies.endpoint.paced_machine import PacedMachine

COSTS = PlainCosts(
    pass_s=0.01, user_s=0.001, context_s=1e-5, prompt_s=0.002, piece_s=0.005, drain=0.003, chunk_tokens=4
)
POLICIES = pytest.mark.parametrize("tokens", [None, 16], ids=["gaps", "parts"])


class FakeTimer:
    """A timer of FakeClock that can be cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeClock:
    """A clock that moves only in `advance`, and calls its timers late by `delay_s` seconds.

    Attributes:
        now_s: Current time in seconds.
        calls: Number of timers set so far.
    """

    def __init__(self, delay_s: float = 0.0) -> None:
        self.now_s, self.calls, self._delay_s = 100.0, 0, delay_s
        self._timers: list[tuple[float, int, FakeTimer, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer()
        self.calls += 1
        heappush(self._timers, (max(when, self.now_s) + self._delay_s, self.calls, timer, callback))
        return timer

    def advance(self, until_s: float) -> None:
        """Call the timers that are due until a time, and move the clock to it."""
        while self._timers and self._timers[0][0] <= until_s:
            when, _, timer, callback = heappop(self._timers)
            if not timer.is_cancelled:
                self.now_s = np.nextafter(when, np.inf)
                callback()
        self.now_s = until_s


def paced(
    clock: FakeClock, tokens: int | None, speed: float = 1.0, max_users: int = 8, replicas: int = 1
) -> PacedMachine:
    """Return a machine at the pace of the clock; `tokens` is ``prompt_tokens`` of its ContinuousPolicy."""
    policy = ContinuousPolicy(max_users=max_users, prompt_tokens=tokens)
    template = plain_workload(np.zeros(1), np.array([20]), np.array([30]))
    return PacedMachine(LiveReplicas([LiveMachine(template, COSTS, policy) for _ in range(replicas)]), speed, clock)


@POLICIES
@pytest.mark.parametrize("speed", [1.0, 0.1])
@pytest.mark.parametrize("delay_s", [1e-6, 0.02], ids=["prompt", "late"])
def test_token_times_equal_the_simulation_even_if_timers_are_late(
    tokens: int | None, speed: float, delay_s: float
) -> None:
    arrivals = np.cumsum(np.random.default_rng(0).exponential(0.2, 40))
    work = plain_workload(arrivals, np.arange(40) % 17 + 4, np.arange(40) % 13 + 2)
    expected = simulate_continuous(work, COSTS, ContinuousPolicy(max_users=8, prompt_tokens=tokens))
    clock = FakeClock(delay_s)
    machine = paced(clock, tokens, speed)
    answers = []
    for at, prompt, new in zip(arrivals, work.prompt_tokens, work.new_tokens, strict=True):
        clock.advance(100.0 + at / speed)
        answers.append(machine.submit(int(prompt), int(new)))
    clock.advance(1e6)
    assert all(answer.is_complete for answer in answers)
    np.testing.assert_allclose([answer.token_times_s[0] for answer in answers], expected.first_s, rtol=1e-6)
    np.testing.assert_allclose([answer.token_times_s[-1] for answer in answers], expected.end_s, rtol=1e-6)


@POLICIES
def test_idle_machine_sets_no_timers(tokens: int | None) -> None:
    clock = FakeClock()
    machine = paced(clock, tokens)
    machine.submit(20, 10)
    clock.advance(200.0)
    calls = clock.calls
    assert 10 <= calls <= 40
    clock.advance(10_000.0)
    assert clock.calls == calls


@POLICIES
def test_reader_gets_all_tokens_that_are_due(tokens: int | None) -> None:
    async def read() -> None:
        clock = FakeClock()
        answer = paced(clock, tokens).submit(20, 10)
        clock.advance(100.0 + COSTS.round_s(0, 0, ()) + 0.09)
        first = await answer.next_tokens()
        clock.advance(200.0)
        assert first is not None
        assert first.start == 0
        assert await answer.next_tokens() == range(first.stop, 10)
        assert await answer.next_tokens() is None

    asyncio.run(read())


def test_cancelled_request_frees_its_slot() -> None:
    clock = FakeClock(1e-6)
    machine = paced(clock, 16, max_users=1, replicas=2)
    answers = [machine.submit(20, tokens) for tokens in (1_000, 1_001, 11, 10)]
    clock.advance(100.5)
    assert (machine.live.running_requests, machine.live.queue_length, machine.live.backlog) == (2, 2, 2)
    machine.cancel(answers[1])
    clock.advance(101.5)
    assert [answer.is_complete for answer in answers] == [False, False, False, True]
    assert answers[3].start_s == pytest.approx(0.5, abs=0.03)
