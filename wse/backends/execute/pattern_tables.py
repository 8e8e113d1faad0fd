"""Tables of patterns, as kernels take them: of messages, and of exchanges, where a PE gets words of one PE at most."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.number_formats import WORD_BYTES
from wse_mappings.schedule import Arrival, LineSchedule

U8 = npt.NDArray[np.uint8]


class Runs(NamedTuple):
    """An exchange along rows, in the form that kernel ``exchange_along_rows`` needs.

    Attributes:
        runs: int32 ``[run, 3]``: how far off the senders are, the first PE that gets words, and one past the last.
        first: int32 ``[variants + 1]``: the first run of each variant.
        chosen: uint8 ``[run, length]``: 1 for the PEs that get words.
    """

    runs: I32
    first: I32
    chosen: U8


@lru_cache(maxsize=64)
def stretches_of(schedule: LineSchedule, elements: int, element_bytes: int) -> I32:
    """Return the messages of a schedule with the first element and the number of elements of each, int32 ``[m, 5]``.

    Parts are cut where words end.
    """
    words = -(-elements * element_bytes // WORD_BYTES)
    begin, end = np.minimum(schedule.spans_of_messages(words) * WORD_BYTES // element_bytes, elements)
    return np.concatenate([schedule.messages, np.stack([begin, end - begin], axis=1).astype(np.int32)], axis=1)


@lru_cache(maxsize=64)
def multicasts_cover(schedule: LineSchedule) -> bool:
    """Return whether the messages of each line are sums followed by multicasts that reach all PEs with sums."""
    for variant in range(len(schedule.first) - 1):
        messages, _, part = schedule.of_variant(variant)
        multicast = messages[:, 2] == Arrival.MULTICAST
        sums = messages[~multicast]
        is_sum = np.isin(sums[:, 2], (Arrival.ADD, Arrival.MAX)).all()
        if part is not None or not is_sum or multicast[: len(sums)].any():
            return False
        covered = np.zeros(schedule.length, np.bool_)
        for source, target in messages[multicast, :2].tolist():
            covered[min(source, target) : max(source, target) + 1] = True
        if not covered[sums[:, :2]].all():
            return False
    return True


@lru_cache(maxsize=64)
def senders_of(schedule: LineSchedule) -> I32 | None:
    """Return the PE from which each PE receives words, -1 for none, int32 ``[variants, length]``.

    None where words are combined, cut, passed on or given to several PEs, or a PE gets those of two. That it is an
    exchange holds where nothing is sent from where other words arrive: the caller vouches for it.
    """
    source, target, arrival = schedule.messages.T
    if schedule.parts > 1 or not np.isin(arrival, (Arrival.REPLACE, Arrival.COPY, Arrival.DROP)).all():
        return None
    variants, length = len(schedule.first) - 1, schedule.length
    variant, stored = np.repeat(np.arange(variants), np.diff(schedule.first)), arrival != Arrival.DROP
    places = variant[stored] * length + target[stored]
    if len(np.unique(places)) < len(places):
        return None
    senders = np.full((variants, length), -1, np.int32)
    senders[variant[stored], target[stored]] = source[stored]
    return senders


@lru_cache(maxsize=64)
def runs_of(schedule: LineSchedule) -> Runs:
    """Return the exchange of a schedule along rows."""
    of_variants = senders_of(schedule)
    assert of_variants is not None
    runs, first, chosen = [], [0], []
    for senders in of_variants:
        shifts = senders - np.arange(len(senders))
        for shift in np.unique(shifts[senders >= 0]).tolist():
            taken = (senders >= 0) & (shifts == shift)
            at = np.flatnonzero(taken)
            runs.append((shift, at[0], at[-1] + 1))
            chosen.append(taken)
        first.append(len(runs))
    return Runs(
        runs=np.array(runs, np.int32).reshape(-1, 3),
        first=np.array(first, np.int32),
        chosen=np.array(chosen, np.uint8).reshape(-1, schedule.length),
    )


@lru_cache(maxsize=1024)
def columns_of(schedule: LineSchedule, round_: int) -> tuple[I32, U8]:
    """Return the senders and the chosen columns of a round, in the form that ``exchange_along_columns`` needs.

    Variants that do the same are one.
    """
    senders = senders_of(schedule)
    assert senders is not None
    kept, number = np.unique(senders, axis=0, return_inverse=True)
    of_column = number.reshape(-1)[schedule.variants[round_]]
    chosen = (of_column == np.arange(len(kept))[:, None]).astype(np.uint8)
    used = chosen.any(axis=1)
    return kept[used], chosen[used]
