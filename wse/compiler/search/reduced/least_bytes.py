"""The bytes that PEs of a condensed model need at least: a small part of the work of a compilation."""

from __future__ import annotations

from collections.abc import Callable

from wse.compiler.passes.allocate import aligned_bytes, element_bytes, reserved_bytes
from wse.compiler.passes.shard import distinct_tiles, model_shape, regions_of, table_needs
from wse.compiler.passes.tiling.contraction import FFN, HeldTypes
from wse.compiler.passes.tiling.region_cuts import RegionShape
from wse.compiler.search.tile_sizes import TileSize, sizes_of
from wse.compiler.state import State
from wse.models.spec import ModelSpec
from wse_mappings.cuts.expert_groups import columns_of_expert, experts_of_column
from wse_mappings.cuts.layer_parts import BLOCK

FAR_TOO_MANY = 2
"""Bytes on a PE beyond which least ones are not counted on, in SRAMs: how far too many there are helps nobody."""


def least_bytes(state: State, layers_like: Callable[[int, int, str], int]) -> int:
    """Return a lower bound of the bytes of the fullest PE: code, weights, and a dense block of one token.

    Between its products a block keeps what gate and up made, the widest of activations.
    Nothing more is counted where that is over ``FAR_TOO_MANY`` times what a PE has.

    Args:
        state: A condensed model, after partition.
        layers_like: Gives how many tiles of its stage a tile stands for, by stage, layer and name.
    """
    shape, held, regions = model_shape(state), HeldTypes.from_options(state.options), regions_of(state)
    reserved, most = reserved_bytes(state.wafer, state.software), FAR_TOO_MANY * state.wafer.sram_bytes_per_pe
    needed = [reserved] * len(regions)

    for stage, region in enumerate(regions):
        layers = [layer for layer, _ in state.plans[stage].layers.parts if state.spec.layers[layer].experts]
        count = sum(layers_like(stage, layer, f"layers.{layer}.experts") for layer in layers)
        if (of_experts := count * _experts_across_wafers(shape, held, region)) > most:
            return int(of_experts)

    def tile_bytes(tile: TileSize) -> int:
        return aligned_bytes(tile.elements * element_bytes(state, tile.view))

    sizes = sizes_of(state)
    for op, stage, tile in distinct_tiles(state, lambda op, stage: sizes.of_op(regions[stage], op)):
        needed[stage] += layers_like(stage, op.layer, tile.name) * tile_bytes(tile)
        if needed[stage] > most:
            return needed[stage]
    block_bytes = (1 + shape.gated) * element_bytes(state, "acc")
    for stage, (region, plan, tables) in enumerate(zip(regions, state.plans, table_needs(state), strict=True)):
        needed[stage] += sum(map(tile_bytes, sizes.of_tables(region, *tables)))
        if any(parts.block == BLOCK and not state.spec.layers[layer].experts for layer, parts in plan.layers.parts):
            needed[stage] += block_bytes * held.cut(shape, FFN, region.cols).width
    above = [needed[stage] - reserved for stage, plan in enumerate(state.plans) if plan.experts]
    return max(needed) if not above else max(needed[: -len(above)]) + sum(above)


def _experts_across_wafers(shape: ModelSpec, held: HeldTypes, region: RegionShape) -> float:
    """Return the bytes of a layer's experts on the fullest PE of a region that spans several wafers.

    0 for other regions, and where each wafer has experts of its own. Rows count as if they were cut evenly.
    """
    if shape.experts is None or region.experts is None or region.apart or region.span == 1:
        return 0.0
    placed = region.cols, shape.experts.count, held.expert_placement(shape, region.experts, region.cols)
    return experts_of_column(*placed) * held.expert_bytes(shape, columns_of_expert(*placed)) / region.rows
