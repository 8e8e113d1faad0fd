"""Cutting a sequence of shares into runs that follow each other, as even as can be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

PRECISION = 1e-4
"""The relative distance from the least bound on sums at which the search for it ends."""


def even_runs(shares: Sequence[float], parts: int) -> list[tuple[int, int]]:
    """Divide weighted items into ``parts`` nonempty runs with the smallest maximum sum.

    Returns (start, count) pairs.

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
    """Return the minimum cost of dividing the items from each place on, by number of runs up to ``parts``.

    ``costs`` ``[start, end]`` are those of one run; ``joined`` adds them up or takes the larger.
    """
    least = [np.append(np.full(len(costs) - 1, np.inf), 0.0)]
    for _ in range(parts):
        least.append(joined(costs, least[-1]).min(axis=1))
    return least


def evenest_runs(shares: Sequence[float], parts: int, cuts: Sequence[bool]) -> list[tuple[int, int]]:
    """Divide many weighted items into ``parts`` runs with about the smallest maximum sum.

    Returns (start, count) pairs.

    Of such the runs with the fewest ends that ``cuts`` says of shares that they cut something, and of these those
    with the least sum of squares.

    1. A bound on the sums that leaves enough runs is found by halving.
    2. It leaves each end a stretch of places: as far as the longest runs reach from the first share on, and back from
       the last.
    3. The best way from the stretch of each end to that of the next is found for all their places.

    Raises:
        ValueError: there are fewer shares than parts.

    >>> evenest_runs([1, 3, 1, 3, 1, 3], 2, [True, False] * 3), evenest_runs([1, 3, 1, 3], 2, [True, False] * 2)
    ([(0, 3), (3, 3)], [(0, 2), (2, 2)])
    """
    count = len(shares)
    if not 1 <= parts <= count:
        message = f"{count} shares in {parts} runs"
        raise ValueError(message)
    return list(_evenest_runs(tuple(shares), parts, tuple(cuts)))


def _evenest_runs(shares: tuple[float, ...], parts: int, cuts: tuple[bool, ...]) -> tuple[tuple[int, int], ...]:
    count, before = len(shares), np.concatenate([[0.0], np.cumsum(shares)])
    totals: list[float] = before.tolist()
    # 1
    low, high = max(max(shares), totals[-1] / parts), totals[-1]
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if _longest(totals, parts, middle)[-1] == count else (middle, high)
    # 2
    last = _longest(totals, parts, high)
    first = [count - end for end in reversed(_longest([totals[-1] - total for total in reversed(totals)], parts, high))]
    places = [
        np.arange(max(run, low_end), min(count - parts + run, high_end) + 1)
        for run, (low_end, high_end) in enumerate(zip(first, last, strict=True))
    ]
    # 3
    is_cut = np.array([False, *cuts])
    costs, sources = np.zeros(1), []
    for begins, ends in pairwise(places):
        sums = before[ends] - before[begins][:, None]  # [begin, end]
        fits = (sums > 0) & (sums <= high * (1 + 1e-12))
        ways = np.where(fits, costs[:, None] + (sums / high) ** 2, np.inf)
        sources.append(ways.argmin(axis=0))
        costs = ways.min(axis=0) + 2 * parts * is_cut[ends]  # more than all squares
    at, ends_of_runs = 0, [count]
    for begins, source in zip(reversed(places[:-1]), reversed(sources), strict=True):
        at = int(source[at])
        ends_of_runs.append(int(begins[at]))
    return tuple((start, end - start) for start, end in pairwise(reversed(ends_of_runs)))


def _longest(before: Sequence[float], parts: int, bound: float) -> list[int]:
    """Return the ends of runs that are as long as a bound on their sums allows, 0 first."""
    ends, most = [0], bound * (1 + 1e-12)
    for _ in range(parts):
        ends.append(bisect_right(before, before[ends[-1]] + most) - 1)
    return ends


def apportion(shares: Sequence[float], total: int) -> list[int]:
    """Divide ``total`` into whole parts in proportion to shares, at least one each, by largest remainders.

    Raises:
        ValueError: there are more shares than there is to give.

    >>> apportion([2, 1, 1], 10)
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
