"""Widths of regions side by side whose PEs store what is cut over their columns in whole features."""

from __future__ import annotations

from collections.abc import Callable

ColumnBytes = Callable[[int], float]
"""Bytes of weights and cache on all PEs of a column of a region, by the columns that the region has."""

PRECISION = 5e-4
"""The relative distance from the least bound on bytes at which the search for it ends."""


def region_widths(column_bytes: tuple[ColumnBytes, ...], cols: int) -> tuple[int, ...]:
    """Return the columns of every region, so that the fullest PE is as empty as possible.

    A region of more columns holds fewer bytes on each, by steps: a PE stores whole features. One alone has all columns.

    1. A bound on the bytes of a column gives each region the fewest columns that keep it, found by halving.
    2. The least bound with which all have room is found by halving, from that of equal widths down.

    Args:
        column_bytes: For each region, the bytes of one of its columns by their number.
        cols: Columns that there are; at least as many as regions.

    >>> region_widths((lambda n: 2 * -(-8 // n), lambda n: -(-8 // n)), 12)
    (8, 4)
    """
    if len(column_bytes) == 1:
        return (cols,)
    widest, equal, distinct = cols - len(column_bytes) + 1, cols // len(column_bytes), set(column_bytes)

    def fewest(bytes_of: ColumnBytes, bound: float) -> int:
        """1. Return the fewest columns of a region within a bound; too many where that is impossible.

        Experts in whole groups may hold more on more columns: so no more than an equal share is taken where it will do.
        """
        low, high = 1, equal if bytes_of(equal) <= bound else widest
        if bytes_of(high) > bound:
            return cols + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if bytes_of(middle) <= bound else (middle + 1, high)
        return low

    def widths(bound: float) -> tuple[int, ...]:
        by_region = {bytes_of: fewest(bytes_of, bound) for bytes_of in distinct}
        return tuple(by_region[bytes_of] for bytes_of in column_bytes)

    # 2
    low, high = 0.0, max(bytes_of(equal) for bytes_of in column_bytes)
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if sum(widths(middle)) <= cols else (middle, high)
    return widths(high)
