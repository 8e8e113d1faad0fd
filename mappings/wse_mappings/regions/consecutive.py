"""Division of layers, in order, among wafers, bands and regions, balancing their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wse_mappings.cuts.contiguous import even_runs, runs_with_fewest_cuts
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange, layer_units, unit_bytes
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers


class _Unit(NamedTuple):
    """Part of a model that is not split between regions: a layer, part of a layer, or a table.

    `consecutive` distributes units across regions, which are rectangles of PEs. A table is the
    embedding or the output head.

    Attributes:
        bytes: Bytes of weights and cache.
        layers: The layer or the part of a layer; an empty range for a table.
    """

    bytes: float
    layers: LayerRange


def consecutive(demand: Demand, layout: Layout, layer_bytes: Sequence[float]) -> list[RegionLayers]:
    """Distribute layers, in order, over wafers, the bands of a wafer, and the regions of a band.

    A region is a rectangle of PEs, and a band is a strip of the mesh with regions side by side. At
    each of the three levels, the bytes are divided as evenly as possible without splitting units. A
    unit is a layer, a part of a layer, or a table (the embedding or the output head). Each wafer
    stores at least part of a layer. A region may store only a table.

    Args:
        demand: Parts of the model to place, and the wafers.
        layout: Number of bands, regions per band, and parts of feed-forward blocks.
        layer_bytes: Bytes of each layer, without experts if they are placed separately.

    Returns:
        Layers and bytes of each region, in order.
    """
    units_before = [] if demand.embedding_bytes is None else [_Unit(demand.embedding_bytes, LayerRange(0, 0))]
    end = LayerRange(demand.layers, demand.layers)
    units_after = [] if demand.head_bytes is None else [_Unit(demand.head_bytes, end)]
    units_of_layers = demand.cache.of(_units, 16)(tuple(layer_bytes), demand.attention_bytes, layout.block_parts)
    units = [*units_before, *units_of_layers, *units_after]
    sizes, cuts = tuple(unit.bytes for unit in units), tuple(unit.layers.last_part < LAYER_PARTS for unit in units)
    # No wafer may store only a table, so tables count as part of the first and the last unit of layers.
    first, last = len(units_before), len(units_before) + len(units_of_layers) - 1
    sizes_with_tables = [*sizes[first : last + 1]]
    sizes_with_tables[0] = sum(sizes[: first + 1])
    sizes_with_tables[-1] = sum((sizes_with_tables[-1], *sizes[last + 1 :]))
    region_layers, runs = [], demand.cache.of(_runs, 1024)
    for wafer, (start, stop) in enumerate(runs(tuple(sizes_with_tables), cuts[first : last + 1], demand.wafers)):
        begin = first + start if wafer else 0
        wafer_slice = slice(begin, len(units) if wafer == demand.wafers - 1 else first + stop)
        for band, (top, bottom) in enumerate(runs(sizes[wafer_slice], cuts[wafer_slice], layout.bands)):
            band_slice = slice(begin + top, begin + bottom)
            for left, right in runs(sizes[band_slice], cuts[band_slice], layout.per_band):
                at = band_slice.start + left, band_slice.start + right
                region_layers.append(
                    _region_of_units(wafer, band, units[at[0]], units[at[1] - 1], sum(sizes[slice(*at)]))
                )
    return region_layers


def _units(layer_bytes: tuple[float, ...], attention_bytes: tuple[float, ...], block_parts: int) -> list[_Unit]:
    """Divide layers into units that are not split between regions: whole layers or parts of them.

    Args:
        layer_bytes: Bytes of each layer.
        attention_bytes: Bytes of the attention of each layer, which are part of ``layer_bytes``.
        block_parts: Number of parts of each feed-forward block; 0 for whole layers.
    """
    if not block_parts:
        return [_Unit(size, LayerRange(layer, layer + 1)) for layer, size in enumerate(layer_bytes)]
    parts = layer_units(block_parts)
    return [
        _Unit(size, LayerRange(layer, layer + 1, *layer_parts))
        for layer, (layer_size, attention) in enumerate(zip(layer_bytes, attention_bytes, strict=True))
        for layer_parts, size in zip(parts, unit_bytes(parts, attention, layer_size - attention), strict=True)
    ]


def _runs(sizes: tuple[float, ...], cuts: tuple[bool, ...], max_runs: int) -> list[tuple[int, int]]:
    """Divide the units into at most ``max_runs`` contiguous runs of nearly equal size.

    A unit is a layer, a part of a layer, or a table. Among equally good divisions, a division that
    splits the fewest layers is chosen.

    Args:
        sizes: Bytes of each unit, in order.
        cuts: For each unit, whether a run that ends with it splits a layer.
        max_runs: Maximum number of runs. There are fewer if there are fewer units.

    Returns:
        (start, end) indices of each run.
    """
    runs = min(max_runs, len(sizes))
    if runs == 1:
        return [(0, len(sizes))]
    balanced_runs = runs_with_fewest_cuts(sizes, runs, cuts) if any(cuts) else even_runs(sizes, runs)
    return [(start, start + count) for start, count in balanced_runs]


def _region_of_units(wafer: int, band: int, first: _Unit, last: _Unit, size: float) -> RegionLayers:
    """Return the layers and bytes of a region that stores several consecutive units.

    A unit is a layer, a part of a layer, or a table.

    Args:
        wafer, band: Indices of the wafer and of the band.
        first, last: First and last unit.
        size: Bytes of all units.
    """
    (first_layer, _, first_part, _), (_, last_layer, _, last_part) = first.layers, last.layers
    return RegionLayers(wafer, band, first_layer, last_layer, size, first_part=first_part, last_part=last_part)
