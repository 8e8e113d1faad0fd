"""Widths of regions that are placed side by side and whose PEs store whole tensor features."""

from __future__ import annotations

from collections.abc import Callable

ColumnBytes = Callable[[int], float]
"""Function that maps a region's column count to the bytes of weights and cache per column."""

PRECISION = 5e-4
"""Relative precision of the search for the minimum bound on bytes."""


def region_widths(column_bytes: tuple[ColumnBytes, ...], cols: int) -> tuple[int, ...]:
    """Divide columns between regions placed side by side, minimising the bytes on the fullest PE.

    A region is a rectangle of PEs that stores some layers. With more columns, each column stores
    fewer bytes. The bytes decrease in steps because a PE stores whole features. A single region
    gets all columns.

    1. For a given bound on the bytes per column, find the fewest columns for each region by
       bisection.
    2. Find, by bisection, the smallest bound for which all regions fit, searching downward from the
       bound for equal widths.

    Args:
        column_bytes: For each region, a function that maps its column count to the bytes per
            column.
        cols: Total number of columns, at least one per region.

    >>> region_widths((lambda n: 2 * -(-8 // n), lambda n: -(-8 // n)), 12)
    (8, 4)
    """
    if len(column_bytes) == 1:
        return (cols,)
    max_width, equal_width = cols - len(column_bytes) + 1, cols // len(column_bytes)
    distinct_functions = set(column_bytes)

    # Step 1.
    def min_columns(bytes_of: ColumnBytes, bound: float) -> int:
        """Return the minimum number of columns such that no column exceeds a bound on bytes.

        If this is impossible, the result exceeds the number of available columns.

        When experts are placed in whole groups, a larger number of columns may store more bytes per
        column. Therefore, if an equal division of the columns meets the bound, no larger number is
        considered.
        """
        low, high = 1, equal_width if bytes_of(equal_width) <= bound else max_width
        if bytes_of(high) > bound:
            return cols + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if bytes_of(middle) <= bound else (middle + 1, high)
        return low

    def widths(bound: float) -> tuple[int, ...]:
        """Return the fewest columns per region such that no column exceeds a bound on bytes."""
        by_region = {bytes_of: min_columns(bytes_of, bound) for bytes_of in distinct_functions}
        return tuple(by_region[bytes_of] for bytes_of in column_bytes)

    # 2
    low, high = 0.0, max(bytes_of(equal_width) for bytes_of in column_bytes)
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if sum(widths(middle)) <= cols else (middle, high)
    return widths(high)
