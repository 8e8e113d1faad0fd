"""Heights of each wafer's bands (strips of mesh rows), based on the bytes they store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def band_heights(bytes_by_wafer: tuple[tuple[float, ...], ...], shares: tuple[float, ...]) -> list[list[int]]:
    """Return the row count of every band of every wafer that minimises the fullest PE's bytes.

    A band is a strip of mesh rows with regions side by side. More rows do not necessarily mean
    fewer bytes per row: dimensions are divided into whole elements, and the scales of a group of
    elements are stored in every row that has any element of the group.

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
    """Return the minimum number of rows per band such that no row exceeds a bound on bytes.

    A band is a strip of rows. If no number of rows suffices, the result exceeds the number of mesh
    rows.

    Args:
        bands: Number of bytes in each band.
        bound: Maximum number of bytes per row.
        negative_fractions: Negated minimum fraction of a band's bytes on its fullest row, with up
            to 1 row, 2 rows, and so on. Because of the negation, the values are in ascending order.
    """
    limit = bound * (1 + 1e-12)
    return [1 + (bisect_left(negative_fractions, -limit / size) if size else 0) for size in bands]
