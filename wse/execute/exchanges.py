"""Exchanges: patterns in which a PE gets the words of one PE at the most, as tables for kernels without messages."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64
from wse_mappings.schedule import Arrival, LineSchedule

U8 = npt.NDArray[np.uint8]


class Exchange(NamedTuple):
    """The variants of a schedule in which no PE gets words of two.

    Attributes:
        sources: int32 ``[variants, length]``: the PE whose words each gets, -1 for none.
        crossings: int64 ``[variants, 2, length]``: messages that leave a PE for the next one, and the one before.
    """

    sources: I32
    crossings: I64


class Runs(NamedTuple):
    """An exchange along rows, as kernel ``exchange_along_rows`` takes it.

    Attributes:
        runs: int32 ``[run, 3]``: how far off the senders are, the first PE that gets words, and one past the last.
        first: int32 ``[variants + 1]``: the first run of each variant.
        chosen: uint8 ``[run, length]``: 1 for the PEs that get words.
    """

    runs: I32
    first: I32
    chosen: U8


@lru_cache(maxsize=64)
def exchange_of(schedule: LineSchedule) -> Exchange | None:
    """The exchange that a schedule is; None where words are combined, cut, passed on or given to several PEs.

    That holds where messages read nothing that others of the same step write: the caller vouches for it.
    """
    source, target, arrival = schedule.messages.T
    if schedule.parts > 1 or not np.isin(arrival, (Arrival.REPLACE, Arrival.COPY, Arrival.DROP)).all():
        return None
    variants, length = len(schedule.first) - 1, schedule.length
    variant = np.repeat(np.arange(variants), np.diff(schedule.first))
    stored = arrival != Arrival.DROP
    places = variant[stored] * length + target[stored]
    if len(np.unique(places)) < len(places):
        return None
    sources = np.full((variants, length), -1, np.int32)
    sources[variant[stored], target[stored]] = source[stored]
    ends = np.zeros((variants, 2, length + 1), np.int64)  # of stretches of links, summed up below
    up = source <= target
    for direction, going in enumerate((up, ~up)):
        begin, end = (source, target) if direction == 0 else (target + 1, source + 1)
        np.add.at(ends[:, direction], (variant[going], begin[going]), 1)
        np.add.at(ends[:, direction], (variant[going], end[going]), -1)
    return Exchange(sources=sources, crossings=np.ascontiguousarray(np.cumsum(ends, axis=2)[:, :, :length]))


@lru_cache(maxsize=64)
def runs_of(schedule: LineSchedule) -> Runs:
    """The runs of a schedule that is an exchange."""
    exchange = exchange_of(schedule)
    assert exchange is not None
    runs, first, chosen = [], [0], []
    for sources in exchange.sources:
        shifts = sources - np.arange(len(sources))
        for shift in np.unique(shifts[sources >= 0]).tolist():
            taken = (sources >= 0) & (shifts == shift)
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
def columns_of(schedule: LineSchedule, round_: int) -> tuple[I32, U8, I64]:
    """``sources``, ``chosen`` and ``crossings`` of a round, as kernel ``exchange_along_columns`` takes them.

    Variants that do the same are one.
    """
    exchange = exchange_of(schedule)
    assert exchange is not None
    count = len(exchange.sources)
    alike = np.concatenate([exchange.sources, exchange.crossings.reshape(count, -1)], axis=1)
    _, kept, number = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    of_column = number.reshape(-1)[schedule.variants[round_]]
    chosen = (of_column == np.arange(len(kept))[:, None]).astype(np.uint8)
    used = chosen.any(axis=1)
    return (
        np.ascontiguousarray(exchange.sources[kept][used]),
        np.ascontiguousarray(chosen[used]),
        np.ascontiguousarray(exchange.crossings[kept][used]),
    )
