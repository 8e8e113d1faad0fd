"""Closed form of the steady state of a machine whose users pause between their requests.

Pauses are random, so requests arrive at random times, not at equal intervals as in
`wse.serving.steady_state`. A request may therefore wait:

1. for space for its KV cache: in a queue with C servers, where C is the number of requests whose
   KV caches fit
2. for the prompts of other requests: in a queue with one server
3. for the running pass, if it cannot join it (on GPUs). Prompts that arrive during a pass share the
   next one and make it longer. More prompts then arrive during that pass, and so on.

While the space is full, a request starts only when another one ends. Requests are equally long, so
these starts are evenly spaced. Waits 2 and 3 are then the same as without pauses.

With X requests per second, pauses of Z seconds, and n requests in flight, there are n + X Z users
(interactive response time law: P. J. Denning and J. P. Buzen, The operational analysis of queueing
network models, ACM Computing Surveys, 1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wse.serving.steady_state import NEGLIGIBLE, ClosedLoop, SteadyState, solve


def waiting_fraction(servers: int, load: float) -> float:
    """Return the fraction of requests that have to wait for a server.

    The formula is load^(sqrt(2 (servers + 1)) - 1) (H. Sakasegawa, An approximation formula
    Lq = a rho^b / (1 - rho), Annals of the Institute of Statistical Mathematics, 1977).

    Args:
        servers: Number of servers, at least 1.
        load: Mean fraction of servers that are busy, from 0 to 1.
    """
    return float(load ** (math.sqrt(2 * (servers + 1)) - 1))


def queue_s(servers: int, service_s: float, rate: float, users: float) -> float:
    """Return the mean wait for a server in seconds if requests arrive at random times.

    Sakasegawa's formula is for random service times. With equal service times, the wait is half as
    long. At most ``users - servers`` requests can wait, so the queue that a request finds is reduced
    by the factor 1 - servers / users (similar to the approximation of Bard and Schweitzer: P.
    Schweitzer, Approximate analysis of multiclass closed networks of queues, 1979).

    Args:
        servers: Number of servers, at least 1.
        service_s: Seconds for which each request keeps a server busy.
        rate: Requests per second.
        users: Number of users, each of whom sends one request at a time.
    """
    load, others_fraction = min(1.0, rate * service_s / servers), max(0.0, 1 - servers / users)
    return others_fraction * waiting_fraction(servers, load) * service_s / servers / 2 / (1 - others_fraction * load)


class _Rounds(NamedTuple):
    """Durations of the rounds of a machine in seconds, for a mean number of requests in rounds.

    A round is the time in which each decoding request gets one token.

    Attributes:
        other_requests: Mean number of other requests that a request finds in rounds.
        reading_s: Time in which the prompt of a request is processed.
        decoding_s: Time from the first to the last token, if no other prompt is processed.
        prompt_s: Time that one prompt adds to rounds that are full of prompts.
        full_prompt_s: Time per prompt in rounds that are full of prompts: their duration divided by
            the number of prompts.
        fill: Prompt tokens divided by the number of prompt tokens that the rounds of one prompt could
            process, at most 1.
        pass_s: Duration of a pass that new requests cannot join; 0 if there is none.
    """

    other_requests: float
    reading_s: float
    decoding_s: float
    prompt_s: float
    full_prompt_s: float
    fill: float
    pass_s: float


class _Load(NamedTuple):
    """State of a machine with a certain mean number of requests in its rounds.

    Attributes:
        requests_per_s: Requests completed per second.
        in_flight: Mean number of requests that have space for their KV cache.
        answer_s: Seconds from the first to the last token.
    """

    requests_per_s: float
    in_flight: float
    answer_s: float


@dataclass(frozen=True)
class PausingUsers:
    """Users who send requests to a machine and pause after each answer.

    Attributes:
        loop: The machine with a constant number of requests in flight.
        max_concurrency: Maximum number of requests whose KV caches fit, at least 1.
        users: Number of users, at least 1.
        think_s: Mean pause in seconds, above 0.
    """

    loop: ClosedLoop
    max_concurrency: int
    users: float
    think_s: float

    def steady_state(self) -> SteadyState:
        """Return the mean times and the rate of requests.

        By Little's law, each user takes ``users / rate`` seconds from one request to the next,
        including the pause.
        """
        full = self._full
        load = _Load(full.requests_per_s, self.max_concurrency, full.answer_s)
        if self._users(load) > self.users:
            max_requests = min(self.max_concurrency, self.users)
            load = self._load(solve(lambda requests: self._users(self._load(requests)), self.users, 0.0, max_requests))
        return SteadyState(
            ttft_s=self.users / load.requests_per_s - self.think_s - load.answer_s,
            answer_s=load.answer_s,
            requests_per_s=load.requests_per_s,
            saturated=load.requests_per_s >= (1 - NEGLIGIBLE) * full.requests_per_s,
        )

    @property
    def _others_fraction(self) -> float:
        """Mean number of other requests that a request finds, divided by the mean number of requests."""
        return 1 - 1 / min(self.users, self.max_concurrency)

    @cached_property
    def _full(self) -> SteadyState:
        """Steady state without pauses, with as many requests in flight as fit."""
        return self.loop.steady_state(self.max_concurrency)

    def _users(self, load: _Load) -> float:
        """Return the number of users, not rounded, who cause a load."""
        if not load.requests_per_s:
            return 0.0
        request_s = load.in_flight / load.requests_per_s
        space_wait_s = queue_s(self.max_concurrency, request_s, load.requests_per_s, self.users)
        return load.in_flight + load.requests_per_s * (space_wait_s + self.think_s)

    def _load(self, in_rounds: float) -> _Load:
        """Return the load if, on average, a given number of requests take part in rounds.

        While the space for KV caches is full, requests start at equal intervals, otherwise at random
        times.

        Args:
            in_rounds: Mean number of requests in rounds, at most those that fit.
        """
        max_others = max(0.0, self.loop.requests_when_saturated - 1)
        rounds = self._rounds(min(self._others_fraction * in_rounds, max_others))
        load = self._partly_random_load(in_rounds, rounds, randomness=1.0)
        if self.users <= self.max_concurrency:
            return load
        in_flight = min(load.in_flight, self.users - load.requests_per_s * self.think_s)
        occupied = min(1.0, max(0.0, in_flight / self.max_concurrency))
        randomness = 1 - waiting_fraction(self.max_concurrency, occupied)
        return self._partly_random_load(in_rounds, rounds, randomness)

    def _partly_random_load(self, in_rounds: float, rounds: _Rounds, randomness: float) -> _Load:
        """Return the load if requests arrive at random times for a fraction of the time.

        With equal intervals, the prompts of all n others in rounds are processed once each during an
        answer. With random arrivals, only those that arrive during the answer are processed, on
        average n answer_s / (reading_s + answer_s). The duration of an answer then solves a quadratic
        equation.

        Args:
            in_rounds: Mean number of requests in rounds.
            rounds: Durations of the rounds.
            randomness: Fraction of the time in which requests arrive at random times; in the rest,
                they arrive at equal intervals.
        """
        prompts_s = rounds.other_requests * rounds.prompt_s
        fixed_s = rounds.decoding_s + (1 - randomness) * prompts_s
        half_s = (fixed_s + randomness * prompts_s - rounds.reading_s) / 2
        answer_s = min(half_s + math.sqrt(half_s**2 + fixed_s * rounds.reading_s), self._full.answer_s)
        rate = min(in_rounds / (rounds.reading_s + answer_s), self._full.requests_per_s)
        wait_s = self._wait_s(rate, rounds, randomness)
        return _Load(requests_per_s=rate, in_flight=in_rounds + rate * wait_s, answer_s=answer_s)

    def _wait_s(self, rate: float, rounds: _Rounds, randomness: float) -> float:
        """Return how long a request with KV-cache space waits for prompts, the pass and the host.

        Prompts of s seconds each that arrive during a pass are processed in the next one. If passes
        without a prompt take d seconds, and a fraction p = rate s of time is spent on prompts, passes
        take d / (1 - p) seconds on average. A request is more likely to arrive in a long pass than in
        a short one. The pass in which it arrives takes d / (1 - p) + s p / (1 - p^2) on average (the
        numbers of arrivals have a Poisson distribution).

        Args:
            rate: Requests per second.
            rounds: Durations of the rounds.
            randomness: Fraction of the time in which requests arrive at random times.
        """
        others_rate, fill = self._others_fraction * rate, rounds.fill
        load = self._others_fraction * min(1.0, rate * rounds.full_prompt_s)
        prompts = min(load, others_rate * rounds.prompt_s)  # fraction of time spent on prompts
        arrival_pass_s = rounds.pass_s / (1 - prompts) + rounds.prompt_s * prompts / (1 - prompts**2)
        later_prompts = min(others_rate * arrival_pass_s, 1 / fill - 1) / 2
        prompts_s = later_prompts * rounds.prompt_s
        prompts_s += queue_s(1, rounds.full_prompt_s, rate, min(self.users, self.max_concurrency))
        # Mean wait for the running pass, divided by that with equal intervals.
        pass_ratio = (1 - fill) * (1 + prompts) / (1 - prompts) + fill * (1 - load)
        half_pass_s = min(1.0, rounds.other_requests) * rounds.pass_s / 2
        pass_wait_s = half_pass_s * (1 + randomness * (pass_ratio - 1))
        return self.loop.costs.delay_s + pass_wait_s + randomness * prompts_s

    def _rounds(self, other_requests: float) -> _Rounds:
        """Return the durations of rounds for a mean number of other requests that are decoded."""
        costs, tokens = self.loop.costs, self.loop.new_tokens - 1
        decode_s, prompt = costs.decode_round_s(other_requests + 1), costs.prompt_rounds(other_requests)
        full_s = costs.prompt_rounds(other_requests, 1 / prompt.fill).round_s if prompt.fill < 1 else prompt.round_s
        return _Rounds(
            other_requests=other_requests,
            reading_s=prompt.rounds * prompt.round_s,
            decoding_s=tokens * decode_s,
            prompt_s=prompt.rounds * prompt.fill * max(0.0, full_s - decode_s),
            full_prompt_s=prompt.rounds * prompt.fill * full_s,
            fill=prompt.fill,
            pass_s=costs.pass_s(max(1.0, other_requests), 0.0),
        )


def steady_state(loop: ClosedLoop, max_concurrency: int, users: float, think_s: float) -> SteadyState:
    """Return the mean times and the rate of requests, with or without pauses.

    Args:
        loop: The machine with a constant number of requests in flight.
        max_concurrency: Maximum number of requests whose KV caches fit; 0 counts as 1.
        users: Number of users, at least 1. If they do not pause, all have a request in flight.
        think_s: Mean pause of a user between two requests in seconds.
    """
    if not think_s:
        return loop.steady_state(users)
    return PausingUsers(loop, max(1, max_concurrency), users, think_s).steady_state()
