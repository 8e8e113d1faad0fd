"""Largest number for which a condition holds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def largest_passing(low: int, high: int, condition: Callable[[int], bool]) -> int | None:
    """Return the largest whole number in a range for which a condition is true.

    The condition is assumed to be true for all smaller numbers of the range as well, so that a
    range of n numbers takes about log2(n) checks.

    Args:
        low: Smallest number.
        high: One past the largest number.
        condition: Function that returns whether a number passes.

    Returns:
        The number; None if the range is empty or the condition is false for ``low``.

    >>> largest_passing(1, 100, lambda n: n * n < 200)
    14
    """
    passing_count = bisect_left(range(low, high), x=True, key=lambda n: not condition(n))
    return low + passing_count - 1 if passing_count else None
