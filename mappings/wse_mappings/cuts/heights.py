"""Heights of bands one below the other, of whose bytes each row stores a part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def band_heights(bytes_by_wafer: tuple[tuple[float, ...], ...], shares: tuple[float, ...]) -> list[list[int]]:
    """Return the rows of every band of every wafer, so that the fullest PE is as empty as possible.

    A row may hold no less in a higher band, or even more: what is cut over rows is cut into whole elements, and scales
    of groups of them are there on each row that has any of the group.

    1. A bound on the bytes of a row leaves each band so many rows at least.
    2. The least bound with which the bands of every wafer have room is found by halving.
    3. Bands have the fewest rows that keep it.

    Args:
        bytes_by_wafer: Bytes of each band of each wafer.
        shares: The part of a band's bytes that its fullest row stores, for 1 row and so on up to the rows of a wafer,
            which are at least as many as it has bands.

    >>> band_heights(((2.0, 1.0), (1.0,)), tuple(-(-12 // rows) / 12 for rows in range(1, 10)))
    [[6, 3], [3]]
    """
    parts = np.array(shares)
    sizes = np.unique(np.concatenate(bytes_by_wafer))
    bounds = np.unique(np.outer(sizes, np.unique(parts)))
    distinct, least = set(bytes_by_wafer), (-np.minimum.accumulate(parts)).tolist()
    # 2
    low, high = 0, len(bounds) - 1  # with the last all have room
    while low < high:
        middle = (low + high) // 2
        if all(sum(_fewest(bands, bounds[middle], least)) <= len(shares) for bands in distinct):
            high = middle
        else:
            low = middle + 1
    # 3
    rows = {bands: _fewest(bands, bounds[low], least) for bands in distinct}
    return [rows[bands] for bands in bytes_by_wafer]


def _fewest(bands: Sequence[float], bound: float, least: Sequence[float]) -> list[int]:
    """1. Return the fewest rows per band within a bound on the bytes of a row; too many where that is impossible.

    ``least[n - 1]`` is minus the minimum fraction of a band's bytes that its fullest row stores with up to n rows. The
    sign makes the values ascend.
    """
    most = bound * (1 + 1e-12)
    return [1 + (bisect_left(least, -most / size) if size else 0) for size in bands]
