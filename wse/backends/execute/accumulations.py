"""Messages that stay in place as steps on an accumulator, which has what is in transit from PE to PE."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse_kernels.column_sums import ACCUMULATE, KEEP_LARGER, LOAD, STORE
from wse_mappings.schedule import Arrival, LineSchedule

Step = tuple[int, int, int]
"""A kind of step, and the first and the last PE of the line that it concerns."""


@lru_cache(maxsize=64)
def accumulation_of(schedule: LineSchedule) -> I32 | None:
    """Return the steps that have the same effect as the messages of an in-place schedule, int32 ``[steps, 3]``.

    None where lines do different things, send parts of their words, compare pairs, or a PE adds what it has to itself.
    What a later step overwrites and nobody reads before is not stored.
    """
    sources, targets, arrivals = schedule.messages.T
    doubles = (sources == targets) & (arrivals == Arrival.ADD)
    if len(schedule.first) > 2 or schedule.parts > 1 or (doubles | (arrivals == Arrival.ARGMAX)).any():
        return None
    steps, held, is_stored = list[Step](), -1, True
    for source, target, arrival in schedule.messages.tolist():
        if arrival == Arrival.DROP or source == target:
            continue
        adds = arrival == Arrival.ADD and held == target
        if held != source and not adds:
            if not is_stored:
                steps.append((STORE, held, held))
            steps.append((LOAD, source, source))
            held, is_stored = source, True
        if arrival in (Arrival.ADD, Arrival.MAX):
            if not adds and not is_stored:
                steps.append((STORE, held, held))
            kind, other = (ACCUMULATE if arrival == Arrival.ADD else KEEP_LARGER), source if adds else target
            steps.append((kind, other, other))
            held, is_stored = target, False
        else:
            first, last = (target, target) if arrival == Arrival.REPLACE else sorted((source, target))
            steps.append((STORE, first, last))
            is_stored = is_stored or arrival == Arrival.MULTICAST
    if not is_stored:
        steps.append((STORE, held, held))
    return np.array(_without_dead_stores(steps, schedule.length), np.int32).reshape(-1, 3)


def _without_dead_stores(steps: list[Step], length: int) -> list[Step]:
    """Return the steps without those whose result is overwritten before it is read."""
    kept, is_read = list[Step](), np.ones(length, np.bool_)
    for kind, first, last in reversed(steps):
        stores: npt.NDArray[np.bool_] = is_read[first : last + 1]
        if kind != STORE or stores.any():
            kept.append((kind, first, last))
        stores[:] = kind != STORE
    return kept[::-1]
