"""The bytes that PEs of a model in small need at least: a small part of the work of a compilation.

Tiles go by the shape of a region and the kind of layer, of which a search sees few: their sizes are worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from wse.compiler.passes.allocate import aligned_bytes, element_bytes, reserved_bytes
from wse.compiler.passes.contraction import FFN, Held
from wse.compiler.passes.shard import (
    RegionShape,
    Tiling,
    each_once,
    held_types,
    model_shape,
    op_tiles,
    region_cut,
    region_tables,
    regions_of,
    tables_held,
    tiling_of,
)
from wse.compiler.state import State
from wse.models.graph import Op
from wse.models.spec import ModelSpec
from wse.program.program import Tile
from wse_mappings.cuts.layer_parts import BLOCK

FAR_TOO_MANY = 2
"""Bytes on a PE beyond which least ones are not counted on, in SRAMs: how far too many there are helps nobody."""


class TileSize(NamedTuple):
    """A tile without what it holds: its name, the view of its elements, and their number on a PE."""

    name: str
    view: str
    elements: int


def least_bytes(state: State, layers_like: Callable[[int, int, str], int]) -> int:
    """Bytes that the fullest PE of the whole needs at least, for code, weights, and a dense block of one token.

    Between its products a block keeps what gate and up made, the widest of activations.
    Nothing more is counted where that is over ``FAR_TOO_MANY`` times what a PE has.

    Args:
        state: A model in small, after partition.
        layers_like: Gives how many tiles of its stage a tile stands for, by stage, layer and name.
    """
    shape, held, regions = model_shape(state), held_types(state.options), regions_of(state)
    sizes = _sizes(shape, held, state.options.scope, tiling_of(state))
    reserved = reserved_bytes(state.wafer, state.software)
    needed = [reserved] * len(regions)

    def tile_bytes(tile: TileSize) -> int:
        return aligned_bytes(tile.elements * element_bytes(state, tile.view))

    for op, stage, tile in each_once(state, lambda op, stage: sizes.of_op(regions[stage], op)):
        needed[stage] += layers_like(stage, op.layer, tile.name) * tile_bytes(tile)
        if needed[stage] > FAR_TOO_MANY * state.wafer.sram_bytes_per_pe:
            return needed[stage]
    block_bytes = (1 + shape.gated) * element_bytes(state, "acc")
    for stage, (region, plan, tables) in enumerate(zip(regions, state.plans, tables_held(state), strict=True)):
        needed[stage] += sum(map(tile_bytes, sizes.of_tables(region, *tables)))
        if any(parts.block == BLOCK and not state.spec.layers[layer].experts for layer, parts in plan.layers.parts):
            needed[stage] += block_bytes * held.cut(shape, FFN, region.cols).width
    above = [needed[stage] - reserved for stage, plan in enumerate(state.plans) if plan.experts]
    return max(needed) if not above else max(needed[: -len(above)]) + sum(above)


class _Sizes(NamedTuple):
    """Sizes of the tiles of a model: of an op on a region, and of tables there, as `region_tables` has them."""

    of_op: Callable[[RegionShape, Op], list[TileSize]]
    of_tables: Callable[[RegionShape, bool, bool], list[TileSize]]


@lru_cache(maxsize=4)
def _sizes(spec: ModelSpec, held: Held, scope: str, tiling: Tiling) -> _Sizes:
    def of_op(region: RegionShape, op: Op) -> list[TileSize]:
        parts = op.parts if op.parts.cuts_block else BLOCK
        return _sized(op_tiles(spec, tiling, op, region_cut(spec, held, scope, region, parts)))

    def of_tables(region: RegionShape, with_layers: bool, rotates: bool) -> list[TileSize]:  # noqa: FBT001
        cut = region_cut(spec, held, scope, region)
        return _sized(region_tables(spec, cut, with_layers=with_layers, rotates=rotates))

    return _Sizes(cache(of_op), cache(of_tables))


def _sized(tiles: list[Tile]) -> list[TileSize]:
    return [TileSize(tile.name, tile.view, tile.elements) for tile in tiles]
