"""Cutting a sequence of shares into runs that follow each other, as even as can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

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
    largest = _least(sums, parts, np.maximum)[parts][0]
    squares = np.where(sums <= largest * (1 + 1e-12), sums * sums, np.inf)
    least = _least(squares, parts, np.add)
    ends = [0]
    for remaining in reversed(range(parts)):
        every = squares[ends[-1]] + least[remaining]
        close = every <= least[remaining + 1][ends[-1]] * (1 + 1e-12)
        ends.append(count - int(np.argmax(close[::-1])))  # the longest run of those that are as good
    return tuple((start, end - start) for start, end in pairwise(ends))


def _least(costs: F64, parts: int, joined: np.ufunc) -> list[F64]:
    """The least cost of cutting the shares from each place on, ``[place]``, by number of runs up to ``parts``.

    ``costs`` ``[start, end]`` are those of one run; ``joined`` adds them up or takes the larger.
    """
    least = [np.append(np.full(len(costs) - 1, np.inf), 0.0)]
    for _ in range(parts):
        least.append(joined(costs, least[-1]).min(axis=1))
    return least


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
