"""Statistics of an outcome: distributions of what users wait for, and the share of requests that are served in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.arrays import F64, Bools
from wse.serving.simulation.outcome import Outcome

QUANTILES: Final = (0.5, 0.9, 0.99)
PARTS_OF_RUN: Final = 8
"""Parts of equal weight that a run of passes counts as, whose seconds rise evenly."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The mean of some seconds, three quantiles, and the most."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: float


def distribution(values: F64) -> Distribution:
    """Return the distribution of some values, of equal weight, of which there is at least one."""
    p50, p90, p99 = np.quantile(values, QUANTILES).tolist()
    return Distribution(float(values.mean()), p50, p90, p99, float(values.max()))


def first_token_s(outcome: Outcome) -> F64:
    """float64 ``[requests]``: seconds from a request's arrival to its first token (TTFT)."""
    return outcome.first_s - outcome.workload.arrival_s


def queueing_s(outcome: Outcome) -> F64:
    """float64 ``[requests]``: seconds from a request's arrival until it is admitted."""
    return outcome.start_s - outcome.workload.arrival_s


def per_token_s(outcome: Outcome) -> F64:
    """float64 ``[requests]``: seconds per token after the first (TPOT); NaN for requests of one token."""
    more = outcome.workload.new_tokens - 1
    spans = outcome.end_s - outcome.first_s
    per_token = np.full(len(spans), math.nan)
    np.divide(spans, more, out=per_token, where=more > 0)
    return per_token


def gap_distribution(outcome: Outcome) -> Distribution | None:
    """The distribution of the gaps between two tokens of a user, over all tokens; None where none follows another.

    Of the tokens that a pass brings a user, as with drafts, the first comes after the pass and the others with it.
    """
    first, last, passes, users = outcome.gaps.T
    if not len(first):
        return None
    parts = np.minimum(passes, PARTS_OF_RUN).astype(np.int64)
    number = np.arange(parts.sum()) - np.repeat(parts.cumsum() - parts, parts)
    of_part = np.repeat(first, parts) + np.repeat(last - first, parts) * (number + 0.5) / np.repeat(parts, parts)
    weights = np.repeat(passes * users / parts, parts)
    total = float((outcome.workload.new_tokens - 1).sum())
    of_part, weights = np.append(of_part, 0.0), np.append(weights, total - (passes * users).sum())
    order = of_part.argsort()
    of_part, sums = of_part[order], weights[order].cumsum()
    at = np.searchsorted(sums, np.array(QUANTILES) * sums[-1])
    mean = float(((first + last) / 2 * passes * users).sum()) / total
    p50, p90, p99 = of_part[np.minimum(at, len(of_part) - 1)].tolist()
    return Distribution(mean, p50, p90, p99, float(np.maximum(first, last).max()))


def in_time(outcome: Outcome, ttft_s: float | None, tpot_s: float | None) -> Bools:
    """bool ``[requests]``: whether a request has its first token, and its others, as soon as a service promises."""
    served = np.ones(len(outcome.workload), bool)
    if ttft_s is not None:
        served &= first_token_s(outcome) <= ttft_s
    if tpot_s is not None:
        served &= ~(per_token_s(outcome) > tpot_s)  # those of one token have none
    return served


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Numbers of requests over time, at ``time_s`` from the first arrival: waiting, being read, being answered."""

    time_s: F64
    waiting: F64
    reading: F64
    answering: F64
    kv_tokens: F64


def levels(outcome: Outcome, points: int) -> Levels:
    """Return the levels at equal distances over the whole simulation."""
    work = outcome.workload
    begin = float(work.arrival_s[0])
    times = begin + np.linspace(0.0, outcome.makespan_s, points)

    def until(events: F64) -> F64:
        return np.searchsorted(np.sort(events), times, side="right").astype(np.float64)

    def tokens_until(events: F64) -> F64:
        order = events.argsort()
        sums = np.append(0.0, (work.prompt_tokens + work.new_tokens)[order].cumsum())
        return np.asarray(sums[np.searchsorted(events[order], times, side="right")])

    arrived, started = until(work.arrival_s), until(outcome.start_s)
    first, left = until(np.minimum(outcome.first_s, outcome.left_s)), until(outcome.left_s)
    held = tokens_until(outcome.start_s) - tokens_until(outcome.left_s)
    return Levels(times - begin, arrived - started, started - first, first - left, held)
