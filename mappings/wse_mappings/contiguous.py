"""Cutting a sequence of shares into runs that follow each other, as even as can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def even_runs(shares: Sequence[float], parts: int) -> list[tuple[int, int]]:
    """(start, count) of each of ``parts`` runs of at least one: the largest sum is as small as can be.

    Of cuts with that sum one with the least sum of squares, the earlier runs the longer where that leaves a choice.

    Raises:
        ValueError: there are fewer shares than parts.

    >>> even_runs([3, 1, 1, 1, 1], 2)
    [(0, 2), (2, 3)]
    """
    count = len(shares)
    if not 1 <= parts <= count:
        message = f"{count} shares in {parts} runs"
        raise ValueError(message)
    return list(_even_runs(tuple(shares), parts)) if parts > 1 else [(0, count)]


@lru_cache(maxsize=256)
def _even_runs(shares: tuple[float, ...], parts: int) -> tuple[tuple[int, int], ...]:
    count = len(shares)
    before = np.concatenate([[0.0], np.cumsum(shares)])
    sums = before[None, :] - before[:, None]  # [start, end]
    sums[np.tril_indices(count + 1)] = np.inf
    largest = _best(sums, parts, np.maximum)[0]
    allowed = sums <= largest * (1 + 1e-12)
    ends = _best(np.where(allowed, sums * sums, np.inf), parts, np.add)[1]
    return tuple((start, end - start) for start, end in zip([0, *ends], ends, strict=False))


def _best(costs: F64, parts: int, joined: np.ufunc) -> tuple[float, list[int]]:
    """The least cost of cutting all in so many runs, costs ``[start, end]`` joined, and where the runs end."""
    count = len(costs) - 1
    rest = np.full(count + 1, np.inf)
    rest[count] = 0.0
    choices = []
    for _ in range(parts):
        every = joined(costs, rest[None, :])
        least = every.min(axis=1)
        close = every <= least[:, None] * (1 + 1e-12)
        choices.append(count - np.argmax(close[:, ::-1], axis=1))  # the longest run of those that are as good
        rest = least
    ends, start = [], 0
    for choice in reversed(choices):
        start = int(choice[start])
        ends.append(start)
    return float(rest[0]), ends


def proportional(shares: Sequence[float], total: int) -> list[int]:
    """``total`` in whole parts: one each and what is beyond in proportion to the shares, largest remainders rounded up.

    Raises:
        ValueError: there are more shares than there is to give.

    >>> proportional([2, 1, 1], 10)
    [4, 3, 3]
    """
    count = len(shares)
    if count > total:
        message = f"{total} for {count} shares"
        raise ValueError(message)
    if count == 1:
        return [total]
    weights = np.asarray(shares, np.float64) if any(shares) else np.ones(count)
    ideal = weights / weights.sum() * (total - count)  # beyond one for each
    parts = np.floor(ideal).astype(int)
    last = np.argsort(parts - ideal, kind="stable")[: total - count - int(parts.sum())]
    parts[last] += 1
    return [1 + int(part) for part in parts]
