"""Pass 2: partition every tensor across the PEs of its stage, padded to tiles of equal size.

The tile of a PE is the block of a tensor that the PE stores. All PEs of a region store the same
number of elements, so that they share one memory map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Protocol, TypeVar

import numpy as np

from wse.arrays import I32
from wse.compiler.options import PRODUCT
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.expert_order import expert_order
from wse.compiler.passes.tiling.op_tiles import OF_EXPERTS, ROUTED, Tiling, op_tiles, tiling_of, with_expert_order
from wse.compiler.passes.tiling.region_cuts import RegionShape, region_cut
from wse.compiler.passes.tiling.vector_tiles import frequencies_name, frequency_table, index_tables
from wse.compiler.state import RegionCut, State
from wse.compiler.symbolic import SymBuffer, SymTile
from wse.models.graph import ops_in_order
from wse.models.op import Op, name_in_layer
from wse.models.spec import ModelSpec
from wse.program.program import FREQUENCIES, WINDOW_FREQUENCIES
from wse.program.tiles import Tile


def with_cuts(state: State) -> State:
    """Decide how the model's dimensions are partitioned across the PEs of each stage.

    The function fills in ``cuts``, ``expert_order`` and, for stages with only some parts of a
    feed-forward block, ``cuts_of_parts``. A search that needs only the sizes of weight tiles calls
    it without the rest of the pass `shard`.
    """
    types, scope = WeightTypes.from_options(state.options), state.options.scope
    divide = partial(region_cut, model_shape(state), types, scope)
    regions = regions_of(state)
    cuts_of_parts = {
        (stage, parts.block): divide(region, parts.block)
        for stage, (plan, region) in enumerate(zip(state.plans, regions, strict=True))
        for _, parts in plan.layers.parts
        if parts.block is not None and parts.cuts_block
    }
    state = replace(state, cuts=tuple(map(divide, regions)), cuts_of_parts=cuts_of_parts)
    return replace(state, expert_order=_expert_order(state))


def shard(state: State) -> State:
    """Divide the tensors of a model into weight tiles, one per PE of each stage.

    The pass fills in ``cuts``, ``cuts_of_parts``, ``expert_order``, ``tiles`` and ``weights``.
    """
    state = with_cuts(state)
    shape, tiling, tiles = model_shape(state), tiling_of(state), []
    real_elements = cache(lambda tile, cut: tile.real_elements(cut.rows, cut.cols))  # equal for all layers of a kind
    tiles_of_op = partial(_tiles_of, state, shape, tiling)
    for op, stage, tile in distinct_tiles(state, tiles_of_op):
        tiles.append(_sym_tile(_in_layer(tile, op.layer, stage), real_elements(tile, state.cuts[stage])))
    for stage, (with_layers, frequencies) in enumerate(table_needs(state)):
        for tile in region_tables(shape, state.cuts[stage], with_layers=with_layers, frequencies=frequencies):
            tiles.append(_sym_tile(replace(tile, stage=stage), real_elements(tile, state.cuts[stage])))
    return replace(state, tiles=tuple(tiles), weights=tuple(tile.buffer for tile in tiles))


def _expert_order(state: State) -> I32:
    """Return the order in which each layer's experts are placed, int32 ``[layers, experts]``.

    Entry [l, p] is the expert at position p of layer l. The array is empty if experts are placed in
    order of their indices.
    """
    selections, experts = state.options.placed_selections, state.spec.experts
    if selections.is_even or experts is None:
        return state.expert_order
    order = np.tile(np.arange(experts.count, dtype=np.int32), (len(state.spec.layers), 1))
    ops = [op for op in ops_in_order(state.graph) if op.kind == ROUTED[0]]
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        mixture = state.cuts[stage].mixture
        assert mixture is not None
        order[op.layer] = expert_order(selections.choices_of(op.layer), mixture, experts.groups, state.options.batch)
    return order


def _tiles_of(state: State, shape: ModelSpec, tiling: Tiling, op: Op, stage: int, layer: int) -> list[Tile]:
    """Return the weight tiles (blocks of weights that one PE stores) of an op.

    The tiles name stage 0 and layer 0, so that equal stages and layers share a cached result.

    Args:
        state: State in which the partitioning of each stage is known.
        shape: Model without its layers.
        tiling: Compilation choices that determine the tiles.
        op: The op, renamed to layer 0.
        stage: Index of the stage that stores the weights.
        layer: Layer of the op before it was renamed.
    """
    cut = state.cut_of(stage, op.parts)
    if op.kind in OF_EXPERTS and state.expert_order.size:
        cut = with_expert_order(cut, state.expert_order[layer])
    return op_tiles(state.options.cache, shape, tiling, op, cut)


def model_shape(state: State) -> ModelSpec:
    """Return the model's dimensions without its layers, as part of the key of cached results.

    A search compiles reduced models (one layer of each kind). They differ from the whole model only
    in their layers, so they share these results.
    """
    return replace(state.spec, layers=())


def regions_of(state: State) -> list[RegionShape]:
    """Return, for each stage, the shape of its region of PEs and how it places experts."""
    is_apart, experts, max_attention_cols = state.has_expert_stage, state.options.experts, state.choice.attention_cols
    return [
        RegionShape(
            plan.rows,
            plan.cols,
            plan.span,
            experts if plan.experts or not is_apart else None,
            is_apart,
            max_attention_cols,
        )
        for plan in state.plans
    ]


class HasName(Protocol):
    """Protocol of a weight tile, or of a record of its size: an object with a name."""

    @property
    def name(self) -> str:
        """Name of the tile, as in layer 0, for whichever layer the tile belongs to."""


T = TypeVar("T", bound=HasName)


def distinct_tiles(state: State, tiles: Callable[[Op, int, int], Iterable[T]]) -> Iterator[tuple[Op, int, T]]:
    """Yield each distinct weight tile of a model once, with an op and the stage that use it.

    Some ops share a tile: embedding and head may share a table, and all layers share the tile that
    maps rows to quantisation groups.

    Args:
        state: State after the partition pass.
        tiles: Function of (op, stage, layer) that returns the tiles. The op has the names of layer
            0, so that the function can share cached results among layers.

    Yields:
        The op, the index of the stage, and the tile with the names of layer 0.
    """
    names: set[tuple[int, str]] = set()
    in_first_layer = state.options.cache.of(Op.in_first_layer, 1 << 12)
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        for tile in tiles(in_first_layer(op), stage, op.layer):  # layers of one kind differ in names only
            key = (stage, name_in_layer(tile.name, op.layer))
            if key not in names:
                names.add(key)
                yield op, stage, tile


def table_needs(state: State) -> list[tuple[bool, tuple[str, ...]]]:
    """Return what `region_tables` must know about each stage: its attention and rotary embeddings.

    Returns:
        For each stage, whether it contains attention, and the names of the frequency tables that
        the rotary position embeddings of its layers use.
    """
    attention_layers = [
        [state.spec.layers[layer] for layer, parts in plan.layers.parts if parts.has_attention] for plan in state.plans
    ]
    if state.options.scope == PRODUCT:
        return [(bool(layers), ()) for layers in attention_layers]
    spec = state.spec
    names = [
        dict.fromkeys(
            frequencies_name(spec, layer) for layer in layers if not layer.linear and spec.rope_of(layer) is not None
        )
        for layers in attention_layers
    ]
    return [(bool(layers), tuple(stage_names)) for layers, stage_names in zip(attention_layers, names, strict=True)]


def region_tables(spec: ModelSpec, cut: RegionCut, *, with_layers: bool, frequencies: tuple[str, ...]) -> list[Tile]:
    """Return the tiles that are computed before a run: rotary frequencies and index tables.

    Args:
        spec: Model.
        cut: Partitioning of the model across the region.
        with_layers: Whether the region contains attention. Latent and linear attention then need
            index tables.
        frequencies: Names of the tables of rotary frequencies that its layers use.
    """
    tables = index_tables(cut) if with_layers else []
    if not cut.heads.rotated:
        return tables
    window_cut = cut if cut.window is None else cut.window
    counts = {
        FREQUENCIES: (cut, spec.rotary_size // 2),
        WINDOW_FREQUENCIES: (window_cut, spec.with_window_heads.rotary_size // 2),
    }
    return [*(frequency_table(*counts[name], name) for name in frequencies), *tables]


def stages_of(state: State, ops: Sequence[Op]) -> list[int]:
    """Return the stage that executes each op.

    Expert ops are executed by the stage that stores the experts of all layers, if there is one. All
    other ops are executed by the stage of their layer.
    """
    expert_stages = [stage for stage, plan in enumerate(state.plans) if plan.experts]
    return [
        expert_stages[0] if expert_stages and op.kind in ROUTED else residual_stage
        for op, residual_stage in zip(ops, residual_stages(state, ops), strict=True)
    ]


def residual_stages(state: State, ops: Iterable[Op]) -> list[int]:
    """Return the stage whose residual stream each op reads or updates.

    This is the stage that stores the op's layer, the embedding or the head. It also executes the
    op, unless the experts of all layers have a separate stage.
    """
    layers = {
        (layer, part): stage
        for stage, plan in enumerate(state.plans)
        for layer, parts in plan.layers.parts
        for part in range(*parts)
    }
    embedding = [stage for stage, plan in enumerate(state.plans) if plan.has_embedding]
    head = [stage for stage, plan in enumerate(state.plans) if plan.has_head]
    return [
        layers[op.layer, op.parts.first] if op.layer >= 0 else (embedding if op.kind == "embedding" else head)[0]
        for op in ops
    ]


def _in_layer(tile: Tile, layer: int, stage: int) -> Tile:
    """Copy a tile of the first layer for an equal layer: change the layer in names, and the stage.

    Args:
        tile: Tile of the first layer, on stage 0.
        layer: Index of the other layer; 0 or less to change only the stage.
        stage: Stage that stores the other layer.
    """
    if layer <= 0:
        return replace(tile, stage=stage)
    parts = tuple(replace(part, tensor=name_in_layer(part.tensor, layer)) for part in tile.parts)
    return replace(tile, stage=stage, name=name_in_layer(tile.name, layer), parts=parts)


def _sym_tile(tile: Tile, real_elements: int) -> SymTile:
    """Create the buffer for a weight tile, and return a record with the tile and the buffer.

    Args:
        tile: Block of weights that each PE of a stage stores.
        real_elements: Total number of elements of the tile on all PEs, excluding padding.
    """
    return SymTile(
        buffer=weights_buffer(tile.stage, tile.name, tile.view, tile.elements), tile=tile, real_elements=real_elements
    )


def weights_buffer(stage: int, name: str, view: str, elements: int) -> SymBuffer:
    """Return the buffer that stores a weight tile, before it has an address.

    Args:
        stage: Index of the stage.
        name: Name of the tile.
        view: How kernels read the elements, such as ``wgt`` for weights.
        elements: Elements per PE.
    """
    return SymBuffer(stage=stage, name=name, use="weights", view=view, elements=elements, permanent=True)
