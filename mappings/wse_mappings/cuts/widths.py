"""Widths of regions that are placed side by side, and heights of each wafer's bands."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def band_heights(bytes_by_wafer: tuple[tuple[float, ...], ...], shares: tuple[float, ...]) -> list[list[int]]:
    """Divide the rows of every wafer between its bands, minimising the bytes on the fullest PE.

    A band is a strip of mesh rows with regions side by side. More rows do not necessarily mean
    fewer bytes per row: dimensions are divided into whole elements, and the scales of a group of
    elements are stored in every row that stores any element of the group.

    1. For a given bound on the bytes per row, compute the minimum number of rows of each band.
    2. Find, by bisection, the smallest bound for which the bands of every wafer fit.
    3. Return the minimum numbers of rows for this bound.

    Args:
        bytes_by_wafer: For each wafer, the bytes of each of its bands.
        shares: Fraction of a band's bytes that its fullest row stores, for 1 row, 2 rows, and so on
            up to the rows of a wafer. A wafer has at least one row per band.

    >>> band_heights(((2.0, 1.0), (1.0,)), tuple(-(-12 // rows) / 12 for rows in range(1, 10)))
    [[6, 3], [3]]
    """
    fractions = np.array(shares)
    sizes = np.unique(np.concatenate(bytes_by_wafer))
    bounds = np.unique(np.outer(sizes, np.unique(fractions)))
    distinct, negative_fractions = set(bytes_by_wafer), (-np.minimum.accumulate(fractions)).tolist()
    # 2
    low, high = 0, len(bounds) - 1  # with the largest bound all bands fit
    while low < high:
        middle = (low + high) // 2
        if all(sum(_min_rows(bands, bounds[middle], negative_fractions)) <= len(shares) for bands in distinct):
            high = middle
        else:
            low = middle + 1
    # 3
    rows = {bands: _min_rows(bands, bounds[low], negative_fractions) for bands in distinct}
    return [rows[bands] for bands in bytes_by_wafer]


# Step 1 of `band_heights`.
def _min_rows(bands: Sequence[float], bound: float, negative_fractions: Sequence[float]) -> list[int]:
    """Return the minimum number of mesh rows for each band such that no row exceeds a byte limit.

    A band is a strip of mesh rows. The rows of a band divide its bytes, but not exactly evenly. If
    no number of rows suffices for a band, its result exceeds the number of mesh rows.

    Args:
        bands: Number of bytes in each band.
        bound: Maximum number of bytes per row.
        negative_fractions: For 1 row, 2 rows, and so on: -f, where f is the fraction of a band's
            bytes on its fullest row. If fewer rows have a smaller f, this f is used instead. The
            sign makes the list ascending, as bisection requires.
    """
    limit = bound * (1 + 1e-12)
    return [1 + (bisect_left(negative_fractions, -limit / size) if size else 0) for size in bands]


ColumnBytes = Callable[[int], float]
"""Function that maps a region's column count to the bytes of weights and cache per column."""

PRECISION = 5e-4
"""Relative precision of the search for the minimum bound on bytes."""


# Step 1 of `region_widths`, for one region.
def _min_columns(bytes_of: ColumnBytes, bound: float, equal_width: int, max_width: int) -> int | None:
    """Return how many columns a region needs if the bytes on each column are limited.

    The result is None if the region does not fit on any possible number of columns.

    Bisection finds the minimum. It assumes that more columns mean fewer bytes per column, which is
    not always true if experts are placed in whole groups. Therefore, the function first checks
    ``equal_width``. Wider regions are tried only if this width is too small.

    Args:
        bytes_of: Function that maps a number of columns to the bytes on the fullest column.
        bound: Maximum number of bytes per column.
        equal_width: Width if all regions are equally wide.
        max_width: Width if all other regions have a single column.
    """
    low, high = 1, equal_width
    if bytes_of(equal_width) > bound:
        high = max_width
        if bytes_of(max_width) > bound:
            return None
    while low < high:
        middle = (low + high) // 2
        if bytes_of(middle) <= bound:
            high = middle
        else:
            low = middle + 1
    return low


# Step 1 of `region_widths`.
def _min_widths(column_bytes: tuple[ColumnBytes, ...], cols: int, bound: float) -> tuple[int, ...] | None:
    """Return the fewest columns for each region if the bytes on each column are limited.

    The result is None if the regions do not fit side by side.

    Args:
        column_bytes: As in `region_widths`.
        cols: Total number of columns.
        bound: Maximum number of bytes per column.
    """
    equal_width, max_width = cols // len(column_bytes), cols - len(column_bytes) + 1
    widths: dict[ColumnBytes, int] = {}
    free_cols = cols
    for bytes_of, regions in Counter(column_bytes).items():
        width = _min_columns(bytes_of, bound, equal_width, max_width)
        if width is None or regions * width > free_cols:
            return None
        widths[bytes_of] = width
        free_cols -= regions * width
    return tuple(widths[bytes_of] for bytes_of in column_bytes)


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
    equal_width = cols // len(column_bytes)
    low, high = 0.0, max(bytes_of(equal_width) for bytes_of in column_bytes)
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _min_widths(column_bytes, cols, middle) is None else (low, middle)
    widths = _min_widths(column_bytes, cols, high)
    assert widths is not None  # regions of equal width do not exceed the largest bound
    return widths
