"""Tests of the steady state with users who pause, against queues that are simulated request by request."""

from heapq import heappop, heappush
from itertools import product
from math import ceil

import numpy as np
import pytest

from tests.serving.test_steady_state import PlainRounds
from wse.serving.pausing_users import PausingUsers, queue_s
from wse.serving.steady_state import ClosedLoop, PromptRounds

REQUESTS = 40_000
REQUESTS_IN_PASSES = 8_000
"""Fewer requests, because their passes are simulated one by one. The mean times then vary by about 1 %."""


def simulated_queue(servers: int, service_s: float, users: int, think_s: float) -> tuple[float, float]:
    """Return the mean wait in seconds and the requests per second of users who pause at random."""
    pauses = iter(np.random.default_rng(0).exponential(think_s, REQUESTS + users).tolist())
    arrivals, free, waits, now = sorted(next(pauses) for _ in range(users)), [0.0] * servers, [], 0.0
    for _ in range(REQUESTS):
        now = heappop(arrivals)
        start = max(now, heappop(free))
        waits.append(start - now)
        heappush(free, start + service_s)
        heappush(arrivals, start + service_s + next(pauses))
    return float(np.mean(waits)), REQUESTS / now


@pytest.mark.parametrize(("servers", "users"), [(1, 2), (1, 50), (2, 4), (5, 10), (20, 200)])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_wait_is_that_of_a_simulated_queue(servers: int, users: int, load: float) -> None:
    wait_s, rate = simulated_queue(servers, 1.0, users, users / (load * servers) - 1.0)
    assert queue_s(servers, 1.0, rate, users) == pytest.approx(wait_s, rel=0.15, abs=0.035)


def test_queue_without_others_has_no_wait() -> None:
    assert queue_s(servers=4, service_s=1.0, rate=3.9, users=4) == 0


def simulated_passes(rounds: PlainRounds, new_tokens: int, users: int, think_s: float) -> tuple[float, float]:
    """Return the mean time to first token and the requests per second, from passes that are simulated one by one.

    A pass processes all prompts that have arrived, up to the number that fills it.
    """
    random, prompt_s = np.random.default_rng(0), rounds.prompt.round_s - rounds.decode_s
    pauses = iter(random.exponential(think_s, REQUESTS_IN_PASSES + users).tolist())
    arrivals, decoding, waiting, now = sorted(next(pauses) for _ in range(users)), [], [], 0.0
    first_s: list[float] = []
    passes = 0
    while len(first_s) < REQUESTS_IN_PASSES:
        if not (waiting or decoding):
            now = max(now, arrivals[0])
        while arrivals and arrivals[0] <= now:
            waiting.append(heappop(arrivals))
        read, waiting = waiting[: ceil(1 / rounds.prompt.fill)], waiting[ceil(1 / rounds.prompt.fill) :]
        now, passes = now + rounds.decode_s + len(read) * prompt_s, passes + 1
        while decoding and decoding[0] <= passes:
            heappop(decoding)
            heappush(arrivals, now + next(pauses))
        for arrival in read:
            first_s.append(now - arrival)
            heappush(decoding, passes + new_tokens - 1)
    return float(np.mean(first_s)), REQUESTS_IN_PASSES / now


@pytest.mark.parametrize(("users", "fill"), [(1, 1.0), *product((5, 20, 60), (1.0, 0.25, 0.01))])
def test_time_to_first_token_is_that_of_simulated_passes(fill: float, users: int) -> None:
    """Prompts add 9 ms to passes of 1 ms, so 60 users who pause for 1 s keep passes busy for half of the time."""
    rounds = SharedRounds(1e-3, PromptRounds(1, 10e-3, fill))
    state = PausingUsers(ClosedLoop(rounds, 101), max_concurrency=1_000, users=users, think_s=1.0).steady_state()
    ttft_s, rate = simulated_passes(rounds, 101, users, 1.0)
    assert state.ttft_s == pytest.approx(ttft_s, rel=0.07)
    assert state.requests_per_s == pytest.approx(rate, rel=0.02)


class SharedRounds(PlainRounds):
    """Rounds to which each prompt adds the same time."""

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        return self.prompt._replace(round_s=self.decode_s + prompts * (self.prompt.round_s - self.decode_s))
