"""Demand: the sizes of the layers to place on wafers, and the regions that a request lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.cuts.widths import ColumnBytes
from wse_mappings.mesh.placement import Rect
from wse_mappings.result_cache import ResultCache


class ListedRegion(NamedTuple):
    """A region from a mapping file: a rectangle of PEs and the layers that it stores.

    Regions are listed in the order of their layers.

    Attributes:
        wafer: Index of the wafer.
        rect: PEs of the wafer's mesh.
        first_layer, last_layer: First layer, and index after the last layer. The two are equal if
            the region stores only a table (the embedding or the output head).
        first_part, last_part: First part of the first layer, and index after the last part of the
            last layer. A layer has LAYER_PARTS parts: its attention, and equal slices of its
            feed-forward block.
    """

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Layers that the region stores. The first and the last one may be incomplete."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Parts of a model to place (layers, embedding, head), and the wafers and meshes for them.

    Attributes:
        layer_bytes: Bytes of weights and cache of each layer, without experts.
        expert_bytes: Bytes of the expert weights of each layer; 0 for a layer without experts.
        attention_bytes: Bytes of attention and cache of each layer, which are included in
            ``layer_bytes``. Empty if layers are not split.
        embedding_bytes: Bytes of the embedding table; None if no embedding is compiled.
        head_bytes: Bytes of the output head's table; None if the head uses the embedding table or
            no head is compiled.
        experts: Number of experts of a mixture-of-experts model; 0 for other models.
        wafers: Number of wafers.
        mesh_rows, mesh_cols: Size of the mesh of each wafer.
        region: Rows and columns of every region, if the request states them.
        listed: All regions, if the request lists them.
        listed_transposed: Whether the listed regions are on a transposed mesh.
        pe_bytes: SRAM of a PE, which no layout can exceed.
        row_share: Function that returns the fraction of a column's bytes on its fullest PE, given
            the number of rows of a region.
        column_bytes: Function that returns, given the layers and the number of tables of a region,
            another function from the region's column count to the bytes per column. None if
            everything is divided evenly, to the byte.
        kv_bytes: The same for KV caches and states alone, given the layers of a region. Rows
            store equal fractions of these bytes.
        block_bytes: Function that returns the bytes that a PE needs for the activations of its
            widest feed-forward block, given the number of columns of a region.
        score_bytes: Function that returns the bytes of a token's attention scores on all PEs of a
            column, given the number of columns of a region.
        as_released: Whether wafers are divided as published services are assumed to do: all bands
            have the same number of rows, and the widths of regions are proportional to bytes
            without padding.
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
    kv_bytes: Callable[[LayerRange], ColumnBytes] = lambda layers: lambda cols: 0.0
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
