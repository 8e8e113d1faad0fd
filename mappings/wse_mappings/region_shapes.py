"""Rows and columns of the regions of a layout, by what their PEs store: whole features, so padding and all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from wse_mappings.cuts.contiguous import apportion
from wse_mappings.cuts.heights import band_heights
from wse_mappings.cuts.widths import ColumnBytes, region_widths
from wse_mappings.strategies.strategy import Demand, Layout, Share

_Bands = tuple[tuple[tuple[ColumnBytes, bool], ...], ...]
"""The regions of each band of a wafer: the bytes of a column, and whether there are layers."""


def region_shapes(demand: Demand, layout: Layout, shares: Sequence[Share]) -> list[tuple[int, int]]:
    """Return the rows and columns of every region in proportion to its bytes.

    1. Regions of a band share its columns, so that the fullest of its PEs is as empty as can be (`region_widths`).
    2. Bands of a wafer share its rows, as many as their fullest regions need (`band_heights`) for what they hold and
       for scores, of which a row has those with the entries of its cache.

    A band alone has all rows, a region alone in its band all columns. ``as_released`` all bands have as many rows,
    and regions columns in proportion to their bytes. Regions that are listed have the shapes that are stated.
    """
    if demand.listed:
        return [(share.rect.rows, share.rect.cols) for share in shares if share.rect is not None]
    rows, cols = layout.mesh or demand.mesh(turned=layout.turned)
    return list(demand.cache.of(_shapes, 256)(demand, layout.bands, rows, cols, tuple(shares)))


def _shapes(demand: Demand, band_count: int, rows: int, cols: int, shares: tuple[Share, ...]) -> list[tuple[int, int]]:
    """Return the rows and columns of regions that share the rows and columns of each wafer."""
    if demand.as_released:
        groups = groupby(shares, key=lambda share: (share.wafer, share.band))
        apportioned = [apportion([share.bytes for share in band], cols) for _, band in groups]
        return [(rows // band_count, width) for of_band in apportioned for width in of_band]
    regions = [
        (share.wafer, share.band, size, share.last_layer > share.first_layer)
        for share, size in zip(shares, _sizes(demand, shares), strict=True)
    ]
    wafers: list[_Bands] = [
        tuple(
            tuple((size, has_layers) for *_, size, has_layers in band) for _, band in groupby(of_wafer, itemgetter(1))
        )
        for _, of_wafer in groupby(regions, itemgetter(0))
    ]
    # 1
    widths, fullest, widths_of = {}, {}, demand.cache.of(region_widths, 4096)
    for bands in dict.fromkeys(wafers):
        widths[bands] = [widths_of(tuple(size for size, _ in band), cols) for band in bands]
        fullest[bands] = tuple(
            max(
                size(width) + demand.score_bytes(width) * has_layers
                for (size, has_layers), width in zip(band, across, strict=True)
            )
            for band, across in zip(bands, widths[bands], strict=True)
        )
    # 2
    heights = [[rows] for _ in wafers]
    if band_count > 1:
        row_shares = demand.cache.of(_row_shares, 64)(demand.row_share, rows)
        heights = band_heights(tuple(fullest[bands] for bands in wafers), row_shares)
    return [
        (height, width)
        for bands, of_wafer in zip(wafers, heights, strict=True)
        for height, across in zip(of_wafer, widths[bands], strict=True)
        for width in across
    ]


def _row_shares(row_share: Callable[[int], float], rows: int) -> tuple[float, ...]:
    """Return the fraction of a column's bytes on the fullest PE, for regions of 1 row, 2 rows, and so on."""
    return tuple(map(row_share, range(1, rows + 1)))


def fullest_bytes(demand: Demand, layout: Layout, shares: tuple[Share, ...]) -> float:
    """Return the bytes of weights, cache and a block on the fullest PE of the regions of `region_shapes`."""
    shapes, has_layers = region_shapes(demand, layout, shares), [one.last_layer > one.first_layer for one in shares]
    return max(
        demand.row_share(rows) * size(cols) + demand.block_bytes(cols) * with_block
        for (rows, cols), size, with_block in {*zip(shapes, _sizes(demand, shares), has_layers, strict=True)}
    )


def _sizes(demand: Demand, shares: Sequence[Share]) -> list[ColumnBytes]:
    """Return the bytes of a column of every region; the first has the embedding, the last an untied head."""
    assert demand.column_bytes is not None
    last = len(shares) - 1
    return [
        demand.column_bytes(
            share.layers,
            (index == 0 and demand.embedding_bytes is not None) + (index == last and demand.head_bytes is not None),
        )
        for index, share in enumerate(shares)
    ]
