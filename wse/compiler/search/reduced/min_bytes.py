"""Lower bound on the bytes per PE of a reduced model, computed much faster than by compiling it."""

from __future__ import annotations

from collections.abc import Callable

from wse.compiler.passes.allocate import aligned_bytes, reserved_bytes
from wse.compiler.passes.shard import distinct_tiles, model_shape, regions_of, table_needs
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.dimensions import FFN
from wse.compiler.passes.tiling.region_cuts import RegionShape
from wse.compiler.search.tile_sizes import TileSize, sizes_of
from wse.compiler.state import State
from wse.models.spec import ModelSpec
from wse_mappings.cuts.expert_groups import columns_of_expert, experts_of_column
from wse_mappings.cuts.layer_parts import BLOCK

FAR_TOO_MANY = 2
"""Multiple of a PE's SRAM beyond which bytes are no longer counted exactly."""


def min_bytes(state: State, tile_multiplicity: Callable[[int, int, str], int]) -> int:
    """Return a lower bound on the bytes that the fullest PE needs for a layout of a model.

    The bound includes code, weights, index tables and part of the activations.

    1. Count experts that are distributed across several wafers, which are the fastest to count.
    2. Count the weight tiles.
    3. Count index tables and, for a dense feed-forward block, the gate and up projections of one
       token, which are the widest activations.
    4. If one stage stores the experts of all layers, it shares its PEs with the other stages. Add its
       bytes to those of the fullest other stage.

    Counting stops in 1 and 2 as soon as the result exceeds ``FAR_TOO_MANY`` times the SRAM of a PE.

    Args:
        state: Reduced model (one layer of each kind) after partition.
        tile_multiplicity: Function of (stage, layer, tile name) that returns how many tiles of the whole
            model a tile of the reduced model represents on its stage.
    """
    shape, weight_types, regions = model_shape(state), WeightTypes.from_options(state.options), regions_of(state)
    reserved, max_bytes = reserved_bytes(state.wafer, state.software), FAR_TOO_MANY * state.wafer.sram_bytes_per_pe
    bytes_by_stage = [reserved] * len(regions)

    for stage, region in enumerate(regions):  # 1
        layers = [layer for layer, _ in state.plans[stage].layers.parts if state.spec.layers[layer].experts]
        count = sum(tile_multiplicity(stage, layer, f"layers.{layer}.experts") for layer in layers)
        if (expert_bytes := count * _experts_across_wafers(shape, weight_types, region)) > max_bytes:
            return int(expert_bytes)

    def tile_bytes(tile: TileSize) -> int:
        """Return the bytes of a weight tile on one PE, rounded up to the alignment of buffers."""
        return aligned_bytes(tile.elements * state.options.element_bytes(tile.view))

    # 2. Weight tiles.
    sizes = sizes_of(state)
    for op, stage, tile in distinct_tiles(state, lambda op, stage, _: sizes.sizes_of_op(regions[stage], op)):
        bytes_by_stage[stage] += tile_multiplicity(stage, op.layer, tile.name) * tile_bytes(tile)
        if bytes_by_stage[stage] > max_bytes:
            return bytes_by_stage[stage]
    # 3. Tables and blocks.
    block_bytes = (1 + shape.gated) * state.options.element_bytes("acc")
    for stage, (region, plan, tables) in enumerate(zip(regions, state.plans, table_needs(state), strict=True)):
        bytes_by_stage[stage] += sum(map(tile_bytes, sizes.sizes_of_tables(region, *tables)))
        if any(parts.block == BLOCK and not state.spec.layers[layer].experts for layer, parts in plan.layers.parts):
            bytes_by_stage[stage] += block_bytes * weight_types.cut(shape, FFN, region.cols).width
    # 4. The stage of experts.
    expert_stage_bytes = [bytes_by_stage[stage] - reserved for stage, plan in enumerate(state.plans) if plan.experts]
    if not expert_stage_bytes:
        return max(bytes_by_stage)
    return max(bytes_by_stage[: -len(expert_stage_bytes)]) + sum(expert_stage_bytes)


def _experts_across_wafers(shape: ModelSpec, weight_types: WeightTypes, region: RegionShape) -> float:
    """Return how many bytes of experts the fullest PE stores if a region spans several wafers.

    The result is for one layer. It is 0 if the region is on a single wafer, or if every wafer
    stores different experts. Experts are assumed to be divided evenly over the rows of the region.

    Args:
        shape: Model without its layers.
        weight_types: Storage types of the weights.
        region: Shape of the region, and the placement of experts on it.
    """
    if shape.experts is None or region.experts is None or region.apart or region.span == 1:
        return 0.0
    placement = region.cols, shape.experts.count, weight_types.expert_placement(shape, region.experts, region.cols)
    return experts_of_column(*placement) * weight_types.expert_bytes(shape, columns_of_expert(*placement)) / region.rows
