"""Interface of a mapping strategy: how layers are distributed over wafers and their regions.

A strategy is an object. Each bundled one is the ``STRATEGY`` of a file in this folder and is found
automatically. Other packages add strategies by entry points of the group ``wse.mappings``. The
compiler asks the strategy and never tests its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wse_mappings.cuts.contiguous import even_runs, runs_with_fewest_cuts
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange, layer_units, unit_bytes
from wse_mappings.cuts.widths import ColumnBytes
from wse_mappings.mesh.placement import Rect
from wse_mappings.result_cache import ResultCache


class ListedRegion(NamedTuple):
    """A region from a mapping file: a rectangle of PEs and the layers that it stores.

    Regions are listed in the order of their layers.

    Attributes:
        wafer: Index of the wafer.
        rect: PEs of the wafer's mesh.
        first_layer, last_layer: First layer, and index after the last layer. Equal if the region
            stores only a table.
        first_part, last_part: First part of the first layer, and index after the last part of the
            last layer.
    """

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Layers of the region, possibly incomplete ones at both ends."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Parts of a model to place (layers, embedding, head), and the wafers and meshes for them.

    Attributes:
        layer_bytes: Bytes of weights and cache of each layer, without experts.
        expert_bytes: Bytes of the expert weights of each layer; 0 for a layer without experts.
        attention_bytes: Bytes of attention and cache of each layer, which are included in
            ``layer_bytes``. Empty if layers are not split.
        embedding_bytes: Bytes of the table before the first layer; None if none is compiled.
        head_bytes: Bytes of the table after the last layer; None if it is the embedding or none is
            compiled.
        experts: Number of experts of a mixture; 0 for a model without experts.
        wafers: Number of wafers.
        mesh_rows, mesh_cols: Size of the mesh of each wafer.
        region: Rows and columns of every region, if the request states them.
        listed: All regions, if the request lists them.
        listed_transposed: Whether the listed regions are on a transposed mesh.
        pe_bytes: SRAM of a PE, which no layout can exceed.
        row_share: Function from the rows of a region to the fraction of a column's bytes on its
            fullest PE.
        column_bytes: Function from layers (as `RegionLayers.layers`) and a number of tables to a
            function for the bytes of a column of their region. None if everything is divided
            evenly, to the byte.
        block_bytes: Function from the columns of a region to the bytes that a PE needs for its
            widest block.
        score_bytes: Function from the columns of a region to the bytes of a token's scores on all
            PEs of a column.
        as_released: Whether wafers are divided as published services are assumed to do: bands with
            the same number of rows, and regions whose columns are proportional to bytes without
            padding.
        cache: Cache of results during the request.
    """

    layer_bytes: tuple[float, ...]
    expert_bytes: tuple[float, ...]
    embedding_bytes: float | None
    head_bytes: float | None
    experts: int
    wafers: int
    mesh_rows: int
    mesh_cols: int
    attention_bytes: tuple[float, ...] = ()
    region: tuple[int, int] | None = None
    listed: tuple[ListedRegion, ...] = ()
    listed_transposed: bool = False
    pe_bytes: float = math.inf
    row_share: Callable[[int], float] = lambda rows: 1 / rows
    column_bytes: Callable[[LayerRange, int], ColumnBytes] | None = None
    block_bytes: ColumnBytes = lambda cols: 0.0
    score_bytes: ColumnBytes = lambda cols: 0.0
    as_released: bool = False
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.layer_bytes)

    @property
    def whole_layer_bytes(self) -> tuple[float, ...]:
        """Bytes of weights and cache of each layer, including experts."""
        return tuple(layer + experts for layer, experts in zip(self.layer_bytes, self.expert_bytes, strict=True))

    def mesh(self, *, is_transposed: bool) -> tuple[int, int]:
        """Return the rows and columns of the mesh, exchanged if the mesh is transposed."""
        return (self.mesh_cols, self.mesh_rows) if is_transposed else (self.mesh_rows, self.mesh_cols)


class Layout(NamedTuple):
    """A division of each wafer's mesh into regions that a search may try.

    A region is a rectangle of PEs that stores some layers. A band is a strip of mesh rows with
    regions side by side.

    Attributes:
        mapping: Name of the strategy.
        bands: Number of bands, one below the other.
        per_band: Maximum number of regions side by side in a band.
        is_transposed: Whether rows and columns of the mesh are exchanged first.
        groups: Number of groups per line in the all-reduces of decode, as ``--groups``; None for
            the requested number.
        mesh: Rows and columns of the part of each wafer's mesh that is divided, from its first PE
            on; None for all.
        experts: Placement of experts, as ``--experts``; None for the requested one.
        block_parts: Number of parts into which feed-forward blocks are divided. Stages may begin
            and end between them, and between attention and a block. 0 if layers are not split.
    """

    mapping: str
    bands: int
    per_band: int
    is_transposed: bool = False
    groups: int | None = None
    mesh: tuple[int, int] | None = None
    experts: str | None = None
    block_parts: int = 0

    @property
    def without_sizes(self) -> Layout:
        """This layout with the default mesh, groups and placement of experts.

        Mapping, bands and block parts are kept. The defaults are the whole mesh, not transposed,
        and the requested groups and placement of experts.
        """
        return Layout(self.mapping, self.bands, self.per_band, block_parts=self.block_parts)

    def region(self, demand: Demand) -> tuple[int, int]:
        """Return the rows and columns of a region if all regions of the layout have equal size.

        For listed regions, these are the minimum rows and the minimum columns of any region.
        """
        if demand.listed:
            return min(listed_region.rect.rows for listed_region in demand.listed), min(
                listed_region.rect.cols for listed_region in demand.listed
            )
        rows, cols = self.mesh or demand.mesh(is_transposed=self.is_transposed)
        return demand.region or (rows // self.bands, cols // self.per_band)

    def has_equal_squares(self, demand: Demand) -> bool:
        """Return whether all regions are squares of one size, as far as the layout says."""
        shapes = [(listed_region.rect.rows, listed_region.rect.cols) for listed_region in demand.listed]
        return all(rows == cols == self.region(demand)[0] for rows, cols in shapes or [self.region(demand)])


class RegionLayers(NamedTuple):
    """The layers that one region (a rectangle of PEs) stores.

    Attributes:
        wafer: Index of the wafer, or of the first wafer if the region spans several.
        band: Index of the band on the wafer. A band is a strip of the mesh with regions side by
            side.
        first_layer, last_layer: First layer, and index after the last layer.
        bytes: Bytes of weights and cache. Bands divide the rows of a wafer in proportion to them,
            and regions the columns of their band.
        wafers: Number of wafers that the region spans.
        experts: Whether the region stores the experts of all layers. It then uses the PEs of the
            first region of each wafer, in addition to what that region stores. Such a region is the
            last and has no layers.
        rect: PEs of the region if the request lists them; None if the region is part of a band.
        first_part, last_part: First part of the first layer, and index after the last part of the
            last layer.
    """

    wafer: int
    band: int
    first_layer: int
    last_layer: int
    bytes: float
    wafers: int = 1
    experts: bool = False
    rect: Rect | None = None
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Layers of the region, possibly incomplete ones at both ends."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


class Strategy(Protocol):
    """A mapping strategy: which layouts are possible, and how each divides the layers.

    Attributes:
        name: Value of ``--mapping`` that selects the strategy.
        summary: One sentence that says what the strategy does.
        source: Origin of the strategy, with a reference.
        regions: One word for the regions that it makes, as ``wse mappings --json`` prints it.
        spans_wafers: Whether every op is distributed over all wafers, so that any number of wafers
            can be used.
        experts_apart: Whether experts are distributed over all wafers, separately from their
            layers. The model must then have experts.
        tries_others: Whether the layouts of other strategies are included.
        group_counts: Numbers of groups in the all-reduces of decode that a search tries on its
            fastest layout.
        expert_placements: Placements of experts that a search tries if the model does not fit with
            each expert distributed over all columns and no placement was requested.
        block_parts: Numbers of parts of feed-forward blocks (`Layout.block_parts`) that a search
            tries, smallest first, if the model does not fit in whole layers.
    """

    name: str
    summary: str
    source: str
    regions: str
    spans_wafers: bool = False
    experts_apart: bool = False
    tries_others: bool = False
    group_counts: tuple[int, ...] = ()
    expert_placements: tuple[str, ...] = ()
    block_parts: tuple[int, ...] = ()

    def differs(self, demand: Demand) -> bool:
        """Return whether the strategy is useful for a request, or only repeats what others do.

        A strategy that places work on several wafers is not useful on one wafer, nor is one that
        places experts for a model without experts. A strategy that tries several others leaves out
        those that are not useful.
        """
        if self.experts_apart and not demand.experts:
            return False
        return demand.wafers > 1 or not (self.spans_wafers or self.experts_apart)

    def layouts(self, demand: Demand, other_strategies: Sequence[Strategy]) -> Iterable[Layout]:
        """Return the possible layouts for a request, those with the fewest regions first.

        By default, there is one layout, with one region per wafer that uses the whole mesh.

        Args:
            demand: What must be placed.
            other_strategies: All other strategies if the strategy ``tries_others``, else none.
        """
        return [Layout(self.name, 1, 1)]

    def smaller(self, demand: Demand, layout: Layout, steps: int) -> Iterable[Layout]:
        """Return variants of a layout with smaller regions for a search to try; none by default.

        Args:
            demand: What must be placed.
            layout: Layout whose regions are made smaller.
            steps: Number of sizes to try each time that a side doubles.
        """
        return ()

    def partition(self, demand: Demand, layout: Layout) -> Sequence[RegionLayers]:
        """Return the layers of every region of a layout, in order.

        The first region has the embedding. The head is in the last region, or in the first one if
        the head is the embedding table. By default, layers are placed together with their experts
        by `consecutive`.
        """
        return consecutive(demand, layout, demand.whole_layer_bytes)


class _Unit(NamedTuple):
    """Smallest content of a region (a layer, part of a layer, or a table), and its bytes.

    `consecutive` divides units over regions, and never splits a unit.

    Attributes:
        bytes: Bytes of weights and cache.
        layers: The layers, possibly incomplete at both ends; none for a table.
    """

    bytes: float
    layers: LayerRange


def consecutive(demand: Demand, layout: Layout, layer_bytes: Sequence[float]) -> list[RegionLayers]:
    """Divide layers in order over wafers, the bands of a wafer, and the regions of a band.

    A band is a strip of the mesh with regions side by side. At each of these levels the bytes are
    divided as evenly as possible without splitting units. A unit is a layer, a part of a layer, or
    a table. Each wafer has at least part of a layer. A region may have only a table.

    Args:
        demand: What must be placed.
        layout: Number of bands, regions per band, and parts of feed-forward blocks.
        layer_bytes: Bytes of each layer that count.

    Returns:
        Layers and bytes of each region, in order.
    """
    units_before = [] if demand.embedding_bytes is None else [_Unit(demand.embedding_bytes, LayerRange(0, 0))]
    end = LayerRange(demand.layers, demand.layers)
    units_after = [] if demand.head_bytes is None else [_Unit(demand.head_bytes, end)]
    units_of_layers = demand.cache.of(_units, 16)(tuple(layer_bytes), demand.attention_bytes, layout.block_parts)
    units = [*units_before, *units_of_layers, *units_after]
    sizes, cuts = tuple(unit.bytes for unit in units), tuple(unit.layers.last_part < LAYER_PARTS for unit in units)
    # A wafer must not have a table alone: tables count with the first and the last unit of layers.
    first, last = len(units_before), len(units_before) + len(units_of_layers) - 1
    with_tables = [*sizes[first : last + 1]]
    with_tables[0] = sum(sizes[: first + 1])
    with_tables[-1] = sum((with_tables[-1], *sizes[last + 1 :]))
    region_layers, runs = [], demand.cache.of(_runs, 1024)
    for wafer, (start, stop) in enumerate(runs(tuple(with_tables), cuts[first : last + 1], demand.wafers)):
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
    """Return the layers as units that are not split further: whole layers, or parts of them.

    Args:
        layer_bytes, attention_bytes: Bytes of each layer; bytes of its attention, which they
            include.
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

    Among equally good divisions, the one that cuts the fewest layers is chosen.

    Args:
        sizes: Bytes of each unit, in order.
        cuts: For each unit, whether a run that ends with it cuts a layer.
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
