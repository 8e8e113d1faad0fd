"""Capacity: the requests a second that a machine serves under a policy while some always wait.

Requests of the same lengths wait all at once, and are served by the same events as any others. The rate is that at
which they are admitted, from the time when half are until the last is: before that the machine fills, afterwards it
drains. A queue whose offered load, arrivals over this rate, is 1 or more grows without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.workload import Workload

FEWEST: Final = 1_000
MOST: Final = 20_000
TURNS: Final = 10
"""Requests that are served for it: ``TURNS`` for each seat, between the two numbers."""


def capacity_requests_per_s(workload: Workload, seats: int, serve: Callable[[Workload], Outcome]) -> float:
    """Requests a second at most; infinite where they take no time.

    Args:
        workload: The requests, whose lengths count.
        seats: Users that are served at a time.
        serve: Serves a workload.
    """
    outcome = serve(workload.all_at_once(min(max(FEWEST, TURNS * seats), MOST)))
    starts = np.sort(outcome.start_s)
    half = starts[len(starts) // 2]
    later = starts[starts > half]
    if not len(later):  # all fit at once
        return len(starts) / outcome.makespan_s if outcome.makespan_s else math.inf
    return len(later) / float(later[-1] - half)
