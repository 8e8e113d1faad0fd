"""The maximum request rate of a machine, and its request rate in a closed loop.

For the maximum rate, requests with the lengths of a workload all arrive at once and are simulated
like any others. The result is the rate of admissions in about the second half, before draining.
Identical requests are admitted in bursts, each as large as the machine's capacity. The number of
counted admissions is therefore a multiple of this capacity, so that they span whole bursts.

The offered load is the arrival rate divided by this rate. If it is 1 or more, the queue grows
without limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.workload import Workload

GUESS_FACTOR: Final = 2.0
"""Ratio of the arrival rate at the start of a closed loop to the expected rate.

It is above 1, so that these arrivals do not limit the loop.
"""
MIN_REQUESTS: Final = 1_000
MAX_REQUESTS: Final = 20_000
REQUESTS_PER_SLOT: Final = 10
"""Number of simulated requests per batch slot, subject to a minimum and maximum total.

There are at least 2 per slot or, in a closed loop, 3 per user.
"""
STABLE_LOAD: Final = 0.9
"""Load suggested for an overloaded service. It is below 1, so that the queue stays short."""


def capacity_requests_per_s(
    workload: Workload, slot_count: int, serve: Callable[[Workload], SimulationOutcome]
) -> float:
    """Return the maximum number of requests per second that a machine can serve.

    The rate is measured in a simulation in which all requests arrive at once. It is infinite if
    requests take no time.

    Args:
        workload: Requests; only their lengths matter.
        slot_count: Number of batch slots, that is, of users that are served concurrently.
        serve: Function that simulates a workload.
    """
    outcome = serve(workload.all_at_once(_request_count(slot_count, 2)))
    starts = np.sort(outcome.start_s)
    burst = max(1, int(np.searchsorted(starts, outcome.end_s.min())))  # admitted before the first request ends
    admissions = max(1, len(starts) // 2 // burst) * burst
    span_s = float(starts[-1] - starts[max(0, len(starts) - 1 - admissions)])
    if burst == len(starts) or not span_s:  # all requests fit concurrently, or take no time
        return len(starts) / outcome.makespan_s if outcome.makespan_s else math.inf
    return admissions / span_s


def closed_loop_requests_per_s(
    workload: Workload, users: int, expected_per_s: float, serve: Callable[[Workload], SimulationOutcome]
) -> float:
    """Return how many requests per second a machine serves with a constant number of users.

    The first requests of users arrive at equal intervals.

    - If users pause, the rate is the number of users divided by the sum of the mean latency of the
      later half of the requests and the mean pause.
    - Otherwise, if requests end faster than expected, the intervals limit the rate, and the
      simulation is repeated with shorter intervals.

    Args:
        workload: Requests; only their lengths and the think time matter.
        users: Number of users. Each sends the next request after an answer and a pause.
        expected_per_s: Estimate of the result.
        serve: Function that simulates a workload.
    """
    request_count = _request_count(users, 3)
    requests = workload.all_at_once(request_count)
    arrival_s = np.arange(len(requests), dtype=np.float64)
    spaced = replace(requests, arrival_s=arrival_s, in_flight=users, think_s=workload.think_s)
    if workload.think_s:
        outcome = serve(spaced.at_rate(expected_per_s))
        request_s = (outcome.end_s - outcome.workload.arrival_s)[request_count // 2 :].mean()
        return users / (float(request_s) + workload.think_s)
    while True:
        guess_per_s = GUESS_FACTOR * expected_per_s
        ends = np.sort(serve(spaced.at_rate(guess_per_s)).end_s)
        last = max(1, len(ends) - 1 - users)  # after this one, fewer requests are in flight
        half = last // 2
        rate_per_s = (last - half) / float(ends[last] - ends[half])
        if rate_per_s < 0.75 * guess_per_s:
            return rate_per_s
        expected_per_s = guess_per_s


def _request_count(slots: int, min_per_slot: int) -> int:
    """Return how many requests to simulate for a number of batch slots or users.

    Args:
        slots: Number of batch slots or users.
        min_per_slot: Minimum number of requests for each of them, also above the maximum total.
    """
    return max(min(max(MIN_REQUESTS, REQUESTS_PER_SLOT * slots), MAX_REQUESTS), min_per_slot * slots)


def suggested_rate(requests_per_s: float) -> float:
    """Return a positive rate rounded down to two decimals, or to three digits if it is below 1.

    A suggested rate is rounded down, so that it is not above the rate that a machine sustains.

    Args:
        requests_per_s: The rate; finite and positive.
    """
    unit = min(0.01, 10.0 ** (math.floor(math.log10(requests_per_s)) - 2))
    return math.floor(requests_per_s / unit) * unit


def stable_replicas(rate: float, capacity: float) -> int:
    """Return the minimum number of replicas (identical machines) at which the queue stays short.

    The load of each replica, i.e. the arrival rate relative to capacity, is at most `STABLE_LOAD`.
    The result is 1 if all requests arrive at once.

    Args:
        rate: Arrivals per second.
        capacity: Requests per second that one replica can serve.
    """
    return max(1, math.ceil(round(rate / capacity / STABLE_LOAD, 9))) if math.isfinite(rate) else 1
