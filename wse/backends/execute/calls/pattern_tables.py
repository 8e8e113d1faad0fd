"""Communication patterns as tables for kernels: lists of messages, or exchanges.

In an exchange, each PE receives words from at most one PE.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.number_formats import WORD_BYTES
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival, LineSchedule

U8 = npt.NDArray[np.uint8]


class Runs(NamedTuple):
    """Tables for the kernel ``exchange_along_rows``, in which each PE receives from at most one PE.

    A run is a set of PEs that all receive from the PE at the same distance. A variant is a list of
    messages that some of the rows execute, converted to runs.

    Attributes:
        runs: int32 ``[runs, 3]``: distance to the senders, first receiving PE, one past the last.
        first: int32 ``[variants + 1]``, first run of each variant, and finally the number of runs.
        receives: uint8 ``[runs, length]``, 1 for PEs that receive words in the run.
    """

    runs: I32
    first: I32
    receives: U8


@lru_cache(maxsize=64)
def message_spans(schedule: LineSchedule, elements: int, element_bytes: int) -> I32:
    """Return the messages of a pattern with the range of elements that each carries.

    Messages may carry all elements of a PE or one of several parts, which end at word boundaries.

    Args:
        schedule: The communication pattern.
        elements: Number of elements before the division into parts.
        element_bytes: Bytes per element.

    Returns:
        int32 ``[m, 5]``: sending PE, receiving PE, Arrival (effect at the receiver), first element,
        number of elements.
    """
    words = ceil_div(elements * element_bytes, WORD_BYTES)
    begin, end = np.minimum(schedule.spans_of_messages(words) * WORD_BYTES // element_bytes, elements)
    return np.concatenate([schedule.messages, np.stack([begin, end - begin], axis=1).astype(np.int32)], axis=1)


@lru_cache(maxsize=64)
def multicasts_cover(schedule: LineSchedule) -> bool:
    """Return True if the multicasts of a pattern overwrite all partial sums and maxima.

    A kernel then need not store the partial results. The result is True if two conditions are met,
    and the pattern does not divide words into parts:

    - Every line first computes sums or maxima and then only multicasts.
    - Every PE that sends or receives words for a sum or maximum is on the path of a multicast.
    """
    for variant in range(len(schedule.first) - 1):
        messages, _, part = schedule.variant_messages(variant)
        multicast = messages[:, 2] == Arrival.MULTICAST
        sums = messages[~multicast]
        is_sum = np.isin(sums[:, 2], (Arrival.ADD, Arrival.MAX)).all()
        if part is not None or not is_sum or multicast[: len(sums)].any():
            return False
        is_covered = np.zeros(schedule.length, np.bool_)
        for source, target in messages[multicast, :2].tolist():
            is_covered[min(source, target) : max(source, target) + 1] = True
        if not is_covered[sums[:, :2]].all():
            return False
    return True


@lru_cache(maxsize=64)
def senders_of(schedule: LineSchedule) -> I32 | None:
    """Return from which PE each PE of a line receives words, for each variant of a pattern.

    A variant is one of the pattern's lists of messages. The result is None if a PE receives from
    two PEs, or if words are combined (for example added) or divided into parts. The caller must
    check that words do not arrive where they are still to be sent from.

    Returns:
        Index of the sender, int32 ``[variants, length]``; -1 for a PE that receives nothing. Or
        None.
    """
    source, target, arrival = schedule.messages.T
    if schedule.parts > 1 or not np.isin(arrival, (Arrival.REPLACE, Arrival.COPY, Arrival.DROP)).all():
        return None
    variants, length = len(schedule.first) - 1, schedule.length
    variant, is_stored = np.repeat(np.arange(variants), np.diff(schedule.first)), arrival != Arrival.DROP
    places = variant[is_stored] * length + target[is_stored]
    if len(np.unique(places)) < len(places):
        return None
    senders = np.full((variants, length), -1, np.int32)
    senders[variant[is_stored], target[is_stored]] = source[is_stored]
    return senders


@lru_cache(maxsize=64)
def runs_of(schedule: LineSchedule) -> Runs:
    """Convert an exchange along rows to the tables of kernel ``exchange_along_rows``.

    In an exchange, each PE receives from at most one PE. A run contains all PEs that have the same
    distance to their senders, in the same direction. The kernel copies the words of all PEs of a
    run in one operation.
    """
    senders_by_variant = senders_of(schedule)
    assert senders_by_variant is not None
    runs, first, receives = [], [0], []
    for senders in senders_by_variant:
        shifts = senders - np.arange(len(senders))
        for shift in np.unique(shifts[senders >= 0]).tolist():
            in_run = (senders >= 0) & (shifts == shift)
            pes = np.flatnonzero(in_run)
            runs.append((shift, pes[0], pes[-1] + 1))
            receives.append(in_run)
        first.append(len(runs))
    return Runs(
        runs=np.array(runs, np.int32).reshape(-1, 3),
        first=np.array(first, np.int32),
        receives=np.array(receives, np.uint8).reshape(-1, schedule.length),
    )


@lru_cache(maxsize=1024)
def columns_of(schedule: LineSchedule, round_: int) -> tuple[I32, U8]:
    """Convert one round of a pattern to the tables of kernel ``exchange_along_columns``.

    In each round, a column executes one of several lists of messages (variants). If every PE
    receives from the same sender in two variants, the two are merged.

    Args:
        schedule: The communication pattern.
        round_: Index of the round.

    Returns:
        For each distinct variant in use, the index of the sender from which each PE of a column
        receives, int32 ``[n, length]``; and 1 for the columns that execute the variant, uint8
        ``[n, columns]``.
    """
    senders = senders_of(schedule)
    assert senders is not None
    distinct_senders, number = np.unique(senders, axis=0, return_inverse=True)
    variant_of_column = number.reshape(-1)[schedule.variants[round_]]
    receives = (variant_of_column == np.arange(len(distinct_senders))[:, None]).astype(np.uint8)
    is_used = receives.any(axis=1)
    return distinct_senders[is_used], receives[is_used]
