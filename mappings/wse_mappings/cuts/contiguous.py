"""Division of a sequence of weighted items into contiguous runs with nearly equal sums."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

PRECISION = 1e-4
"""Relative precision of the search for the minimum bound on sums."""


def even_runs(weights: Sequence[float], parts: int) -> list[tuple[int, int]]:
    """Divide weighted items into ``parts`` nonempty runs with the smallest maximum sum.

    A run consists of consecutive items. Among divisions with the same maximum, the one with the
    smallest sum of squares is chosen. If several remain, earlier runs are as long as possible.

    Args:
        weights: Weight of each item.
        parts: Number of runs.

    Returns:
        (start, count) of each run.

    Raises:
        ValueError: There are fewer items than parts.

    >>> even_runs([3, 1, 1, 1, 1], 2)
    [(0, 2), (2, 3)]
    """
    count = len(weights)
    if not 1 <= parts <= count:
        raise ValueError(f"{count} items cannot be divided into {parts} nonempty runs; give 1 to {count}")
    return list(_even_runs(tuple(weights), parts)) if parts > 1 else [(0, count)]


def _even_runs(weights: tuple[float, ...], parts: int) -> tuple[tuple[int, int], ...]:
    """Find the division that `even_runs` returns, for at least two runs and at least as many items.

    1. Find the smallest possible maximum sum of ``parts`` runs by dynamic programming.
    2. Among runs within this bound, minimise the sum of squares in the same way.
    3. Follow the optimum from the first item, choosing the longest of equally good runs.

    Args:
        weights: Weight of each item.
        parts: Number of runs.

    Returns:
        (start, count) of each run.
    """
    count = len(weights)
    prefix_sums = np.concatenate([[0.0], np.cumsum(weights)])
    sums = prefix_sums[None, :] - prefix_sums[:, None]  # [start, end]
    sums[np.tril_indices(count + 1)] = np.inf
    max_sum = _minimum_costs(sums, parts, np.maximum)[parts][0]
    squares = np.where(sums <= max_sum * (1 + 1e-12), sums * sums, np.inf)
    min_squares = _minimum_costs(squares, parts, np.add)
    ends = [0]
    for runs_left in reversed(range(parts)):
        totals = squares[ends[-1]] + min_squares[runs_left]
        is_best = totals <= min_squares[runs_left + 1][ends[-1]] * (1 + 1e-12)
        ends.append(count - int(np.argmax(is_best[::-1])))  # the longest of equally good runs
    return tuple((start, end - start) for start, end in pairwise(ends))


def _minimum_costs(costs: F64, parts: int, combine: np.ufunc) -> list[F64]:
    """Return the minimum cost of dividing the items from each position to the end into runs.

    Args:
        costs: ``[start, end]``: cost of a single run.
        parts: Maximum number of runs.
        combine: How the costs of runs are combined: np.add or np.maximum.

    Returns:
        One array for each number of runs, from 0 to ``parts``, indexed by the position of the first
        item.
    """
    minimum_costs = [np.append(np.full(len(costs) - 1, np.inf), 0.0)]
    for _ in range(parts):
        minimum_costs.append(combine(costs, minimum_costs[-1]).min(axis=1))
    return minimum_costs


def runs_with_fewest_cuts(weights: Sequence[float], parts: int, cuts: Sequence[bool]) -> list[tuple[int, int]]:
    """Divide many weighted items into ``parts`` runs with nearly the smallest maximum sum.

    A run consists of consecutive items, and its end may cut something, such as a layer. Among the
    best divisions, the one with the fewest such ends is chosen; ties are broken by the smallest sum
    of squares.

    1. Find, by bisection, a bound on the sums that allows ``parts`` runs.
    2. Find the range of possible positions of each end, from the longest runs that the bound
       allows, counted from the first item and from the last.
    3. Find the best path through the ranges of all ends.

    Args:
        weights: Weight of each item.
        parts: Number of runs.
        cuts: For each item, whether a run that ends with it cuts something.

    Returns:
        (start, count) of each run.

    Raises:
        ValueError: There are fewer items than parts.

    >>> runs_with_fewest_cuts([1, 3, 1, 3, 1, 3], 2, [True, False] * 3)
    [(0, 3), (3, 3)]
    >>> runs_with_fewest_cuts([1, 3, 1, 3], 2, [True, False] * 2)
    [(0, 2), (2, 2)]
    """
    count = len(weights)
    if not 1 <= parts <= count:
        raise ValueError(f"{count} items cannot be divided into {parts} nonempty runs; give 1 to {count}")
    return list(_runs_with_fewest_cuts(tuple(weights), parts, tuple(cuts)))


def _runs_with_fewest_cuts(
    weights: tuple[float, ...], parts: int, cuts: tuple[bool, ...]
) -> tuple[tuple[int, int], ...]:
    """Divide weighted items into runs with nearly the smallest maximum sum and the fewest cuts.

    There must be at least as many items as runs. `runs_with_fewest_cuts` explains the numbered
    steps of the code.

    Args:
        weights: Weight of each item.
        parts: Number of runs.
        cuts: For each item, whether a run that ends with it cuts something, such as a layer.

    Returns:
        (start, count) of each run.
    """
    count, prefix_sums = len(weights), np.concatenate([[0.0], np.cumsum(weights)])
    totals: list[float] = prefix_sums.tolist()
    # 1
    low, high = max(max(weights), totals[-1] / parts), totals[-1]
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if _longest_runs(totals, parts, middle)[-1] == count else (middle, high)
    # 2
    last = _longest_runs(totals, parts, high)
    first = [
        count - end for end in reversed(_longest_runs([totals[-1] - total for total in reversed(totals)], parts, high))
    ]
    places = [
        np.arange(max(run, low_end), min(count - parts + run, high_end) + 1)
        for run, (low_end, high_end) in enumerate(zip(first, last, strict=True))
    ]
    # 3
    is_cut = np.array([False, *cuts])
    costs, sources = np.zeros(1), []
    for begins, ends in pairwise(places):
        sums = prefix_sums[ends] - prefix_sums[begins][:, None]  # [begin, end]
        fits = (sums > 0) & (sums <= high * (1 + 1e-12))
        ways = np.where(fits, costs[:, None] + (sums / high) ** 2, np.inf)
        sources.append(ways.argmin(axis=0))
        costs = ways.min(axis=0) + 2 * parts * is_cut[ends]  # a cut costs more than all squares together
    at, ends_of_runs = 0, [count]
    for begins, source in zip(reversed(places[:-1]), reversed(sources), strict=True):
        at = int(source[at])
        ends_of_runs.append(int(begins[at]))
    return tuple((start, end - start) for start, end in pairwise(reversed(ends_of_runs)))


def _longest_runs(prefix_sums: Sequence[float], parts: int, bound: float) -> list[int]:
    """Divide items into runs, each as long as a bound on the sum of a run permits.

    Args:
        prefix_sums: Cumulative weights of the first 0, 1, 2, ... items.
        parts: Number of runs. The last ones may be empty.
        bound: Maximum sum of a run.

    Returns:
        0, followed by the index after the last item of each run.
    """
    ends, limit = [0], bound * (1 + 1e-12)
    for _ in range(parts):
        ends.append(bisect_right(prefix_sums, prefix_sums[ends[-1]] + limit) - 1)
    return ends


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Divide ``total`` into positive integers, approximately in proportion to weights.

    Each weight gets 1. The rest is divided proportionally by the largest-remainder method.

    Raises:
        ValueError: There are more weights than ``total``.

    >>> apportion([2, 1, 1], 10)
    [4, 3, 3]
    """
    count = len(weights)
    if count > total:
        raise ValueError(f"{total} cannot be divided into {count} positive integers; give at least {count}")
    if count == 1:
        return [total]
    weight_array = np.asarray(weights, np.float64) if any(weights) else np.ones(count)
    ideal = weight_array / weight_array.sum() * (total - count)  # in addition to one for each
    parts = np.floor(ideal).astype(int)
    last = np.argsort(parts - ideal, kind="stable")[: total - count - int(parts.sum())]
    parts[last] += 1
    return [1 + int(part) for part in parts]
