"""Workload: requests with their arrivals, lengths and tiers, specified or randomly drawn.

Random numbers come from Philox, a counter-based generator (Salmon, Moraes, Dror and Shaw, Parallel
random numbers: as easy as 1, 2, 3, SC 2011). Arrivals, lengths, tiers, prefixes and drafts have
separate random-number streams, so changing one does not change the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wse.arrays import F64, I64
from wse.serving.simulation.arrivals import BURSTS, CONSTANT, POISSON, Arrivals
from wse.serving.simulation.kv.prefixes import NO_PREFIX, PrefixTree, PrefixTreeBuilder

FAST, NORMAL = 0, 1
"""Service tiers, in order of precedence."""
_ARRIVALS, _PROMPTS, _ANSWERS, _TIERS, _PREFIXES, DRAFTS, _PAUSES = range(7)
"""Indices of the random-number streams."""
PREFIX_STEPS: Final = 32
"""Number of different lengths up to that of a mean prefix, if prefixes have different lengths."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """The requests that a simulation serves, in order of arrival.

    Attributes:
        arrival_s: Arrival times in seconds, non-decreasing, float64 [requests].
        prompt_tokens, new_tokens: Lengths of prompts and answers, at least 1, int64 [requests].
        tier: Service tier of each request, FAST or NORMAL, int64 [requests].
        prefix: Last block of the prefix with which a prompt starts, as an index into
            ``prefix_tree``, or NO_PREFIX, int64 [requests]. A prefix is shorter than its prompt.
        prefix_tree: Blocks of the prefixes of all prompts.
        in_flight: Number of users in a closed loop. Their first requests arrive at ``arrival_s``.
            Each later request arrives after the previous request of the same user and a pause. None
            if all requests arrive at ``arrival_s``.
        think_s: Mean seconds for which a user of a closed loop pauses between an answer and the next
            request. Pauses are distributed exponentially, as in the benchmark TPC-W (specification
            1.8, 2002). With equal pauses, users whose requests once met would stay together.
        seed: Seed of the pauses.
    """

    arrival_s: F64
    prompt_tokens: I64
    new_tokens: I64
    tier: I64
    prefix: I64
    prefix_tree: PrefixTree
    in_flight: int | None = None
    think_s: float = 0.0
    seed: int = 0

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.arrival_s)

    def pauses_s(self) -> F64:
        """Draw the pause after each request of a closed loop in seconds, float64 [requests]."""
        return random_stream(self.seed, _PAUSES).exponential(self.think_s, len(self))

    @staticmethod
    def concatenated(parts: Sequence[Workload]) -> Workload:
        """Concatenate the requests of several workloads into one workload.

        The result is not a closed loop, even if the given workloads are.

        Args:
            parts: Workloads with the same prefix tree.
        """
        columns: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in parts]) for n in _PER_REQUEST}
        return Workload(**columns, prefix_tree=parts[0].prefix_tree)

    @property
    def rate_per_s(self) -> float:
        """Requests per second between the first and the last arrival.

        The rate is infinite if all requests arrive at once, and 0 for a single request.
        """
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > 0 else math.inf if len(self) > 1 else 0.0

    @property
    def prefix_tokens(self) -> I64:
        """Length of the prefix of each prompt in tokens, 0 without a prefix, int64 [requests]."""
        return self.prefix_tree.tokens(self.prefix)

    @property
    def max_tokens(self) -> int:
        """Length of the longest request in tokens, including prompt and answer."""
        return int((self.prompt_tokens + self.new_tokens).max())

    @property
    def lengths_vary(self) -> bool:
        """True if requests differ in the number of prompt tokens or of output tokens."""
        return bool(np.ptp(self.prompt_tokens) or np.ptp(self.new_tokens))

    def all_at_once(self, requests: int) -> Workload:
        """Return a workload with the same lengths in which all requests arrive at time 0.

        Args:
            requests: Number of requests. Lengths are repeated if this workload has fewer.
        """
        return replace(self.part(np.arange(requests) % len(self)), arrival_s=np.zeros(requests))

    def part(self, requests: I64) -> Workload:
        """Return a workload of the requests with the given indices, with unchanged arrival times.

        The result is not a closed loop, even if this workload is one.

        Args:
            requests: Indices of the requests, int64 [n].
        """
        columns: dict[str, Any] = {name: getattr(self, name)[requests] for name in _PER_REQUEST}
        return Workload(**columns, prefix_tree=self.prefix_tree)

    def without_prefixes(self) -> Workload:
        """Return the same requests, except that no prompt begins with a shared prefix."""
        no_prefixes = np.full(len(self), NO_PREFIX)
        return replace(self, prefix=no_prefixes, prefix_tree=PrefixTreeBuilder().tree())

    def at_rate(self, rate_per_s: float) -> Workload:
        """Return the same requests with arrival times scaled to a different rate.

        A workload with a single request, or with requests that all arrive at once, is returned
        unchanged.
        """
        if not 0 < self.rate_per_s < math.inf:
            return self
        return replace(self, arrival_s=self.arrival_s * (self.rate_per_s / rate_per_s))


_PER_REQUEST: Final = ("arrival_s", "prompt_tokens", "new_tokens", "tier", "prefix")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """The distributions from which the requests of a workload are drawn.

    Attributes:
        requests: Number of requests.
        arrivals: Type of arrivals. The requests of a burst arrive together, and bursts arrive as a
            Poisson process.
        burst: Requests per burst.
        prompt_tokens, new_tokens: Mean lengths of prompts and answers.
        prompt_cv, answer_cv: Coefficient of variation of these lengths, which are log-normal; 0 for
            equal lengths.
        context: Maximum combined length of a prompt and its answer; longer draws are cut.
        fast_share: Fraction of requests in the fast tier, which are admitted first.
        prefix_tokens: Mean number of tokens that a prompt shares with others, fewer than
            ``prompt_tokens``; 0 if there are none.
        prefixes: Number of different texts of which these tokens are the beginning.
        scales_prefixes: Whether a prefix is longer in a longer prompt, in proportion, as the
            history of a session. Otherwise all prefixes have equal lengths, as a system prompt.
        seed: Seed of all random numbers.
    """

    requests: int
    arrivals: Arrivals = POISSON
    burst: int = 1
    prompt_tokens: int
    new_tokens: int
    prompt_cv: float = 0.0
    answer_cv: float = 0.0
    context: int
    fast_share: float = 0.0
    prefix_tokens: int = 0
    prefixes: int = 1
    scales_prefixes: bool = False
    seed: int = 0


def draw_workload(options: WorkloadOptions) -> Workload:
    """Draw a random workload with one arrival per second on average.

    Use `Workload.at_rate` to change the rate.
    """
    count = options.requests
    prompts, prefix_tokens = _prompts(options)
    answers = _lengths(options, _ANSWERS, options.new_tokens, options.answer_cv, options.context - prompts)
    tiers = np.where(random_stream(options.seed, _TIERS).random(count) < options.fast_share, FAST, NORMAL)
    texts = random_stream(options.seed, _PREFIXES).integers(options.prefixes, size=count)
    prefix_tree, prefix = PrefixTree.tree_and_last_blocks(texts, prefix_tokens)
    return Workload(
        arrival_s=_arrivals(options),
        prompt_tokens=prompts,
        new_tokens=answers,
        tier=tiers,
        prefix=prefix,
        prefix_tree=prefix_tree,
        seed=options.seed,
    )


def _prompts(options: WorkloadOptions) -> tuple[I64, I64]:
    """Draw the lengths of prompts and of their prefixes in tokens, both int64 [requests].

    Prompt lengths have the specified mean and coefficient of variation, but are limited by the
    context. Prefixes are drawn in one of two ways:
    - All prefixes have the same length, and only the rest of a prompt varies.
    - A prefix is a fixed fraction of its prompt. Its length is rounded to a multiple of the mean
      prefix length divided by `PREFIX_STEPS`, so that there are few different prefixes and the
      simulation is fast.
    """
    count, prefix, mean = options.requests, options.prefix_tokens, options.prompt_tokens
    common_tokens = 0 if options.scales_prefixes else prefix
    cv = options.prompt_cv * mean / (mean - common_tokens)
    max_tail = np.full(count, options.context - 1 - common_tokens)
    prompts = common_tokens + _lengths(options, _PROMPTS, mean - common_tokens, cv, max_tail)
    if common_tokens == prefix:
        return prompts, np.full(count, prefix)
    step = max(1, round(prefix / PREFIX_STEPS))
    steps = np.rint(prompts * (prefix / mean / step)).astype(np.int64)
    return prompts, step * np.minimum(steps, (prompts - 1) // step)


def _arrivals(options: WorkloadOptions) -> F64:
    """Draw arrival times starting at 0, one per second on average, float64 [requests]."""
    count, burst = options.requests, options.burst if options.arrivals == BURSTS else 1
    if options.arrivals == CONSTANT:
        return np.arange(count, dtype=np.float64)
    gaps = random_stream(options.seed, _ARRIVALS).exponential(burst, math.ceil(count / burst))
    return np.asarray(np.repeat(gaps.cumsum() - gaps[0], burst)[:count])


def _lengths(options: WorkloadOptions, stream: int, mean: int, cv: float, max_lengths: I64) -> I64:
    """Draw log-normal lengths with a given mean, int64 [requests].

    The parameters of the distribution are σ² = ln(1 + cv²) and µ = ln(mean) - σ²/2.

    Args:
        options: Distributions of the workload.
        stream: Index of the random-number stream.
        mean: Mean length.
        cv: Coefficient of variation.
        max_lengths: Maximum length of each request, int64 [requests].
    """
    count = options.requests
    if not cv:
        return np.asarray(np.minimum(mean, max_lengths))
    variance = math.log1p(cv * cv)
    lengths = random_stream(options.seed, stream).lognormal(math.log(mean) - variance / 2, math.sqrt(variance), count)
    return np.asarray(np.clip(np.rint(lengths), 1, max_lengths), np.int64)


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Return the generator of one of several independent random-number streams.

    Args:
        seed: Seed of the workload.
        stream: Index of the stream.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, stream]))
