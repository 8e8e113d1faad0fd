"""Workload: requests with their arrival, lengths and tier; and arrivals and lengths drawn from distributions.

Random numbers come from Philox, a counter-based generator (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as
easy as 1, 2, 3, SC 2011), with one stream each for arrivals, lengths, tiers, prefixes and drafts: a change of one
leaves the others as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from wse.arrays import F64, I64

Arrivals = Literal["poisson", "constant", "bursts"]
CONSTANT: Final = "constant"
ARRIVALS: Final[tuple[Arrivals, ...]] = ("poisson", CONSTANT, "bursts")
FAST, NORMAL = 0, 1
"""Tiers, in the order in which they are served."""
NO_PREFIX: Final = -1
_ARRIVALS, _PROMPTS, _ANSWERS, _TIERS, _PREFIXES, DRAFTS = range(6)
"""Streams of random numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Requests in the order of their arrival.

    Attributes:
        arrival_s: float64 ``[requests]``, never falling.
        prompt_tokens, new_tokens: int64 ``[requests]``, at least 1.
        tier: int64 ``[requests]``: FAST or NORMAL.
        prefix: int64 ``[requests]``: the prefix that a prompt begins with, by number, or NO_PREFIX.
        prefix_tokens: int64 ``[requests]``: its tokens, fewer than the prompt's.
        in_flight: Requests in flight in a closed loop: so many arrive at ``arrival_s``, and each later one when another
            ends. None where all arrive at ``arrival_s``.
    """

    arrival_s: F64
    prompt_tokens: I64
    new_tokens: I64
    tier: I64
    prefix: I64
    prefix_tokens: I64
    in_flight: int | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    @staticmethod
    def joined(parts: Sequence[Workload]) -> Workload:
        """Return the requests of some workloads, one after another."""
        joined: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in parts]) for n in _PER_REQUEST}
        return Workload(**joined)

    @property
    def rate_per_s(self) -> float:
        """Requests a second from the first to the last; infinite where all come at once."""
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > 0 else math.inf if len(self) > 1 else 0.0

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest prompt with its answer."""
        return int((self.prompt_tokens + self.new_tokens).max())

    def all_at_once(self, requests: int) -> Workload:
        """Return ``requests`` requests of these lengths, repeated if there are fewer, that all arrive at time 0."""
        return replace(self.part(np.arange(requests) % len(self)), arrival_s=np.zeros(requests))

    def part(self, requests: I64) -> Workload:
        """Return some of the requests, by their numbers, with the times of their arrival."""
        chosen: dict[str, Any] = {name: getattr(self, name)[requests] for name in _PER_REQUEST}
        return Workload(**chosen)

    def at_rate(self, rate_per_s: float) -> Workload:
        """Return the same requests with arrivals drawn out or moved together, for another rate.

        Not where all come at once.
        """
        if not 0 < self.rate_per_s < math.inf:
            return self
        return replace(self, arrival_s=self.arrival_s * (self.rate_per_s / rate_per_s))


_PER_REQUEST: Final = ("arrival_s", "prompt_tokens", "new_tokens", "tier", "prefix", "prefix_tokens")


def plain_workload(arrival_s: F64, prompt_tokens: I64, new_tokens: I64) -> Workload:
    """Requests of one tier without shared prefixes."""
    count = len(arrival_s)
    return Workload(
        arrival_s=arrival_s,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        tier=np.full(count, NORMAL),
        prefix=np.full(count, NO_PREFIX),
        prefix_tokens=np.zeros(count, np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """A workload to be drawn.

    Attributes:
        requests: Number of requests.
        arrivals: The process of arrivals; those of a burst come at once, and bursts as a Poisson process.
        burst: Requests of a burst.
        prompt_tokens, new_tokens: Mean lengths.
        length_cv: Coefficient of variation of lengths, which are log-normal; 0 for equal ones.
        context: Tokens of a prompt and its answer, at most; longer draws are cut.
        fast_share: Share of requests in the fast tier.
        prefix_tokens: Tokens of the prefixes that prompts begin with; 0 for none.
        prefixes: Number of different prefixes.
        seed: Of all that is drawn.
    """

    requests: int
    arrivals: Arrivals = "poisson"
    burst: int = 1
    prompt_tokens: int
    new_tokens: int
    length_cv: float = 0.0
    context: int
    fast_share: float = 0.0
    prefix_tokens: int = 0
    prefixes: int = 1
    seed: int = 0


def draw_workload(options: WorkloadOptions) -> Workload:
    """Requests that come at one a second on average; `Workload.at_rate` gives them another rate."""
    count, prefix_tokens = options.requests, options.prefix_tokens
    most_prompt = options.context - 1
    prompts = _lengths(options, _PROMPTS, options.prompt_tokens, np.full(count, most_prompt))
    prompts = np.maximum(prompts, prefix_tokens + 1)
    answers = _lengths(options, _ANSWERS, options.new_tokens, options.context - prompts)
    tiers = np.where(random_stream(options.seed, _TIERS).random(count) < options.fast_share, FAST, NORMAL)
    prefix = np.full(count, NO_PREFIX)
    if prefix_tokens:
        prefix = random_stream(options.seed, _PREFIXES).integers(options.prefixes, size=count)
    return Workload(
        arrival_s=_arrivals(options),
        prompt_tokens=prompts,
        new_tokens=answers,
        tier=tiers,
        prefix=prefix,
        prefix_tokens=np.full(count, prefix_tokens),
    )


def _arrivals(options: WorkloadOptions) -> F64:
    """Arrivals from 0 on, one a second on average."""
    count, burst = options.requests, options.burst if options.arrivals == "bursts" else 1
    if options.arrivals == CONSTANT:
        return np.arange(count, dtype=np.float64)
    gaps = random_stream(options.seed, _ARRIVALS).exponential(burst, math.ceil(count / burst))
    return np.asarray(np.repeat(gaps.cumsum() - gaps[0], burst)[:count])


def _lengths(options: WorkloadOptions, stream: int, mean: int, most: I64) -> I64:
    """Log-normal lengths of a mean: σ² = ln(1 + cv²), µ = ln(mean) - σ²/2."""
    count, cv = options.requests, options.length_cv
    if not cv:
        return np.asarray(np.minimum(mean, most))
    variance = math.log1p(cv * cv)
    drawn = random_stream(options.seed, stream).lognormal(math.log(mean) - variance / 2, math.sqrt(variance), count)
    return np.asarray(np.clip(np.rint(drawn), 1, most), np.int64)


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Return the random numbers of a stream."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, stream]))
