"""The steady state of a machine that serves a constant number of equal requests: a closed form.

A *round* is the time in which every decoding request gets one token. A machine that reads a prompt spreads it over
some rounds, beside the requests that decode. In a closed loop of N requests that begin at even distances, a request
meets the prompts of the N - 1 others once each, so that with T further tokens, R rounds for a prompt, rounds of D
seconds without a prompt and of P seconds with a part of one

    answer_s  = (T - (N - 1) R) D + (N - 1) R P
    request_s = R P + answer_s
    requests per second = N / request_s

From (N - 1) R = T on, parts of prompts are read in every round. Where a prompt fills only a part f of what can be read
in a round, N R / (R + T) prompts then share one. A wait that keeps no part of the machine busy, such as the round trip
to the host, adds to the time to first token and, by Little's law, to the requests in flight.

The machine is saturated, so that more requests do not raise the rate, in two cases. When all rounds are full,
N R f = R + T, more requests wait for their prompts to be read, and the time per token does not change either. When
decoded tokens alone keep the machine busy all the time, rounds become longer with each request.

`wse.serving.simulation.continuous` serves the same rounds event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol

PRECISION: Final = 1e-12
"""Relative error of a number of requests that is solved for."""
MAX_STEPS: Final = 100


class PromptRounds(NamedTuple):
    """The rounds in which one prompt is read.

    Attributes:
        rounds: Number of rounds; a fraction where a prompt ends within a round.
        round_s: Seconds of each of them.
        fill: The part of what can be read in these rounds that the prompt is, at most 1.
    """

    rounds: float
    round_s: float
    fill: float = 1.0


class RoundCosts(Protocol):
    """Seconds of rounds of a machine for requests of one shape. Numbers of requests are real numbers."""

    def wait_s(self, others: float) -> float:
        """Return the seconds of a request before its first token in which it keeps no part of the machine busy.

        Args:
            others: Other requests in rounds.
        """

    def is_busy(self, decoding: float) -> bool:
        """Return whether some decoding requests keep the machine busy all the time, so that more only slow all down."""

    def decode_round_s(self, decoding: float) -> float:
        """Return the seconds of a round without a prompt, for at least one decoding request."""

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        """Return the rounds in which a prompt is read.

        Args:
            decoding: Requests that decode in these rounds, perhaps none.
            prompts: Prompts of which a part is read in each of them, at least 1 and at most 1 / `PromptRounds.fill`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """The mean times of a request among others that arrive and end, and the rate of all requests.

    Attributes:
        ttft_s: Mean time to first token, with all waiting.
        answer_s: Seconds from the first token to the last.
        requests_per_s: Requests that end in a second.
        saturated: Whether more requests in flight would not raise the rate.
    """

    ttft_s: float
    answer_s: float
    requests_per_s: float
    saturated: bool


@dataclass(frozen=True)
class ClosedLoop:
    """A machine on which a constant number of requests is in flight: whenever one ends, the next begins.

    Attributes:
        costs: Rounds of the machine.
        new_tokens: Tokens that each request generates, at least 1; the prompt gives the first.
    """

    costs: RoundCosts
    new_tokens: int

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the steady state of a number of requests in flight, at least 1.

        A machine may serve one request at a time, so the rate is never lower than that of one request alone. Without
        this bound the wait for a pass that is under way could make two requests of one token slower together.
        """

        def in_flight(in_rounds: float) -> float:
            """Return all requests in flight where so many are in rounds and the others are delayed."""
            if not in_rounds:
                return 0.0
            return in_rounds + self._in_rounds(in_rounds, part).requests_per_s * self.costs.wait_s(part * in_rounds)

        part = 1 - 1 / concurrency  # of the requests in rounds, those of other users
        in_rounds = _solve(in_flight, concurrency, 0.0, concurrency)
        state = self._in_rounds(in_rounds, part)
        if state.requests_per_s < self._rate_alone:
            ttft_s = concurrency / self._rate_alone - state.answer_s
            return replace(state, ttft_s=ttft_s, requests_per_s=self._rate_alone)
        return replace(state, ttft_s=state.ttft_s + self.costs.wait_s(part * in_rounds))

    def _in_rounds(self, requests: float, part: float) -> SteadyState:
        """Return the steady state of requests that are in rounds or wait for them all the time."""
        in_rounds = min(requests, self._requests_when_saturated)
        reading_s, answer_s = self._round_times(in_rounds, min(part * in_rounds, self._requests_when_saturated - 1))
        rate = min(in_rounds / (reading_s + answer_s), self._rate_when_saturated)
        return SteadyState(
            ttft_s=max(reading_s, requests / rate - answer_s),
            answer_s=answer_s,
            requests_per_s=rate,
            saturated=rate == self._rate_when_saturated or self.costs.is_busy(in_rounds),
        )

    def _round_times(self, in_rounds: float, others: float) -> tuple[float, float]:
        """Return the seconds in which a prompt is read and an answer decoded; formulas as of the module.

        Args:
            in_rounds: Requests that are read or decoded, no more than `_requests_when_saturated`.
            others: Prompts of others that each request meets while its answer is decoded.
        """
        further = self.new_tokens - 1
        decoding = max(0.0, in_rounds - 1)
        decode_s, rounds = self.costs.decode_round_s(decoding + 1), self.costs.prompt_rounds(decoding).rounds
        prompts_per_round = max(1.0, in_rounds * rounds / (rounds + further))
        prompt = self.costs.prompt_rounds(decoding, prompts_per_round)
        answer_s = further * decode_s + min(others * rounds, further) * (prompt.round_s - decode_s)
        return rounds * prompt.round_s, answer_s

    @cached_property
    def _rate_alone(self) -> float:
        """Requests per second of one request in flight."""
        return 1 / (self.costs.wait_s(0.0) + sum(self._round_times(1.0, 0.0)))

    @cached_property
    def _rate_when_saturated(self) -> float:
        """Requests per second with prompts in all rounds: with fewer requests in flight there are no more of them."""
        requests = self._requests_when_saturated
        return requests / sum(self._round_times(requests, requests - 1))

    @cached_property
    def _requests_when_saturated(self) -> float:
        """The requests in rounds from which on prompts fill every round: N R f = R + T."""
        further, alone = self.new_tokens - 1, self.costs.prompt_rounds(0.0)

        def excess_rounds(requests: float) -> float:
            prompt = self.costs.prompt_rounds(max(0.0, requests - 1))
            return prompt.rounds * (requests * prompt.fill - 1)

        most = (further / alone.rounds + 1) / alone.fill  # a prompt takes no fewer rounds beside more requests
        return _solve(excess_rounds, further, 1.0, most)


def _solve(rising: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Return the largest argument between two at which a rising function is at most a value, up to `PRECISION`.

    Regula falsi with the Illinois rule (Dowell and Jarratt, BIT 11, 1971): an end that stays for two steps counts half.
    """
    over_high = rising(high) - value
    if over_high <= 0:
        return high
    over_low = rising(low) - value
    if over_low > 0:
        return low
    moved_low: bool | None = None
    for _ in range(MAX_STEPS):
        at = low - over_low * (high - low) / (over_high - over_low)
        if not low < at < high:  # by rounding
            at = (low + high) / 2
        if high - low <= PRECISION * high:
            break
        over = rising(at) - value
        if not over:
            return at
        if over <= 0:
            low, over_low = at, over
            over_high *= 0.5 if moved_low else 1.0
        else:
            high, over_high = at, over
            over_low *= 0.5 if moved_low is False else 1.0
        moved_low = over <= 0
    return low
