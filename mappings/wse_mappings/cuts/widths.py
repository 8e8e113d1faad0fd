"""Widths of regions side by side, whose PEs store whole features of tensors."""

from __future__ import annotations

from collections.abc import Callable

ColumnBytes = Callable[[int], float]
"""Function from the columns of a region to the bytes of weights and cache of one of them."""

PRECISION = 5e-4
"""Relative precision at which the search for the minimum bound on bytes ends."""


def region_widths(column_bytes: tuple[ColumnBytes, ...], cols: int) -> tuple[int, ...]:
    """Return the columns of regions side by side, so that the fullest PE is as empty as possible.

    A region is a rectangle of PEs that stores some layers. A region with more columns has fewer
    bytes in each, in steps, because a PE stores whole features. A single region has all columns.

    1. For a bound on the bytes of a column, find the fewest columns of each region by bisection.
    2. Find the smallest bound with which all regions fit by bisection, from that of equal widths
       downward.

    Args:
        column_bytes: For each region, a function from its number of columns to the bytes of a
            column.
        cols: Number of columns in total, at least one per region.

    >>> region_widths((lambda n: 2 * -(-8 // n), lambda n: -(-8 // n)), 12)
    (8, 4)
    """
    if len(column_bytes) == 1:
        return (cols,)
    max_width, equal_width = cols - len(column_bytes) + 1, cols // len(column_bytes)
    distinct_functions = set(column_bytes)

    # Step 1.
    def min_columns(bytes_of: ColumnBytes, bound: float) -> int:
        """Return the fewest columns with which no column of a region exceeds a bound on its bytes.

        The result is more columns than there are if that is impossible.

        Experts in whole groups may have more bytes on more columns. Therefore no more than an equal
        width is used if that is within the bound.
        """
        low, high = 1, equal_width if bytes_of(equal_width) <= bound else max_width
        if bytes_of(high) > bound:
            return cols + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if bytes_of(middle) <= bound else (middle + 1, high)
        return low

    def widths(bound: float) -> tuple[int, ...]:
        """Return for every region the fewest columns of which none exceeds a bound on its bytes."""
        by_region = {bytes_of: min_columns(bytes_of, bound) for bytes_of in distinct_functions}
        return tuple(by_region[bytes_of] for bytes_of in column_bytes)

    # 2
    low, high = 0.0, max(bytes_of(equal_width) for bytes_of in column_bytes)
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if sum(widths(middle)) <= cols else (middle, high)
    return widths(high)
