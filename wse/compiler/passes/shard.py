"""Pass 2: divide every tensor over the PEs of its stage, padded to tiles of equal size.

The tile of a PE is the block of a tensor that the PE stores. All PEs of a region store the same
number of elements, so that they have one memory map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple, Protocol, TypeVar

from wse.arrays import I32
from wse.compiler.options import (
    DECODE,
    MESH_GEMM_OWN,
    NORM_SCALES,
    PREFILL,
    PRODUCT,
    ROUTER_COPIES,
    ROUTER_SCORES,
    VERIFY,
)
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.expert_tiles import ROUTED, expert_tiles, router_tiles
from wse.compiler.passes.tiling.quantised_tiles import coded_tiles
from wse.compiler.passes.tiling.region_cuts import RegionShape, region_cut
from wse.compiler.passes.tiling.tiles import (
    column_vectors,
    frequency_table,
    hidden_vectors,
    latent_tables,
    norm_products,
    skewed_tiles,
    tiles_in_place,
)
from wse.compiler.state import RegionCut, State
from wse.compiler.symbolic import SymBuffer, SymTile
from wse.models.graph import Op, name_in_layer, ops_in_order
from wse.models.spec import ModelSpec
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile
from wse_mappings.cuts.output_copies import copied_blocks
from wse_mappings.result_cache import ResultCache


def with_cuts(state: State) -> State:
    """Decide how all dimensions of the model are divided over the region of each stage.

    The function fills in ``cuts`` and, for stages with only some parts of a feed-forward block,
    ``cuts_of_parts``. A search that needs only the sizes of tiles calls it without the rest of the
    pass.
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
    return replace(state, cuts=tuple(map(divide, regions)), cuts_of_parts=cuts_of_parts)


def shard(state: State) -> State:
    """Divide the model's tensors into the weight tiles of each stage.

    The pass fills in ``cuts``, ``cuts_of_parts``, ``tiles`` and ``weights``.
    """
    state = with_cuts(state)
    shape, tiling, tiles = model_shape(state), tiling_of(state), []
    real = cache(lambda tile, cut: tile.real_elements(cut.rows, cut.cols))  # equal for all layers of a kind
    tiles_of_op = partial(_tiles_of, state, shape, tiling)
    for op, stage, tile in distinct_tiles(state, tiles_of_op):
        tiles.append(_sym_tile(_in_layer(tile, op.layer, stage), real(tile, state.cuts[stage])))
    for stage, (with_layers, rotates) in enumerate(table_needs(state)):
        for tile in region_tables(shape, state.cuts[stage], with_layers=with_layers, rotates=rotates):
            tiles.append(_sym_tile(replace(tile, stage=stage), real(tile, state.cuts[stage])))
    return replace(state, tiles=tuple(tiles), weights=tuple(tile.buffer for tile in tiles))


def _tiles_of(state: State, shape: ModelSpec, tiling: Tiling, op: Op, stage: int) -> list[Tile]:
    """Return the weight tiles of an op on a stage, with the names that they have on stage 0."""
    return op_tiles(state.options.cache, shape, tiling, op, state.cut_of(stage, op.parts))


def model_shape(state: State) -> ModelSpec:
    """Return the model without its layers, for use as a key of cached results.

    A search compiles reduced models, which differ from the whole model only in their layers, so
    they share these results.
    """
    return replace(state.spec, layers=())


def regions_of(state: State) -> list[RegionShape]:
    """Return the shape of each stage's region, and how experts and attention are placed in it."""
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
    """An object with the name of a tile."""

    @property
    def name(self) -> str:
        """Name of the tile, as on stage 0 and in the first layer."""


T = TypeVar("T", bound=HasName)


def distinct_tiles(state: State, tiles: Callable[[Op, int], Iterable[T]]) -> Iterator[tuple[Op, int, T]]:
    """Yield each distinct weight tile of a model once, with an op and the stage that use it.

    Some ops share a tile: embedding and head may share a table, and all layers share the tile that
    maps rows to quantisation groups.

    Args:
        state: State after the partition pass.
        tiles: Function that returns the tiles of an op on a stage. The op is renamed to layer 0
            before the call, so that results can be cached for all layers of a kind.

    Yields:
        The op, the index of the stage, and the tile with the names of layer 0.
    """
    names: set[tuple[int, str]] = set()
    in_first_layer = state.options.cache.of(_in_first_layer, 1 << 12)
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        for tile in tiles(in_first_layer(op), stage):  # layers of one kind differ in names only
            key = (stage, name_in_layer(tile.name, op.layer))
            if key not in names:
                names.add(key)
                yield op, stage, tile


def _in_first_layer(op: Op) -> Op:
    """Return the op with the names that it would have in layer 0."""
    return op.in_layer(0)


def table_needs(state: State) -> list[tuple[bool, bool]]:
    """Return for each stage whether it has attention, and whether it rotates queries and keys.

    These are the arguments of `region_tables`.
    """
    attention_layers = [
        [state.spec.layers[layer] for layer, parts in plan.layers.parts if parts.has_attention] for plan in state.plans
    ]
    may_rotate = state.options.scope != PRODUCT
    return [(bool(layers), may_rotate and any(layer.rotary for layer in layers)) for layers in attention_layers]


def region_tables(spec: ModelSpec, cut: RegionCut, *, with_layers: bool, rotates: bool) -> list[Tile]:
    """Return the tiles that are computed before a run: rotary frequencies and index tables.

    Args:
        spec: Model.
        cut: How the model is divided over the region.
        with_layers: Whether the region contains attention. Latent attention then needs index
            tables.
        rotates: Whether the region rotates queries and keys.
    """
    tables = latent_tables(cut) if with_layers else []
    if not rotates or not cut.heads.rotated or spec.rope is None:
        return tables
    return [frequency_table(cut, len(spec.rope.frequencies)), *tables]


def stages_of(state: State, ops: Sequence[Op]) -> list[int]:
    """Return the stage that executes each op.

    Expert ops are executed by the stage that stores the experts of all layers, if there is one. All
    other ops are executed by the stage of their layer.
    """
    expert_stages = [stage for stage, plan in enumerate(state.plans) if plan.experts]
    homes = residual_stages(state, ops)
    return [
        expert_stages[0] if expert_stages and op.kind in ROUTED else home for op, home in zip(ops, homes, strict=True)
    ]


def residual_stages(state: State, ops: Iterable[Op]) -> list[int]:
    """Return the stage whose residual stream each op reads or updates.

    This is the stage that stores the op's layer, the embedding or the head. It also executes the
    op, unless the experts of all layers have a stage of their own.
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
    """Return a copy of a first-layer tile with the names of another layer, on a given stage."""
    if layer <= 0:
        return replace(tile, stage=stage)
    parts = tuple(replace(part, tensor=name_in_layer(part.tensor, layer)) for part in tile.parts)
    return replace(tile, stage=stage, name=name_in_layer(tile.name, layer), parts=parts)


def prefill_tile_name(tensor: str) -> str:
    """Return the name of the copy of a tensor's tile that is stored for prefill only.

    Only the product ``mesh-gemm-own-weights`` uses such copies.
    """
    return f"prefill.{tensor}"


class Tiling(NamedTuple):
    """Choices of a compilation that, with the division of a region, determine its weight tiles.

    Attributes:
        dtype: Type in which weights are stored.
        phases: Phases that use the tiles.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
        with_norms: Whether the tiles of `norm_products` are needed.
        scored_on_columns: Whether the scores of a router are computed on the columns of its
            outputs, on regions of one wafer.
        router_outputs: Maximum number of router outputs per column if several column segments
            compute them all; 0 if there is a single segment.
    """

    dtype: str
    phases: tuple[str, ...]
    prefill: str
    with_norms: bool
    scored_on_columns: bool
    router_outputs: int


def tiling_of(state: State) -> Tiling:
    """Return the choices of a compilation that determine its weight tiles."""
    options, choice = state.options, state.choice
    phases = (*options.phases, *([VERIFY] if options.verify_tokens else []))
    with_norms = state.spec.norm == "layer" and choice.uses(NORM_SCALES)
    scored_on_columns, router_outputs = choice.always_uses(ROUTER_SCORES), choice.setting_of(ROUTER_COPIES)
    return Tiling(options.dtype, phases, choice.prefill, with_norms, scored_on_columns, router_outputs)


def op_tiles(cache: ResultCache, spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles of one op on stage 0, in the layouts of all phases that use them.

    If prefill by MeshGEMM has its own weights, ops of layers have two layouts; other ops have one.
    Results are cached, because layers share them. For experts only a few results are cached,
    because an index of all experts for each column of many wafers needs tens of megabytes.

    Args:
        cache: Cache of the request.
        spec: Model.
        tiling: Choices that determine the tiles, in addition to ``cut``.
        op: The op.
        cut: Division over the region of the stage.
    """
    if op.kind in _OF_EXPERTS:
        return cache.of(_expert_tiles, 6)(spec, tiling, op, cut)
    return cache.of(_tiles_without_experts, 64)(spec, tiling, op, cut)


ROUTER_OP = "router"
_OF_EXPERTS = (ROUTER_OP, *ROUTED)
"""Kinds of the ops with the tiles of a router or of experts."""


def _expert_tiles(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of a router op or an expert op."""
    on_columns = tiling.scored_on_columns and cut.span == 1
    whole_tiles = (
        router_tiles(op, cut, _router_index(spec, tiling, cut), scored_on_columns=on_columns)
        if op.kind == ROUTER_OP
        else expert_tiles(op, cut, spec.hidden_size)
    )
    return [tile for whole_tile in whole_tiles for tile in coded_tiles(whole_tile, spec, tiling.dtype, op.parts)]


def _router_index(spec: ModelSpec, tiling: Tiling, cut: RegionCut) -> I32:
    """Return the indices of the router outputs that each column computes.

    Returns:
        int32 ``[cols, n]``; -1 is padding.
    """
    outputs = spec.experts.count if spec.experts else 0
    return copied_blocks(outputs, cut.cols, cut.router_copies(outputs, tiling.router_outputs))


def _tiles_without_experts(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the weight tiles of an op that is neither a router nor part of the experts."""
    tiles = column_vectors(op, cut, spec)
    is_stored_twice = op.layer >= 0 and tiling.prefill == MESH_GEMM_OWN
    if not is_stored_twice or {DECODE, VERIFY} & {*tiling.phases}:
        tiles += [
            tile
            for whole_tile in tiles_in_place(op, cut)
            for tile in coded_tiles(whole_tile, spec, tiling.dtype, op.parts)
        ]
        tiles += hidden_vectors(op, cut, COLUMNS)
        tiles += norm_products(op, cut, spec) if tiling.with_norms else []
    if is_stored_twice and PREFILL in tiling.phases:
        prefill_tiles = skewed_tiles(op, cut) + hidden_vectors(op, cut, ROWS)
        tiles += [replace(tile, name=prefill_tile_name(tile.name)) for tile in prefill_tiles]
    return tiles


def _sym_tile(tile: Tile, real_elements: int) -> SymTile:
    """Return a tile together with the buffer that will store it."""
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
