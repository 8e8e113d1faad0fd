"""The requests per second that a machine serves under a policy: while some always wait, and with some in flight.

Requests of the same lengths wait all at once, and are served by the same events as any others. The rate is that at
which they are admitted, from the time when half are until the last is: before that the machine fills, afterwards it
drains. A queue whose offered load, arrivals over this rate, is 1 or more grows without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.workload import Workload

GUESS_FACTOR: Final = 2.0
"""Rate of the first arrivals of a closed loop over the rate that is expected, so that it does not limit the loop."""
FEWEST: Final = 1_000
MOST: Final = 20_000
TURNS: Final = 10
"""Requests that are served for it: ``TURNS`` for each batch slot, between the two numbers."""


def capacity_requests_per_s(workload: Workload, seats: int, serve: Callable[[Workload], Outcome]) -> float:
    """Requests a second at most; infinite where they take no time.

    Args:
        workload: The requests, whose lengths count.
        batch slots: Users that are served at a time.
        serve: Serves a workload.
    """
    outcome = serve(workload.all_at_once(min(max(FEWEST, TURNS * seats), MOST)))
    starts = np.sort(outcome.start_s)
    half = starts[len(starts) // 2]
    later = starts[starts > half]
    if not len(later):  # all fit at once
        return len(starts) / outcome.makespan_s if outcome.makespan_s else math.inf
    return len(later) / float(later[-1] - half)


def closed_loop_requests_per_s(
    workload: Workload, users: int, expected_per_s: float, serve: Callable[[Workload], Outcome]
) -> float:
    """Return the requests per second of a machine with a constant number of requests in flight.

    The first requests begin at even distances. Their distance limits the rate, so the loop runs again with shorter
    distances where requests end faster than expected.

    Args:
        workload: The requests, whose lengths count.
        users: Requests in flight: whenever one ends, the next begins.
        expected_per_s: About the result.
        serve: Serves a workload.
    """
    waiting = workload.all_at_once(min(max(FEWEST, TURNS * users), MOST))
    spaced = replace(waiting, arrival_s=np.arange(len(waiting), dtype=np.float64), in_flight=users)
    while True:
        guess_per_s = GUESS_FACTOR * expected_per_s
        ends = np.sort(serve(spaced.at_rate(guess_per_s)).end_s)
        last = max(1, len(ends) - 1 - users)  # after it fewer are in flight
        half = last // 2
        rate_per_s = (last - half) / float(ends[last] - ends[half])
        if rate_per_s < 0.75 * guess_per_s:
            return rate_per_s
        expected_per_s = guess_per_s
