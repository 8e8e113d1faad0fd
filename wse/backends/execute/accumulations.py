"""In-place messages as steps of an accumulator that holds the words in transit from PE to PE."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse_kernels.column_sums import ACCUMULATE, KEEP_LARGER, LOAD, STORE
from wse_mappings.schedule import Arrival, LineSchedule

Step = tuple[int, int, int]
"""Type of a step, and the first and last PE of the line that it affects."""


@lru_cache(maxsize=64)
def accumulation_of(schedule: LineSchedule) -> I32 | None:
    """Return accumulator steps with the same effect as the messages of an in-place schedule.

    Values that a later step overwrites before they are read are not stored.

    Returns:
        int32 ``[steps, 3]``. None if lines differ, if parts of words are sent, if pairs are
        compared (ARGMAX), or if a PE adds its words to themselves.
    """
    sources, targets, arrivals = schedule.messages.T
    doubles = (sources == targets) & (arrivals == Arrival.ADD)
    if len(schedule.first) > 2 or schedule.parts > 1 or (doubles | (arrivals == Arrival.ARGMAX)).any():
        return None
    steps, accumulated_pe, is_stored = list[Step](), -1, True
    for source, target, arrival in schedule.messages.tolist():
        if arrival == Arrival.DROP or source == target:
            continue
        adds = arrival == Arrival.ADD and accumulated_pe == target
        if accumulated_pe != source and not adds:
            if not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            steps.append((LOAD, source, source))
            accumulated_pe, is_stored = source, True
        if arrival in (Arrival.ADD, Arrival.MAX):
            if not adds and not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            kind, added_pe = (ACCUMULATE if arrival == Arrival.ADD else KEEP_LARGER), source if adds else target
            steps.append((kind, added_pe, added_pe))
            accumulated_pe, is_stored = target, False
        else:
            first, last = (target, target) if arrival == Arrival.REPLACE else sorted((source, target))
            steps.append((STORE, first, last))
            is_stored = is_stored or arrival == Arrival.MULTICAST
    if not is_stored:
        steps.append((STORE, accumulated_pe, accumulated_pe))
    return np.array(_without_dead_stores(steps, schedule.length), np.int32).reshape(-1, 3)


def _without_dead_stores(steps: list[Step], length: int) -> list[Step]:
    """Return the steps without stores whose result is overwritten before it is read."""
    needed_steps, is_read = list[Step](), np.ones(length, np.bool_)
    for kind, first, last in reversed(steps):
        stores: npt.NDArray[np.bool_] = is_read[first : last + 1]
        if kind != STORE or stores.any():
            needed_steps.append((kind, first, last))
        stores[:] = kind != STORE
    return needed_steps[::-1]
