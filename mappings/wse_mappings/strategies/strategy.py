"""The contract of a mapping strategy: how a stack of layers is spread over wafers and over regions of their meshes.

A strategy is an object; each bundled one is ``STRATEGY`` of a file of this folder, found by being there, and a package
of a user's own brings more by entry points of the group ``wse.mappings``. The compiler asks a strategy and never goes
by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wse_mappings.cuts.contiguous import even_runs, evenest_runs
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange, layer_units, unit_bytes
from wse_mappings.cuts.widths import ColumnBytes
from wse_mappings.mesh.placement import Rect
from wse_mappings.result_cache import ResultCache


class ListedRegion(NamedTuple):
    """A region from a mapping file, in the order of layers.

    Attributes:
        wafer: The wafer.
        rect: The PEs of its mesh.
        first_layer, last_layer: The first layer, and one past the last; the same where it holds a table alone.
        first_part, last_part: The first part of the first layer, and one past the last of the last.
    """

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Its layers, and parts of them."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The layers to be placed on some wafers of one mesh, with the embedding and the head.

    Attributes:
        layer_bytes: By layer, bytes of weights and cache, those of experts left out.
        expert_bytes: By layer, bytes of the weights of its experts; 0 where it has none.
        attention_bytes: By layer, bytes of its attention and cache, which ``layer_bytes`` count too; none where layers
            stay whole.
        embedding_bytes: Bytes of the table before the first layer; None where none is compiled.
        head_bytes: Bytes of the table after the last layer; None where it is the embedding's, or none is compiled.
        experts: Experts of a mixture; 0 for a model without.
        wafers: Number of wafers.
        mesh_rows, mesh_cols: PEs of each wafer.
        region: Rows and columns of every region where the request states them.
        listed: All regions where the request lists them.
        listed_turned: Whether these are on the mesh with rows and columns in each other's place.
        pe_bytes: SRAM of a PE, which no layout can use more of.
        row_share: Gives, for the rows of a region, the part of a column's bytes that its fullest PE stores.
        column_bytes: Gives, for layers and parts of them as `Share.layers` has them, and so many of the tables, the
            bytes of a column of a region that holds them; None where all are cut evenly, to the byte.
        block_bytes: Gives, for the columns of a region, the bytes that a PE works on in its widest block.
        score_bytes: Gives, for the columns of a region, the bytes of a token's scores on all PEs of a column.
        as_released: Whether whole wafers are cut, into bands of as many rows each and regions of columns by their bytes
            without padding, as published services are taken to be.
        cache: The cache of the request.
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
    listed_turned: bool = False
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
        """Bytes of weights and cache by layer, including experts."""
        return tuple(layer + experts for layer, experts in zip(self.layer_bytes, self.expert_bytes, strict=True))

    def mesh(self, *, turned: bool) -> tuple[int, int]:
        """Return rows and columns of PEs, exchanged if the mesh is transposed."""
        return (self.mesh_cols, self.mesh_rows) if turned else (self.mesh_rows, self.mesh_cols)


class Layout(NamedTuple):
    """A division of each wafer's mesh into regions that a search may try.

    Attributes:
        mapping: Name of the strategy.
        bands: Bands one below the other.
        per_band: The most regions side by side in a band.
        turned: Whether rows and columns of the mesh change places first.
        groups: Groups of a line in the all-reduces of decode, as ``--groups``; None for those requested.
        mesh: Rows and columns of the rectangle of each wafer that is cut, from its first PE on; None for all.
        experts: The placement of experts, as ``--experts``; None for the one requested.
        block_parts: Parts into which feed-forward blocks are cut where stages may begin and end between them, and
            between attention and a block; 0 where layers stay whole.
    """

    mapping: str
    bands: int
    per_band: int
    turned: bool = False
    groups: int | None = None
    mesh: tuple[int, int] | None = None
    experts: str | None = None
    block_parts: int = 0

    @property
    def of_bands(self) -> Layout:
        """The layout without the sizes of its regions."""
        return Layout(self.mapping, self.bands, self.per_band, block_parts=self.block_parts)

    def region(self, demand: Demand) -> tuple[int, int]:
        """Return rows and columns of the regions; for listed regions the smallest of each."""
        if demand.listed:
            return min(one.rect.rows for one in demand.listed), min(one.rect.cols for one in demand.listed)
        rows, cols = self.mesh or demand.mesh(turned=self.turned)
        return demand.region or (rows // self.bands, cols // self.per_band)

    def has_equal_squares(self, demand: Demand) -> bool:
        """Return whether all regions are squares of one size, as far as the layout determines their shape."""
        listed = [(one.rect.rows, one.rect.cols) for one in demand.listed]
        return all(rows == cols == self.region(demand)[0] for rows, cols in listed or [self.region(demand)])


class Share(NamedTuple):
    """The layers that one region stores.

    Attributes:
        wafer: The wafer, the first one of a region that spans several.
        band: The band of the wafer's mesh.
        first_layer, last_layer: The first layer, and one past the last.
        bytes: Bytes of weights and cache, by which bands share rows and regions of a band its columns.
        wafers: Wafers that the region spans.
        experts: Whether it holds the experts of all layers, on the PEs of the first region of each wafer, beside
            what those hold; it comes last, and its layers are none.
        rect: Its PEs where the request lists them; None where it stands in a band.
        first_part, last_part: The first part of the first layer, and one past the last of the last.
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
        """Its layers, and parts of them."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


class Strategy(Protocol):
    """A mapping strategy: which layouts there are, and how each divides the layers.

    Attributes:
        name: The value of ``--mapping`` that asks for it.
        summary: One sentence: what it does.
        source: Where it comes from, with a reference.
        regions: One word for the regions that it makes, as ``wse mappings --json`` prints it.
        spans_wafers: Whether every op is spread over all wafers, so that any number of them can be used.
        experts_apart: Whether experts are on all wafers, apart from their layers, so that there must be some.
        tries_others: Whether its layouts are also those of other strategies.
        group_counts: Groups of the all-reduces of decode that a search tries on its fastest layout.
        expert_placements: Placements of experts that a search tries where a model has no room with each spread over all
            columns, and no other placement was requested.
        block_parts: Parts of feed-forward blocks, as `Layout.block_parts`, that a search tries where a model has no
            room in whole layers, the fewest first.
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
        """Return whether the strategy differs from the ordinary ones for a demand.

        What tries several strategies leaves it out where it does not.
        """
        if self.experts_apart and not demand.experts:
            return False
        return demand.wafers > 1 or not (self.spans_wafers or self.experts_apart)

    def layouts(self, demand: Demand, others: Sequence[Strategy]) -> Iterable[Layout]:
        """Return the possible layouts for a demand, those with the fewest regions first.

        By default one region of the whole mesh.

        ``others`` are all strategies but this where it ``tries_others``, and none otherwise.
        """
        return [Layout(self.name, 1, 1)]

    def smaller(self, demand: Demand, layout: Layout, steps: int) -> Iterable[Layout]:
        """Return layouts with regions of fewer rows or columns for a search to try; none by default.

        ``steps`` is the number of sides, for each time that a side doubles.
        """
        return ()

    def partition(self, demand: Demand, layout: Layout) -> Sequence[Share]:
        """Return the layers of every region of a layout in order; the first region has the embedding.

        The head goes with the last, or with the first where it uses the embedding's table. By default layers stand with
        their experts, as `consecutive` places them.
        """
        return consecutive(demand, layout, demand.whole_layer_bytes)


class _Unit(NamedTuple):
    """Layers, parts of a layer, or a table that stay together, with their bytes."""

    bytes: float
    layers: LayerRange


def consecutive(demand: Demand, layout: Layout, layer_bytes: Sequence[float]) -> list[Share]:
    """Return layers in order on wafers, on the bands of a wafer and on the regions of a band.

    Each has as even a share of the bytes as what stays together allows: whole layers or parts of them, and the tables
    before and after them. A wafer has some of a layer at least; a region may hold a table alone.

    Args:
        demand: What is placed.
        layout: Bands, the most regions in one, and the parts of layers that stay together.
        layer_bytes: By layer, the bytes that count.
    """
    before = [] if demand.embedding_bytes is None else [_Unit(demand.embedding_bytes, LayerRange(0, 0))]
    end = LayerRange(demand.layers, demand.layers)
    after = [] if demand.head_bytes is None else [_Unit(demand.head_bytes, end)]
    inner = demand.cache.of(_units, 16)(tuple(layer_bytes), demand.attention_bytes, layout.block_parts)
    units = [*before, *inner, *after]
    sizes, cuts = tuple(unit.bytes for unit in units), tuple(unit.layers.last_part < LAYER_PARTS for unit in units)
    # Tables are with what is first or last of layers.
    first, last = len(before), len(before) + len(inner) - 1
    with_tables = [*sizes[first : last + 1]]
    with_tables[0] = sum(sizes[: first + 1])
    with_tables[-1] = sum((with_tables[-1], *sizes[last + 1 :]))
    shares, runs = [], demand.cache.of(_runs, 1024)
    for wafer, (start, stop) in enumerate(runs(tuple(with_tables), cuts[first : last + 1], demand.wafers)):
        begin = first + start if wafer else 0
        of_wafer = slice(begin, len(units) if wafer == demand.wafers - 1 else first + stop)
        for band, (top, bottom) in enumerate(runs(sizes[of_wafer], cuts[of_wafer], layout.bands)):
            across = slice(begin + top, begin + bottom)
            for left, right in runs(sizes[across], cuts[across], layout.per_band):
                at = across.start + left, across.start + right
                shares.append(_share(wafer, band, units[at[0]], units[at[1] - 1], sum(sizes[slice(*at)])))
    return shares


def _units(layer_bytes: tuple[float, ...], attention_bytes: tuple[float, ...], block_parts: int) -> list[_Unit]:
    """Return the layers, whole or in parts."""
    if not block_parts:
        return [_Unit(size, LayerRange(layer, layer + 1)) for layer, size in enumerate(layer_bytes)]
    parts = layer_units(block_parts)
    return [
        _Unit(size, LayerRange(layer, layer + 1, *of_layer))
        for layer, (whole, attention) in enumerate(zip(layer_bytes, attention_bytes, strict=True))
        for of_layer, size in zip(parts, unit_bytes(parts, attention, whole - attention), strict=True)
    ]


def _runs(sizes: tuple[float, ...], cuts: tuple[bool, ...], most: int) -> list[tuple[int, int]]:
    """Divide the units into at most ``most`` contiguous runs of nearly equal size, cutting the fewest layers.

    Returns (start, end) pairs.
    """
    runs = min(most, len(sizes))
    if runs == 1:
        return [(0, len(sizes))]
    even = evenest_runs(sizes, runs, cuts) if any(cuts) else even_runs(sizes, runs)
    return [(start, start + count) for start, count in even]


def _share(wafer: int, band: int, first: _Unit, last: _Unit, size: float) -> Share:
    """Return the share of a region of a band, from one unit to another."""
    (first_layer, _, first_part, _), (_, last_layer, _, last_part) = first.layers, last.layers
    return Share(wafer, band, first_layer, last_layer, size, first_part=first_part, last_part=last_part)
