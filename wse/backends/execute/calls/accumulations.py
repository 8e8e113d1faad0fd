"""Conversion of in-place messages to steps of an accumulator, which holds words between PEs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse_kernels.communication.column_sums import ACCUMULATE, KEEP_LARGER, LOAD, STORE
from wse_mappings.schedule import Arrival, LineSchedule

Step = tuple[int, int, int]
"""Type of a step, and the first and last PE of the line that it affects."""


@lru_cache(maxsize=64)
def accumulation_of(schedule: LineSchedule) -> I32 | None:
    """Convert the messages of an in-place pattern to equivalent steps of an accumulator.

    The accumulator holds the words that travel from PE to PE along a line. A sum therefore stays in
    registers until a PE needs it. Each message is converted as follows:

    1. If the accumulator does not have the words of the sender, they are loaded. An accumulated
       value that is not yet stored is stored first. A sum whose receiver is in the accumulator
       needs no load.
    2. A combining message (sum or maximum) combines the accumulator with the words of the receiver,
       or of the sender. The accumulator then has the value of the receiver.
    3. Any other message stores the accumulator in the PEs that it reaches.
    4. Stores whose values are overwritten before they are read are removed.

    Args:
        schedule: The pattern, whose messages arrive at the address from which they are sent.

    Returns:
        int32 ``[steps, 3]``: the operation, and the first and last PE that it affects. None if the
        lines execute different messages, if messages carry only parts of the words, if pairs are
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
        adds = arrival == Arrival.ADD and accumulated_pe == target  # 1
        if accumulated_pe != source and not adds:
            if not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            steps.append((LOAD, source, source))
            accumulated_pe, is_stored = source, True
        if arrival in (Arrival.ADD, Arrival.MAX):  # 2
            if not adds and not is_stored:
                steps.append((STORE, accumulated_pe, accumulated_pe))
            kind, added_pe = (ACCUMULATE if arrival == Arrival.ADD else KEEP_LARGER), source if adds else target
            steps.append((kind, added_pe, added_pe))
            accumulated_pe, is_stored = target, False
        else:  # 3
            first, last = (target, target) if arrival == Arrival.REPLACE else sorted((source, target))
            steps.append((STORE, first, last))
            is_stored = is_stored or arrival == Arrival.MULTICAST
    if not is_stored:
        steps.append((STORE, accumulated_pe, accumulated_pe))
    return np.array(_without_dead_stores(steps, schedule.length), np.int32).reshape(-1, 3)  # 4


def _without_dead_stores(steps: list[Step], length: int) -> list[Step]:
    """Return accumulator steps without those stores whose result is overwritten before it is read.

    Args:
        steps: Type of each step, and the first and last PE that it affects.
        length: Number of PEs on the line.
    """
    needed_steps, is_read = list[Step](), np.ones(length, np.bool_)
    for kind, first, last in reversed(steps):
        stores: npt.NDArray[np.bool_] = is_read[first : last + 1]
        if kind != STORE or stores.any():
            needed_steps.append((kind, first, last))
        stores[:] = kind != STORE
    return needed_steps[::-1]
