"""Rows and columns of the regions of a layout, by what their PEs hold: whole features, so padding and all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby

from wse_mappings.cuts.contiguous import apportion
from wse_mappings.cuts.heights import band_heights
from wse_mappings.cuts.widths import ColumnBytes, region_widths
from wse_mappings.strategies.strategy import Demand, Layout, Share


def region_shapes(demand: Demand, layout: Layout, shares: Sequence[Share]) -> list[tuple[int, int]]:
    """Rows and columns of every region, as large as its bytes; ``shares`` are all that share a mesh in bands.

    1. Regions of a band share its columns, so that the fullest of its PEs is as empty as can be (`region_widths`).
    2. Bands of a wafer share its rows, as many as their fullest regions need (`band_heights`) for what they hold and
       for scores, of which a row has those with the entries of its cache.

    A band alone has all rows, a region alone in its band all columns. ``as_released`` all bands have as many rows,
    and regions columns in proportion to their bytes. Regions that are listed have the shapes that are stated.
    """
    if demand.listed:
        return [(share.rect.rows, share.rect.cols) for share in shares if share.rect is not None]
    rows, cols = layout.mesh or demand.mesh(turned=layout.turned)
    return list(_shapes(demand, layout.bands, rows, cols, tuple(shares)))


@lru_cache(maxsize=256)  # what is tried has its bytes counted before
def _shapes(
    demand: Demand, band_count: int, rows: int, cols: int, shares: tuple[Share, ...]
) -> tuple[tuple[int, int], ...]:
    """Rows and columns of regions that share so many rows and columns of each wafer."""
    if demand.as_released:
        bands = groupby(shares, key=lambda share: (share.wafer, share.band))
        across = [apportion([share.bytes for share in band], cols) for _, band in bands]
        return tuple((rows // band_count, width) for widths in across for width in widths)
    sizes = _sizes(demand, shares)
    wafers = [
        [list(band) for _, band in groupby(of_wafer, key=lambda one: one[0].band)]
        for _, of_wafer in groupby(zip(shares, sizes, strict=True), key=lambda one: one[0].wafer)
    ]
    # 1
    widths = [[region_widths(tuple(size for _, size in band), cols) for band in bands] for bands in wafers]
    fullest = tuple(
        tuple(
            max(
                size(width) + demand.score_bytes(width) * (share.last_layer > share.first_layer)
                for (share, size), width in zip(*band, strict=True)
            )
            for band in zip(*bands, strict=True)
        )
        for bands in zip(wafers, widths, strict=True)
    )
    # 2
    bands_have_all = band_count == 1
    heights = [[rows] for _ in wafers] if bands_have_all else band_heights(fullest, _row_shares(demand.row_share, rows))
    return tuple(
        (height, width)
        for of_wafer in zip(heights, widths, strict=True)
        for height, across in zip(*of_wafer, strict=True)
        for width in across
    )


@lru_cache(maxsize=64)
def _row_shares(row_share: Callable[[int], float], rows: int) -> tuple[float, ...]:
    """The part of a column's bytes on the fullest PE of regions of 1 row, of 2, and so on."""
    return tuple(map(row_share, range(1, rows + 1)))


@lru_cache(maxsize=4096)
def fullest_bytes(demand: Demand, layout: Layout, shares: tuple[Share, ...]) -> float:
    """Bytes of weights, cache and a block on the fullest PE of the regions that `region_shapes` makes."""
    shapes = region_shapes(demand, layout, shares)
    return max(
        demand.row_share(rows) * size(cols) + demand.block_bytes(cols) * (share.last_layer > share.first_layer)
        for (rows, cols), size, share in zip(shapes, _sizes(demand, shares), shares, strict=True)
    )


def _sizes(demand: Demand, shares: Sequence[Share]) -> list[ColumnBytes]:
    """The bytes of a column of every region: the first has the embedding, the last a head of its own."""
    assert demand.column_bytes is not None
    last = len(shares) - 1
    return [
        demand.column_bytes(
            share.layers,
            (index == 0 and demand.embedding_bytes is not None) + (index == last and demand.head_bytes is not None),
        )
        for index, share in enumerate(shares)
    ]
