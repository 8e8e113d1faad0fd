"""Rows and columns of the regions of a layout, chosen according to the bytes that PEs store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from wse_mappings.cuts.contiguous import apportion
from wse_mappings.cuts.widths import ColumnBytes, band_heights, region_widths
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers

_Bands = tuple[tuple[tuple[ColumnBytes, bool], ...], ...]
"""Regions of each band of a wafer: the bytes per column, and whether the region has layers."""


def region_shapes(demand: Demand, layout: Layout, region_layers: Sequence[RegionLayers]) -> list[tuple[int, int]]:
    """Return the rows and columns of every region so that all PEs store about the same bytes.

    A region is a rectangle of PEs that stores some layers. A band is a strip of mesh rows with
    regions side by side.

    1. The regions of a band divide its columns so that the fullest PE stores the fewest bytes
       (`region_widths`).
    2. The bands of a wafer divide its rows in proportion to the needs of their fullest regions
       (`band_heights`). Attention scores are counted in addition to stored bytes, because a row
       stores the scores for its own cache entries.

    A single band gets all rows, and a single region of a band gets all columns. If
    ``demand.as_released`` is True, all bands have the same number of rows, and widths are
    proportional to bytes. Regions that the request lists have the shapes that it specifies.

    Args:
        demand: Parts of the model to place, and the mesh.
        layout: Bands and regions per band.
        region_layers: Layers and bytes of each region, in order.
    """
    if demand.listed:
        return [(region.rect.rows, region.rect.cols) for region in region_layers if region.rect is not None]
    rows, cols = layout.mesh or demand.mesh(is_transposed=layout.is_transposed)
    return list(demand.cache.of(_shapes, 256)(demand, layout.bands, rows, cols, tuple(region_layers)))


def _shapes(
    demand: Demand, band_count: int, rows: int, cols: int, region_layers: tuple[RegionLayers, ...]
) -> list[tuple[int, int]]:
    """Return the rows and columns of the regions that together cover the mesh of each wafer.

    A region is a rectangle of PEs, and a band is a strip of rows with regions side by side. First
    the widths of the regions are chosen, then the heights of the bands; see `region_shapes`.

    Args:
        demand: Parts of the model to place.
        band_count: Number of bands per wafer.
        rows, cols: Size of the mesh of each wafer.
        region_layers: Layers and bytes of each region, in order.
    """
    if demand.as_released:
        groups = groupby(region_layers, key=lambda region: (region.wafer, region.band))
        apportioned = [apportion([region.bytes for region in band], cols) for _, band in groups]
        return [(rows // band_count, width) for band_widths in apportioned for width in band_widths]
    regions = [
        (region.wafer, region.band, size, region.last_layer > region.first_layer)
        for region, size in zip(region_layers, _sizes(demand, region_layers), strict=True)
    ]
    wafers: list[_Bands] = [
        tuple(
            tuple((size, has_layers) for *_, size, has_layers in band)
            for _, band in groupby(wafer_regions, itemgetter(1))
        )
        for _, wafer_regions in groupby(regions, itemgetter(0))
    ]
    # 1. Widths of the regions of each band.
    widths, fullest_by_band, widths_of = {}, {}, demand.cache.of(region_widths, 4096)
    for bands in dict.fromkeys(wafers):
        widths[bands] = [widths_of(tuple(size for size, _ in band), cols) for band in bands]
        fullest_by_band[bands] = tuple(
            max(
                size(width) + demand.score_bytes(width) * has_layers
                for (size, has_layers), width in zip(band, column_counts, strict=True)
            )
            for band, column_counts in zip(bands, widths[bands], strict=True)
        )
    # 2. Heights of the bands.
    heights = [[rows] for _ in wafers]
    if band_count > 1:
        row_shares = demand.cache.of(_row_shares, 64)(demand.row_share, rows)
        heights = band_heights(tuple(fullest_by_band[bands] for bands in wafers), row_shares)
    return [
        (height, width)
        for bands, band_heights_of_wafer in zip(wafers, heights, strict=True)
        for height, column_counts in zip(band_heights_of_wafer, widths[bands], strict=True)
        for width in column_counts
    ]


def _row_shares(row_share: Callable[[int], float], rows: int) -> tuple[float, ...]:
    """Return the fraction of a column's bytes on its fullest PE, for 1 row up to ``rows`` rows.

    Rows store whole elements, so the fullest of n rows may store more than 1 / n of the bytes.

    Args:
        row_share: Function that maps a number of rows to the fraction on the fullest row.
        rows: Maximum number of rows.
    """
    return tuple(map(row_share, range(1, rows + 1)))


def fullest_bytes(demand: Demand, layout: Layout, region_layers: tuple[RegionLayers, ...]) -> float:
    """Return the number of bytes on the fullest PE of a layout.

    The bytes include weights, KV cache and the feed-forward activations of one token. The rows and
    columns of the regions are computed by `region_shapes`.

    Args:
        demand: Layers to place, and the mesh.
        layout: Bands and regions per band.
        region_layers: Layers and bytes of each region, in order.
    """
    shapes = region_shapes(demand, layout, region_layers)
    contents = zip(shapes, _sizes(demand, region_layers), region_layers, strict=True)
    distinct = {(shape, size, region.last_layer > region.first_layer): region for shape, size, region in contents}
    bytes_of_regions = []
    for ((rows, cols), size, has_layers), region in distinct.items():
        kv_bytes, block_bytes = demand.kv_bytes(region.layers)(cols), demand.block_bytes(cols) * has_layers
        bytes_of_regions.append(demand.row_share(rows) * (size(cols) - kv_bytes) + kv_bytes / rows + block_bytes)
    return max(bytes_of_regions)


def _sizes(demand: Demand, region_layers: Sequence[RegionLayers]) -> list[ColumnBytes]:
    """Return, for every region, a function that computes the bytes on its fullest column.

    The argument of each function is the number of columns of the region. The bytes include the
    embedding table in the first region and, if the output head has a table of its own, this table
    in the last region.
    """
    assert demand.column_bytes is not None
    last = len(region_layers) - 1
    return [
        demand.column_bytes(
            region.layers,
            (index == 0 and demand.embedding_bytes is not None) + (index == last and demand.head_bytes is not None),
        )
        for index, region in enumerate(region_layers)
    ]
