"""Heights of bands one below the other whose PEs hold blocks of one extent, cut over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wse_mappings.cuts.split import ceil_div


@lru_cache(maxsize=64)
def band_heights(bytes_by_wafer: tuple[tuple[float, ...], ...], rows: int, extent: int) -> list[list[int]]:
    """Rows of every band of every wafer: the fullest PE of all is as empty as can be, and no row is there for nothing.

    A PE holds ``ceil(extent / height)`` of the extent's elements, each with an equal share of its band's bytes, so that
    heights between two such numbers hold no less than the smaller of them.

    1. A bound on the bytes of a row leaves each band so many elements a PE at most, and so many rows at least.
    2. The least bound with which the bands of every wafer have room is found by halving.
    3. Bands have the fewest rows that keep it.

    Args:
        bytes_by_wafer: Bytes of each band of each wafer.
        rows: Rows of a wafer; at least as many as it has bands.
        extent: Elements that are cut over the rows of every band.

    >>> band_heights(((2.0, 1.0), (1.0,)), 9, 12)
    [[6, 3], [3]]
    """
    largest = max(max(bands) for bands in bytes_by_wafer)
    sizes = np.unique(np.concatenate(bytes_by_wafer))
    bounds = np.unique(np.outer(sizes, np.arange(1, extent + 1)))
    bounds = bounds[bounds >= largest]  # of a row that holds an element at least
    # 2
    low, high = 0, len(bounds) - 1  # with the last all have room
    while low < high:
        middle = (low + high) // 2
        if all(sum(_fewest(bands, bounds[middle], extent)) <= rows for bands in bytes_by_wafer):
            high = middle
        else:
            low = middle + 1
    # 3
    return [_fewest(bands, bounds[low], extent) for bands in bytes_by_wafer]


def _fewest(bands: Sequence[float], bound: float, extent: int) -> list[int]:
    """The fewest rows of each band with which a row of it keeps a bound, in elements times bytes."""
    most = [min(extent, int(bound * (1 + 1e-12) / size)) if size else extent for size in bands]  # 1
    return [ceil_div(extent, elements) for elements in most]
