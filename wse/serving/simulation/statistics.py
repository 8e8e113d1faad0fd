"""Statistics of a simulation: distributions of waiting times, and requests served in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np

from wse.arrays import F64, Bools
from wse.reports.result import Doc, Result
from wse.serving.simulation.outcome import SimulationOutcome

QUANTILES: Final = (0.5, 0.9, 0.99)
PARTS_OF_RUN: Final = 8
"""Number of equal parts into which a run of passes with increasing durations is divided."""


class Distribution(Result):
    """Mean, percentiles and maximum of a set of times."""

    mean: Annotated[float, Doc("mean", "s")]
    p50: Annotated[float, Doc("median", "s")]
    p90: Annotated[float, Doc("90th percentile", "s")]
    p99: Annotated[float, Doc("99th percentile", "s")]
    most: Annotated[float, Doc("maximum", "s")]


def distribution(values: F64) -> Distribution:
    """Return the mean, percentiles and maximum of one or more equally weighted values."""
    p50, p90, p99 = np.quantile(values, QUANTILES).tolist()
    return Distribution(mean=float(values.mean()), p50=p50, p90=p90, p99=p99, most=float(values.max()))


def first_token_s(outcome: SimulationOutcome) -> F64:
    """Return the time to first token of each request, in seconds, float64 [requests].

    The time is counted from the arrival of the request.
    """
    return outcome.first_s - outcome.workload.arrival_s


def queueing_s(outcome: SimulationOutcome) -> F64:
    """Return each request's time from arrival to admission in seconds, float64 [requests]."""
    return outcome.start_s - outcome.workload.arrival_s


def per_token_s(outcome: SimulationOutcome) -> F64:
    """Return the time per token after the first (TPOT), in seconds, float64 [requests].

    The value is NaN for one-token requests.
    """
    later_tokens = outcome.workload.new_tokens - 1
    spans = outcome.end_s - outcome.first_s
    per_token = np.full(len(spans), math.nan)
    np.divide(spans, later_tokens, out=per_token, where=later_tokens > 0)
    return per_token


def gap_distribution(outcome: SimulationOutcome) -> Distribution | None:
    """Return the distribution of the times between consecutive tokens of a user, over all tokens.

    If a pass yields several tokens, as with speculative decoding, its first token counts with the
    duration of the pass and its other tokens count with 0. The result is None if all answers have a
    single token.
    """
    first, last, passes, users = outcome.gaps.T
    if not len(first):
        return None
    part_counts = np.minimum(passes, PARTS_OF_RUN).astype(np.int64)
    part_index = np.arange(part_counts.sum()) - np.repeat(part_counts.cumsum() - part_counts, part_counts)
    part_s = np.repeat(first, part_counts) + np.repeat(last - first, part_counts) * (part_index + 0.5) / np.repeat(
        part_counts, part_counts
    )
    weights = np.repeat(passes * users / part_counts, part_counts)
    total = float((outcome.workload.new_tokens - 1).sum())
    part_s, weights = np.append(part_s, 0.0), np.append(weights, total - (passes * users).sum())
    order = part_s.argsort()
    part_s, sums = part_s[order], weights[order].cumsum()
    quantile_index = np.searchsorted(sums, np.array(QUANTILES) * sums[-1])
    mean = float(((first + last) / 2 * passes * users).sum()) / total
    p50, p90, p99 = part_s[np.minimum(quantile_index, len(part_s) - 1)].tolist()
    return Distribution(mean=mean, p50=p50, p90=p90, p99=p99, most=float(np.maximum(first, last).max()))


def in_time(outcome: SimulationOutcome, ttft_s: float | None, tpot_s: float | None) -> Bools:
    """Return, for each request, whether its latencies are within the limits, bool [requests].

    Args:
        outcome: Times of the requests.
        ttft_s: Maximum time to first token; None for no limit.
        tpot_s: Maximum time per token after the first; None for no limit. One-token requests always
            meet it.
    """
    is_in_time = np.ones(len(outcome.workload), bool)
    if ttft_s is not None:
        is_in_time &= first_token_s(outcome) <= ttft_s
    if tpot_s is not None:
        is_in_time &= ~(per_token_s(outcome) > tpot_s)  # NaN, for requests of one token, counts as in time
    return is_in_time


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Numbers of requests in each state over time. All arrays are float64 [points].

    Attributes:
        time_s: Points in time, in seconds since the first arrival.
        waiting: Requests waiting for admission.
        reading: Requests whose prompts are being processed.
        answering: Requests whose answers are being generated.
        kv_tokens: Total prompt and answer tokens of all admitted requests.
    """

    time_s: F64
    waiting: F64
    reading: F64
    answering: F64
    kv_tokens: F64


def levels(outcome: SimulationOutcome, points: int) -> Levels:
    """Return the number of requests in each state at evenly spaced points in time.

    Args:
        outcome: Times of all requests.
        points: Number of points, from the first arrival to the end of the simulation.
    """
    work = outcome.workload
    begin = float(work.arrival_s.min())
    times = begin + np.linspace(0.0, outcome.makespan_s, points)

    def count_until(events: F64) -> F64:
        """Return, at each of ``times``, how many events have happened, float64 [points].

        Args:
            events: Time of one event per request, such as its admission, float64 [requests].
        """
        return np.searchsorted(np.sort(events), times, side="right").astype(np.float64)

    def tokens_until(events: F64) -> F64:
        """Return, at each of ``times``, the total tokens of requests whose event has happened.

        Prompt and answer tokens are added up. The result is float64 [points].

        Args:
            events: Time of one event per request, such as its admission, float64 [requests].
        """
        order = events.argsort()
        sums = np.append(0.0, (work.prompt_tokens + work.new_tokens)[order].cumsum())
        return np.asarray(sums[np.searchsorted(events[order], times, side="right")])

    arrived_count, started = count_until(work.arrival_s), count_until(outcome.start_s)
    answering_started, ended = count_until(np.minimum(outcome.first_s, outcome.left_s)), count_until(outcome.left_s)
    kv_tokens = tokens_until(outcome.start_s) - tokens_until(outcome.left_s)
    return Levels(
        times - begin, arrived_count - started, started - answering_started, answering_started - ended, kv_tokens
    )
