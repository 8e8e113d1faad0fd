"""Closed form of the steady state of a machine that serves a constant number of identical requests.

A *round* is the time in which every decoding request gets one token. A prompt is processed over R
rounds, alongside the requests that decode. In a closed loop of N requests that start at equal
intervals, the prompts of all N - 1 other requests are processed once each while one request
decodes. With T additional tokens per request, rounds of D seconds without a prompt, and rounds of P
seconds with a part of a prompt:

    answer_s  = (T - (N - 1) R) D + (N - 1) R P
    request_s = R P + answer_s
    requests per second = N / request_s

From (N - 1) R = T on, every round reads parts of prompts. If a prompt fills only a fraction f of
what a round can read, N R / (R + T) prompts share a round. A wait that keeps no part of the machine
busy, such as the round trip to the host, adds to the time to first token. By Little's law, it also
adds to the requests in flight.

The rate is highest if all rounds are full: N R f = R + T. Additional requests then wait for their
prompts to be processed, and neither the rate nor the time per token changes. The machine counts as
saturated if its rate is lower than the highest one by at most `NEGLIGIBLE`. If decoding alone keeps
the machine fully occupied, it can be saturated before all rounds are full, because each additional
request lengthens the rounds.

`wse.serving.simulation.continuous` serves the same rounds event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Protocol

PRECISION: Final = 1e-12
"""Relative error of a number of requests found by iteration."""
MAX_STEPS: Final = 100
NEGLIGIBLE: Final = 0.001
"""Fraction of the highest rate by which a saturated machine's rate may be lower."""


class PromptRounds(NamedTuple):
    """Number and duration of the rounds in which one prompt is processed.

    A round is the time in which every decoding request gets one token.

    Attributes:
        rounds: Number of rounds; a fraction if a prompt ends within a round.
        round_s: Duration of each round in seconds.
        fill: Prompt tokens divided by the number of prompt tokens that these rounds could process,
            at most 1.
    """

    rounds: float
    round_s: float
    fill: float = 1.0


class _RequestTimes(NamedTuple):
    """Mean durations of the two parts of a request, its prompt and its answer, in the steady state.

    Attributes:
        reading_s: Seconds in which the prompt is processed.
        answer_s: Seconds from the first to the last token.
        prompts_at_arrival: Number of prompts that are being processed when a request arrives.
            It is 0 if some rounds process no prompt: requests then start at equal intervals, so the
            previous prompt has already been processed.
    """

    reading_s: float
    answer_s: float
    prompts_at_arrival: float


class RoundCosts(Protocol):
    """Duration of rounds on a machine, for requests of equal length.

    A round is the time from one decode pass of all users to the next. Numbers of requests are
    averages and therefore need not be whole.
    """

    @property
    def delay_s(self) -> float:
        """Seconds from the end of the prompt's prefill to the first token."""

    def pass_s(self, decoding: float, prompts: float) -> float:
        """Return the duration in seconds of a pass that new requests cannot join; 0 if they can.

        Args:
            decoding: Number of requests that decode in the pass, at least 1.
            prompts: Number of prompts that are processed in the pass; 0 or at least 1.
        """

    def decode_round_s(self, decoding: float) -> float:
        """Return the duration in seconds of a round in which no prompt is processed.

        In a round, each of the ``decoding`` requests (at least one) gets one token.
        """

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the number and duration of the rounds in which a prompt is processed.

        In a round, each decoding request gets one token.

        Args:
            decoding: Number of requests that decode in these rounds; may be 0.
            prompts: Number of prompts that are processed in each round, at least 1. A prompt that
                fills only a part of a round (`PromptRounds.fill`) leaves room for others.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """Mean request times and request rate of a machine in its steady state.

    Attributes:
        ttft_s: Mean time to first token, including all waiting.
        answer_s: Seconds from the first to the last token.
        requests_per_s: Requests completed per second.
        saturated: Whether more requests in flight would raise the rate by at most `NEGLIGIBLE`.
    """

    ttft_s: float
    answer_s: float
    requests_per_s: float
    saturated: bool


@dataclass(frozen=True)
class ClosedLoop:
    """A machine with a constant number of requests in flight: when one ends, the next one starts.

    Attributes:
        costs: Duration of the machine's rounds.
        new_tokens: Tokens that each request generates, at least 1. The pass that ends the prompt
            yields the first.
    """

    costs: RoundCosts
    new_tokens: int

    @cached_property
    def _known_states(self) -> dict[float, SteadyState]:
        """Results of `steady_state`. Samples of uncertain numbers need the same ones many times."""
        return {}

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the mean times and the rate of requests, with a constant number in flight.

        Args:
            concurrency: Number of requests in flight, at least 1.
        """
        if concurrency not in self._known_states:
            self._known_states[concurrency] = self._steady_state(concurrency)
        return self._known_states[concurrency]

    def _steady_state(self, concurrency: float) -> SteadyState:
        """Compute `steady_state`.

        The rate is at least that of a single request in flight, because a machine can serve one
        request at a time. Without this bound, the wait for a running pass could make two concurrent
        one-token requests slower than two sequential requests.

        Args:
            concurrency: Number of requests in flight, at least 1.
        """

        def in_flight(in_rounds: float) -> float:
            """Return the total number of requests in flight, given the number of those in rounds.

            A request takes part in rounds while its prompt is processed or its answer is decoded.
            Other requests wait for their first token without using the machine; their number is the
            request rate times the waiting time.

            Args:
                in_rounds: Number of requests that take part in rounds.
            """
            if not in_rounds:
                return 0.0
            rate, times = self._rate_and_times(in_rounds, others_fraction)
            return in_rounds + rate * self._wait_s(others_fraction * in_rounds, times.prompts_at_arrival)

        others_fraction = 1 - 1 / concurrency  # fraction of the requests in rounds that belong to other users
        in_rounds = solve(in_flight, concurrency, 0.0, concurrency)
        rate, times = self._rate_and_times(in_rounds, others_fraction)
        is_saturated = rate >= (1 - NEGLIGIBLE) * self._rate_when_saturated
        rate = max(rate, self._rate_alone)
        ttft_s = concurrency / rate - times.answer_s
        return SteadyState(ttft_s=ttft_s, answer_s=times.answer_s, requests_per_s=rate, saturated=is_saturated)

    def _wait_s(self, other_requests: float, prompts: float) -> float:
        """Return the seconds that a request waits for its first token without using the machine.

        If a pass is running that it cannot join, half of the pass remains on average. With fewer
        than one other request in flight, a pass is running only for a fraction of the time.

        Args:
            other_requests: Mean number of other requests that are processed in rounds.
            prompts: Number of prompts that the running pass processes; 0 or at least 1.
        """
        half_pass_s = min(1.0, other_requests) * self.costs.pass_s(max(1.0, other_requests), prompts) / 2
        return self.costs.delay_s + half_pass_s

    def _rate_and_times(self, requests: float, others_fraction: float) -> tuple[float, _RequestTimes]:
        """Return the requests per second, and how long the prompt and the answer of each take.

        A round is the time in which every decoding request gets one token. A request takes part in
        rounds while its prompt is processed and its answer is decoded. Before that, it may have to
        wait until the rounds have room for its prompt.

        Args:
            requests: Number of requests that take part in rounds or wait for room in them.
            others_fraction: Fraction of the requests in rounds that are not the given request:
                1 - 1 / concurrency.
        """
        in_rounds = min(requests, self.requests_when_saturated)
        times = self._request_times(in_rounds, min(others_fraction * in_rounds, self.requests_when_saturated - 1))
        return min(in_rounds / (times.reading_s + times.answer_s), self._rate_when_saturated), times

    def _request_times(self, in_rounds: float, other_requests: float) -> _RequestTimes:
        """Return how long a request's prompt and its answer take.

        A round is the time in which every decoding request gets one token. The formulas are

        - R P seconds for the prompt
        - T D + min(n R, T) (P - D) seconds for the answer

        where R is the number of rounds per prompt, T the number of tokens after the first, and n is
        ``other_requests``. A round takes P seconds if a part of a prompt is processed in it, and D
        seconds otherwise.

        Args:
            in_rounds: Requests that are read or decoded, at most `requests_when_saturated`.
            other_requests: Number of other requests whose prompts are processed while an answer is
                decoded.
        """
        further_tokens = self.new_tokens - 1
        decoding = max(0.0, in_rounds - 1)
        decode_s, prompt = self.costs.decode_round_s(decoding + 1), self.costs.prompt_rounds(decoding)
        rounds = prompt.rounds
        prompts_per_round = max(1.0, in_rounds * rounds / (rounds + further_tokens))
        if prompts_per_round > 1:
            prompt = self.costs.prompt_rounds(decoding, prompts_per_round)
        answer_s = further_tokens * decode_s + min(other_requests * rounds, further_tokens) * (
            prompt.round_s - decode_s
        )
        return _RequestTimes(rounds * prompt.round_s, answer_s, prompts_per_round if prompts_per_round > 1 else 0.0)

    @cached_property
    def _rate_alone(self) -> float:
        """Requests per second with a single request in flight."""
        times = self._request_times(1.0, 0.0)
        return 1 / (self.costs.delay_s + times.reading_s + times.answer_s)

    @cached_property
    def _rate_when_saturated(self) -> float:
        """Maximum requests per second: the rate when every round is filled with prompt tokens."""
        requests = self.requests_when_saturated
        times = self._request_times(requests, requests - 1)
        return requests / (times.reading_s + times.answer_s)

    @cached_property
    def requests_when_saturated(self) -> float:
        """Minimum number of requests in flight that keep every round full of prompt tokens.

        In a round, each decoding request gets one token. Each of N requests takes part in R + T
        rounds: its prompt is processed in R rounds and fills the fraction f of their room for
        prompt tokens; then T tokens follow the first. All rounds are full if N R f = R + T.
        """
        further_tokens, prompt_alone = self.new_tokens - 1, self.costs.prompt_rounds(0.0)

        def excess_rounds(requests: float) -> float:
            """Return N R f - R, where N is ``requests``. It equals T if prompts fill every round.

            R is the number of rounds in which a prompt is processed, f the fraction of these rounds
            that it fills, and T the number of tokens after the first.
            """
            prompt = self.costs.prompt_rounds(max(0.0, requests - 1))
            return prompt.rounds * (requests * prompt.fill - 1)

        # An upper bound: with more requests in flight, a prompt needs at least as many rounds as alone.
        max_requests = (further_tokens / prompt_alone.rounds + 1) / prompt_alone.fill
        return solve(excess_rounds, further_tokens, 1.0, max_requests)


def solve(rising: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Search a range for the largest argument at which a function does not exceed a value.

    The method is regula falsi with the Illinois rule (Dowell and Jarratt, BIT 11, 1971): if an end
    of the interval stays fixed for two steps, its function value is halved. The relative error is
    `PRECISION`.

    Args:
        rising: Non-decreasing function.
        value: Upper limit of the function.
        low, high: Ends of the range. If the function is above the value at ``low``, ``low`` is
            returned.
    """
    high_excess = rising(high) - value
    if high_excess <= 0:
        return high
    low_excess = rising(low) - value
    if low_excess > 0:
        return low
    moved_low: bool | None = None
    for _ in range(MAX_STEPS):
        middle = low - low_excess * (high - low) / (high_excess - low_excess)
        if not low < middle < high:  # can happen by rounding
            middle = (low + high) / 2
        if high - low <= PRECISION * high:
            break
        excess = rising(middle) - value
        if not excess:
            return middle
        if excess <= 0:
            low, low_excess = middle, excess
            high_excess *= 0.5 if moved_low else 1.0
        else:
            high, high_excess = middle, excess
            low_excess *= 0.5 if moved_low is False else 1.0
        moved_low = excess <= 0
    return low
