"""Integer division with rounding up. The module imports no library, so it adds no start-up time."""

from __future__ import annotations


def ceil_div(a: int, b: int) -> int:
    """Return a / b, rounded up to an integer.

    >>> ceil_div(7, 3)
    3
    """
    return -(-a // b)


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``value``.

    >>> round_up(7, 3)
    9
    """
    return ceil_div(value, multiple) * multiple
