"""Pass 2: the share of every tensor that each PE stores, padded up so that all PEs of a region are alike."""

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
from wse.compiler.passes.tiling.contraction import HeldTypes
from wse.compiler.passes.tiling.quantised_tiles import coded_tiles
from wse.compiler.passes.tiling.region_cuts import RegionShape, region_cut
from wse.compiler.passes.tiling.tiles import (
    ROUTED,
    column_vectors,
    expert_tiles,
    frequency_table,
    hidden_vectors,
    latent_tables,
    norm_products,
    router_tiles,
    skewed_tiles,
    tiles_in_place,
)
from wse.compiler.state import RegionCut, State
from wse.compiler.symbolic import SymBuffer, SymTile
from wse.models.graph import Op, name_in_layer, ops_in_order
from wse.models.spec import ModelSpec
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile
from wse_mappings.cuts.layer_parts import Parts
from wse_mappings.cuts.output_copies import copied_blocks
from wse_mappings.result_cache import ResultCache


def with_cuts(state: State) -> State:
    """Fill ``cuts`` and ``cuts_of_parts``."""
    return replace(state, cuts=cuts_of(state), cuts_of_parts=_cuts_of_parts(state))


def shard(state: State) -> State:
    """Fill ``cuts``, ``tiles`` and ``weights``."""
    state = with_cuts(state)
    shape, tiling, tiles = model_shape(state), tiling_of(state), []
    real = cache(lambda tile, cut: tile.real_elements(cut.rows, cut.cols))  # layers of a kind have the same
    of_op = partial(_tiles_of, state, shape, tiling)
    for op, stage, tile in distinct_tiles(state, of_op):
        tiles.append(_sym_tile(_in_layer(tile, op.layer, stage), real(tile, state.cuts[stage])))
    for stage, (with_layers, rotates) in enumerate(table_needs(state)):
        for tile in region_tables(shape, state.cuts[stage], with_layers=with_layers, rotates=rotates):
            tiles.append(_sym_tile(replace(tile, stage=stage), real(tile, state.cuts[stage])))
    return replace(state, tiles=tuple(tiles), weights=tuple(tile.buffer for tile in tiles))


def _tiles_of(state: State, shape: ModelSpec, tiling: Tiling, op: Op, stage: int) -> list[Tile]:
    """Return the tiles of one op on a stage, named as on stage 0."""
    return op_tiles(state.options.cache, shape, tiling, op, state.cut_of(stage, op.parts))


def cuts_of(state: State) -> tuple[RegionCut, ...]:
    """Return the division of all extents over the region of each stage."""
    shape, held, scope = model_shape(state), HeldTypes.from_options(state.options), state.options.scope
    return tuple(region_cut(shape, held, scope, region) for region in regions_of(state))


def _cuts_of_parts(state: State) -> dict[tuple[int, Parts], RegionCut]:
    """Return the divisions for the parts of feed-forward blocks that stages have."""
    shape, held, scope = model_shape(state), HeldTypes.from_options(state.options), state.options.scope
    return {
        (stage, parts.block): region_cut(shape, held, scope, region, parts.block)
        for stage, (plan, region) in enumerate(zip(state.plans, regions_of(state), strict=True))
        for _, parts in plan.layers.parts
        if parts.block is not None and parts.cuts_block
    }


def model_shape(state: State) -> ModelSpec:
    """Return the model with any layers, so that reduced models share their divisions."""
    return replace(state.spec, layers=())


def regions_of(state: State) -> list[RegionShape]:
    """Return the shape of the region of each stage."""
    apart, experts, most = state.has_expert_stage, state.options.experts, state.choice.attention_cols
    return [
        RegionShape(plan.rows, plan.cols, plan.span, experts if plan.experts or not apart else None, apart, most)
        for plan in state.plans
    ]


class HasName(Protocol):
    """A thing with the name of a tile."""

    @property
    def name(self) -> str:
        """The name, as of stage 0 and the first layer."""


T = TypeVar("T", bound=HasName)


def distinct_tiles(state: State, tiles: Callable[[Op, int], Iterable[T]]) -> Iterator[tuple[Op, int, T]]:
    """Yield each distinct tile of the tensors with its op and stage.

    ``tiles`` gives those of an op, as of the first layer, on a stage.
    """
    names: set[tuple[int, str]] = set()
    in_first_layer = state.options.cache.of(_in_first_layer, 1 << 12)
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        for tile in tiles(in_first_layer(op), stage):  # layers of one kind differ in names alone
            key = (stage, name_in_layer(tile.name, op.layer))
            if key not in names:
                names.add(key)
                yield op, stage, tile


def _in_first_layer(op: Op) -> Op:
    return op.in_layer(0)


def table_needs(state: State) -> list[tuple[bool, bool]]:
    """Return for each stage whether it stores attention, and whether it rotates queries and keys."""
    of_stages = [
        [state.spec.layers[layer] for layer, parts in plan.layers.parts if parts.has_attention] for plan in state.plans
    ]
    may_rotate = state.options.scope != PRODUCT
    return [(bool(layers), may_rotate and any(layer.rotary for layer in layers)) for layers in of_stages]


def region_tables(spec: ModelSpec, cut: RegionCut, *, with_layers: bool, rotates: bool) -> list[Tile]:
    """Return the tiles that are computed before a run: frequencies of rotary pairs, and tables of latent attention."""
    tables = latent_tables(cut) if with_layers else []
    if not rotates or not cut.heads.rotated or spec.rope is None:
        return tables
    return [frequency_table(cut, len(spec.rope.frequencies)), *tables]


def stages_of(state: State, ops: Sequence[Op]) -> list[int]:
    """Return the stage that runs each op."""
    apart = [stage for stage, plan in enumerate(state.plans) if plan.experts]
    homes = residual_stages(state, ops)
    return [apart[0] if apart and op.kind in ROUTED else home for op, home in zip(ops, homes, strict=True)]


def residual_stages(state: State, ops: Iterable[Op]) -> list[int]:
    """Return the stage of each op's residual stream: that of its layer, of the embedding, or of the head."""
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
    """Return a tile of the first layer, renamed for another layer of the same kind."""
    if layer <= 0:
        return replace(tile, stage=stage)
    parts = tuple(replace(part, tensor=name_in_layer(part.tensor, layer)) for part in tile.parts)
    return replace(tile, stage=stage, name=name_in_layer(tile.name, layer), parts=parts)


def prefill_tile_name(tensor: str) -> str:
    """Return the name of the copy of a tensor's tile for prefill with weights of its own."""
    return f"prefill.{tensor}"


class Tiling(NamedTuple):
    """The choices on which the tiles of a region depend, in addition to its division.

    Attributes:
        dtype: The type that weights are held in.
        phases: The phases, in whose arrangements tiles are.
        prefill: The product of prefill.
        with_norms: Whether there are those of `norm_products` too.
        scored_on_columns: Whether a router's scores are taken on the columns of its outputs, on one wafer.
        router_outputs: The most outputs of a router on a column where stretches of columns have all; 0 where none has.
    """

    dtype: str
    phases: tuple[str, ...]
    prefill: str
    with_norms: bool
    scored_on_columns: bool
    router_outputs: int


def tiling_of(state: State) -> Tiling:
    """Return the choices on which the tiles of a compilation depend."""
    options, choice = state.options, state.choice
    phases = (*options.phases, *([VERIFY] if options.verify_tokens else []))
    with_norms = state.spec.norm == "layer" and choice.uses(NORM_SCALES)
    scored_on_columns, router_outputs = choice.always_uses(ROUTER_SCORES), choice.setting_of(ROUTER_COPIES)
    return Tiling(options.dtype, phases, choice.prefill, with_norms, scored_on_columns, router_outputs)


def op_tiles(cache: ResultCache, spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles of one op on stage 0, in the arrangements of the phases that use them.

    What is outside the layers has but one. Layers share them: some are kept, of experts few, as an index of all experts
    for each column of many wafers takes tens of megabytes.
    """
    if op.kind in _OF_EXPERTS:
        return cache.of(_expert_tiles, 6)(spec, tiling, op, cut)
    return cache.of(_tiles_without_experts, 64)(spec, tiling, op, cut)


ROUTER_OP = "router"
_OF_EXPERTS = (ROUTER_OP, *ROUTED)
"""Kinds of ops whose tiles are those of a router or of experts."""


def _expert_tiles(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles of a router or of experts."""
    on_columns = tiling.scored_on_columns and cut.span == 1
    whole_tiles = (
        router_tiles(op, cut, _router_index(spec, tiling, cut), scored_on_columns=on_columns)
        if op.kind == ROUTER_OP
        else expert_tiles(op, cut, spec.hidden_size)
    )
    return [tile for whole in whole_tiles for tile in coded_tiles(whole, spec, tiling.dtype, op.parts)]


def _router_index(spec: ModelSpec, tiling: Tiling, cut: RegionCut) -> I32:
    """Return the outputs of a router on each column, int32 ``[cols, n]``."""
    outputs = spec.experts.count if spec.experts else 0
    return copied_blocks(outputs, cut.cols, cut.router_copies(outputs, tiling.router_outputs))


def _tiles_without_experts(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """Return the tiles of any other op."""
    tiles = column_vectors(op, cut, spec)
    twice = op.layer >= 0 and tiling.prefill == MESH_GEMM_OWN
    if not twice or {DECODE, VERIFY} & {*tiling.phases}:
        tiles += [
            tile for whole in tiles_in_place(op, cut) for tile in coded_tiles(whole, spec, tiling.dtype, op.parts)
        ]
        tiles += hidden_vectors(op, cut, COLUMNS)
        tiles += norm_products(op, cut, spec) if tiling.with_norms else []
    if twice and PREFILL in tiling.phases:
        own = skewed_tiles(op, cut) + hidden_vectors(op, cut, ROWS)
        tiles += [replace(tile, name=prefill_tile_name(tile.name)) for tile in own]
    return tiles


def _sym_tile(tile: Tile, real_elements: int) -> SymTile:
    """Return a tile with the buffer that stores it."""
    return SymTile(
        buffer=weights_buffer(tile.stage, tile.name, tile.view, tile.elements), tile=tile, real_elements=real_elements
    )


def weights_buffer(stage: int, name: str, view: str, elements: int) -> SymBuffer:
    """Return the buffer that holds a tile."""
    return SymBuffer(stage=stage, name=name, use="weights", view=view, elements=elements, permanent=True)
