"""Closed form of the steady state of a machine whose users pause between their requests.

Pauses are random, so requests arrive at random times, not at equal intervals as in
`wse.serving.steady_state`. A request may therefore wait:

1. for space for its KV cache: a queue in front of as many servers as there are requests that fit
2. for the prompts of other requests: a queue in front of one server
3. for the running pass, if it cannot join it (on GPUs). Prompts that arrive during a pass share the
   next one and make it longer. More prompts then arrive during that pass, and so on.

While all space is occupied, each request starts when another one ends. As all requests are equally
long, these starts are regular, so the second and the third wait are those of equal intervals.

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
        load: Fraction of the servers that are busy on average, from 0 to 1.
    """
    return float(load ** (math.sqrt(2 * (servers + 1)) - 1))


def queue_s(servers: int, service_s: float, rate: float, users: float) -> float:
    """Return the mean wait for a server in seconds if requests arrive at random times.

    It is half of Sakasegawa's wait for random service times, because all requests take equally
    long. As at most ``users - servers`` requests can wait, it is limited as in the Bard-Schweitzer
    approximation.

    Args:
        servers: Number of servers, at least 1.
        service_s: Seconds for which each request keeps a server busy.
        rate: Requests per second.
        users: Number of users, each of whom sends one request at a time.
    """
    load, others_share = min(1.0, rate * service_s / servers), max(0.0, 1 - servers / users)
    return others_share * waiting_fraction(servers, load) * service_s / servers / 2 / (1 - others_share * load)


class _Rounds(NamedTuple):
    """Durations of the rounds of a machine in seconds, for a mean number of decoding requests.

    A round is the time in which each of these requests gets one token.

    Attributes:
        reading_s: Time in which the prompt of a request is processed.
        decoding_s: Time from the first to the last token, if no other prompt is processed.
        prompt_s: Additional duration of the rounds because of one prompt, if they process as many
            prompts as possible.
        full_prompt_s: Total duration of these rounds, divided by the number of prompts.
        fill: Fraction of the capacity of these rounds that one prompt uses.
        pass_s: Duration of a pass that new requests cannot join; 0 if there is none.
    """

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
        """Return the load with a mean number of requests that are being processed in rounds.

        Requests arrive at random times, except in the fraction of time in which all space for KV
        caches is occupied.

        Args:
            in_rounds: Mean number of requests in rounds, at most those that fit.
        """
        others_share = 1 - 1 / min(self.users, self.max_concurrency)
        rounds = self._rounds(others_share * in_rounds)
        load = self._load_if(in_rounds, others_share, rounds, randomness=1.0)
        if self.users <= self.max_concurrency:
            return load
        occupied = min(1.0, load.in_flight / self.max_concurrency)
        randomness = 1 - waiting_fraction(self.max_concurrency, occupied)
        return self._load_if(in_rounds, others_share, rounds, randomness)

    def _load_if(self, in_rounds: float, others_share: float, rounds: _Rounds, randomness: float) -> _Load:
        """Return the load for a fraction of time in which requests arrive at random times.

        With equal intervals, the prompts of all n others in rounds are processed once each during an
        answer. With random arrivals, it is the fraction of these that arrive during the answer.

        Args:
            in_rounds: Mean number of requests in rounds.
            others_share: Fraction of the requests in rounds that a request finds there.
            rounds: Durations of the rounds.
            randomness: Fraction of time in which requests arrive at random times.
        """
        prompts_s = others_share * in_rounds * rounds.prompt_s
        fixed_s = rounds.decoding_s + (1 - randomness) * prompts_s
        # answer_s = fixed_s + randomness * prompts_s * answer_s / (reading_s + answer_s)
        half_s = (fixed_s + randomness * prompts_s - rounds.reading_s) / 2
        answer_s = min(half_s + math.sqrt(half_s**2 + fixed_s * rounds.reading_s), self._full.answer_s)
        rate = min(in_rounds / (rounds.reading_s + answer_s), self._full.requests_per_s)
        wait_s = self._wait_s(others_share * in_rounds, rate, rounds, randomness)
        return _Load(requests_per_s=rate, in_flight=in_rounds + rate * wait_s, answer_s=answer_s)

    def _wait_s(self, other_requests: float, rate: float, rounds: _Rounds, randomness: float) -> float:
        """Return the seconds for which a request with space for its KV cache is not in rounds.

        Prompts of s seconds each that arrive during a pass are processed in the next one. If passes
        without a prompt take d seconds, and a fraction p = rate s of time is spent on prompts, passes
        take d / (1 - p) seconds on average. A request arrives during a longer one: its mean duration
        is d / (1 - p) + s p / (1 - p^2), because the variance of the number of random arrivals equals
        their mean.

        Args:
            other_requests: Mean number of other requests in rounds.
            rate: Requests per second.
            rounds: Durations of the rounds.
            randomness: Fraction of time in which requests arrive at random times.
        """
        others_share, fill = 1 - 1 / self.users, rounds.fill
        load = others_share * min(1.0, rate * rounds.full_prompt_s)
        prompts = min(load, others_share * rate * rounds.prompt_s)  # fraction of time spent on prompts
        arrival_pass_s = rounds.pass_s / (1 - prompts) + rounds.prompt_s * prompts / (1 - prompts**2)
        later_prompts = min(others_share * rate * arrival_pass_s, 1 / fill - 1) / 2
        prompts_s = queue_s(1, rounds.full_prompt_s, rate, self.users) + later_prompts * rounds.prompt_s
        passes = (1 - fill) * (1 + prompts) / (1 - prompts) + fill * (1 - load)  # relative to equal intervals
        half_pass_s = min(1.0, other_requests) * rounds.pass_s / 2
        return self.loop.costs.delay_s + half_pass_s + randomness * (prompts_s + (passes - 1) * half_pass_s)

    def _rounds(self, other_requests: float) -> _Rounds:
        """Return the durations of rounds for a mean number of other requests that are decoded."""
        costs, tokens = self.loop.costs, self.loop.new_tokens - 1
        decode_s, prompt = costs.decode_round_s(other_requests + 1), costs.prompt_rounds(other_requests)
        full_s = costs.prompt_rounds(other_requests, 1 / prompt.fill).round_s if prompt.fill < 1 else prompt.round_s
        return _Rounds(
            reading_s=prompt.rounds * prompt.round_s,
            decoding_s=tokens * decode_s,
            prompt_s=prompt.rounds * prompt.fill * (full_s - decode_s),
            full_prompt_s=prompt.rounds * prompt.fill * full_s,
            fill=prompt.fill,
            pass_s=costs.pass_s(max(1.0, other_requests), 0.0),
        )
