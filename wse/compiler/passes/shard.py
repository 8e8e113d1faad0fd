"""Pass 2: the share of every tensor that each PE holds, padded up so that all PEs of a region are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from wse.arrays import I32
from wse.compiler.options import (
    DECODE,
    LAYERS,
    MESH_GEMM_OWN,
    NORM_SCALES,
    PREFILL,
    PRODUCT,
    ROUTER_SCORES,
    VERIFY,
)
from wse.compiler.passes.contraction import EXPERTS, FFN, HIDDEN, SHARED, HeldTypes
from wse.compiler.passes.quantised_tiles import coded_tiles
from wse.compiler.passes.tiles import (
    ROUTED,
    column_vectors,
    expert_tiles,
    frequency_table,
    hidden_vectors,
    latent_tables,
    norm_products,
    skewed_tiles,
    tiles_in_place,
)
from wse.compiler.state import RegionCut, State, SymBuffer, SymTile
from wse.models.graph import Op, name_in_layer, ops_in_order
from wse.models.spec import Experts, ModelSpec
from wse.program.mixture import Mixture
from wse.program.program import Tile
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.expert_groups import ExpertGroups, columns_of_expert, expert_groups
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.layer_parts import BLOCK, Parts
from wse_mappings.cuts.split import blocks, blocks_in_the_middle, padded_blocks


class RegionShape(NamedTuple):
    """The shape of a region, by which a model is cut over it: ``rows``, and columns on each of ``span`` wafers.

    ``experts`` is their placement, None without any; with ``apart`` each wafer has experts of its own.
    """

    rows: int
    cols_of_wafer: int
    span: int
    experts: str | None
    apart: bool

    @property
    def cols(self) -> int:
        """Columns of all wafers."""
        return self.cols_of_wafer * self.span


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
    """The tiles of one op on a stage, as of stage 0."""
    cut = state.cut_of(stage, op.parts)
    return (_expert_tiles if op.kind in _OF_EXPERTS else _tiles_without_experts)(shape, tiling, op, cut)


def cuts_of(state: State) -> tuple[RegionCut, ...]:
    """Cuts of extents over the region of each stage."""
    shape, held, scope = model_shape(state), HeldTypes.from_options(state.options), state.options.scope
    return tuple(region_cut(shape, held, scope, region) for region in regions_of(state))


def _cuts_of_parts(state: State) -> dict[tuple[int, Parts], RegionCut]:
    """Cuts for the parts of feed-forward blocks of which a stage has some alone."""
    shape, held, scope = model_shape(state), HeldTypes.from_options(state.options), state.options.scope
    return {
        (stage, parts.block): region_cut(shape, held, scope, region, parts.block)
        for stage, (plan, region) in enumerate(zip(state.plans, regions_of(state), strict=True))
        for _, parts in plan.layers.parts
        if parts.block is not None and parts.cuts_block
    }


def model_shape(state: State) -> ModelSpec:
    """The model of any layers, so that condensed models share their cuts."""
    return replace(state.spec, layers=())


def regions_of(state: State) -> list[RegionShape]:
    """The shape of the region of each stage."""
    apart, experts = state.has_expert_stage, state.options.experts
    return [
        RegionShape(plan.rows, plan.cols, plan.span, experts if plan.experts or not apart else None, apart)
        for plan in state.plans
    ]


class HasName(Protocol):
    """A thing with the name of a tile."""

    @property
    def name(self) -> str:
        """The name, as of stage 0 and the first layer."""


T = TypeVar("T", bound=HasName)


def distinct_tiles(state: State, tiles: Callable[[Op, int], Iterable[T]]) -> Iterator[tuple[Op, int, T]]:
    """Each tile of the tensors once, with its op and stage.

    ``tiles`` gives those of an op, as of the first layer, on a stage.
    """
    names: set[tuple[int, str]] = set()
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        for tile in tiles(_in_first_layer(op), stage):  # layers of one kind differ in names alone
            key = (stage, name_in_layer(tile.name, op.layer))
            if key not in names:
                names.add(key)
                yield op, stage, tile


@lru_cache(maxsize=1 << 12)
def _in_first_layer(op: Op) -> Op:
    return op.in_layer(0)


def table_needs(state: State) -> list[tuple[bool, bool]]:
    """Whether each stage holds attention of layers, and whether any of them rotates its queries and keys."""
    of_stages = [
        [state.spec.layers[layer] for layer, parts in plan.layers.parts if parts.has_attention] for plan in state.plans
    ]
    may_rotate = state.options.scope != PRODUCT
    return [(bool(layers), may_rotate and any(layer.rotary for layer in layers)) for layers in of_stages]


def region_tables(spec: ModelSpec, cut: RegionCut, *, with_layers: bool, rotates: bool) -> list[Tile]:
    """The tiles of what is worked out before a run: frequencies of rotary pairs, and tables of latent attention."""
    tables = latent_tables(cut) if with_layers else []
    if not rotates or not cut.heads.rotated or spec.rope is None:
        return tables
    return [frequency_table(cut, len(spec.rope.frequencies)), *tables]


def region_cut(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape, parts: Parts = BLOCK) -> RegionCut:
    """The cut of a model over a region of that shape, of its feed-forward blocks those parts."""
    cut = (cut_on_one_wafer if region.span == 1 else _cut_across_wafers)(spec, held, scope, region)
    return cut if parts == BLOCK else _with_parts(spec, held, region, cut, parts)


@lru_cache(maxsize=24)
def cut_on_one_wafer(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    """`region_cut` of whole blocks."""
    return _region_cut(spec, held, scope, region)


@lru_cache(maxsize=2)  # an index for each column of many wafers takes megabytes
def _cut_across_wafers(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    return _region_cut(spec, held, scope, region)


def _region_cut(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    rows, cols, span = region.rows, region.cols, region.span
    hidden_group = held.group_of_cut(spec, HIDDEN, rows)
    hidden, count = blocks(spec.hidden_size, rows, hidden_group), spec.experts.count if spec.experts else 0
    pairs = {"whole_pairs": scope != LAYERS, "mixed_pairs": spec.has_unit_rope}
    if spec.latent is not None:
        heads = head_groups(cols, spec.kv_head_count, spec.latent.rope_size, spec.rotary_size, stretches=span)
    elif span == 1:
        heads = head_groups(cols, spec.kv_head_count, spec.head_size, spec.rotary_size, **pairs)
    else:
        sizes = (spec.kv_head_count, spec.queries_per_kv, spec.head_size, spec.rotary_size)
        heads = head_groups_of_wafers(cols, *sizes, stretches=span, **pairs)
    none = np.empty((cols, 0), np.int32)
    return RegionCut(
        rows=rows,
        cols=cols,
        span=span,
        hidden=hidden,
        hidden_group=hidden_group,
        vocab=padded_blocks(spec.vocab_size, cols),
        positions=padded_blocks(spec.learned_positions, cols),
        heads=heads,
        queries=none if spec.latent is not None else heads.rows(spec.head_size, spec.queries_per_kv),
        keys=none if spec.latent is not None else heads.rows(spec.head_size, 1),
        latent=_latent_cut(spec, hidden, cols),
        router=blocks_in_the_middle(count, cols),
        **_block_cuts(spec, held, region, BLOCK),
    )


@lru_cache(maxsize=24)
def _with_parts(spec: ModelSpec, held: HeldTypes, region: RegionShape, cut: RegionCut, parts: Parts) -> RegionCut:
    """The cut over a region with parts of feed-forward blocks in place of whole ones."""
    return replace(cut, **_block_cuts(spec, held, region, parts))


def _block_cuts(spec: ModelSpec, held: HeldTypes, region: RegionShape, parts: Parts) -> dict[str, Any]:
    """The fields of a region's cut that go by the parts of feed-forward blocks: their features, and experts."""
    cols, mixture, groups = region.cols, spec.experts, None
    if mixture is not None and region.experts is not None:
        stretches = region.span if region.apart else 1
        placed = cols, mixture.count, held.expert_placement(spec, region.experts, cols, stretches), stretches
        features = held.group_of_cut(spec, EXPERTS, columns_of_expert(*placed))
        first, last = parts.features(mixture.ffn_size)
        groups = expert_groups(cols, mixture.count, last - first, *placed[2:], feature_group=features)
        groups = replace(groups, size=mixture.ffn_size, features=_from(first, groups.features))
    return {
        "ffn": _block(spec.ffn_size, parts, cols, held.group_of_cut(spec, FFN, cols)),
        "shared": _block(mixture.shared_size if mixture else 0, parts, cols, held.group_of_cut(spec, SHARED, cols)),
        "experts": groups,
        "mixture": _mixture(mixture, groups),
    }


def _block(extent: int, parts: Parts, cols: int, group: int) -> I32:
    """The features on each column of those that some parts of a block have."""
    first, last = parts.features(extent)
    return _from(first, blocks(last - first, cols, group))


def _from(first: int, index: I32) -> I32:
    """An index that counts from another element on."""
    return np.where(index < 0, np.int32(-1), index + np.int32(first)) if first else index


def _latent_cut(spec: ModelSpec, hidden: I32, cols: int) -> LatentCut | None:
    """The cut of latent attention over a region whose rows hold ``hidden``; None where a model has another."""
    if spec.latent is None:
        return None
    return latent_cut(
        hidden,
        cols,
        source=spec.latent.q_rank,
        latent=spec.latent.kv_rank,
        heads=spec.head_count,
        nope=spec.latent.nope_size,
        rope=spec.latent.rope_size,
        value=spec.latent.value_size,
    )


def _mixture(experts: Experts | None, groups: ExpertGroups | None) -> Mixture | None:
    if experts is None or groups is None:
        return None
    return Mixture(count=experts.count, active=experts.active, by_column=groups.experts)


def stages_of(state: State, ops: Sequence[Op]) -> list[int]:
    """The stage that runs each op."""
    apart = [stage for stage, plan in enumerate(state.plans) if plan.experts]
    homes = residual_stages(state, ops)
    return [apart[0] if apart and op.kind in ROUTED else home for op, home in zip(ops, homes, strict=True)]


def residual_stages(state: State, ops: Iterable[Op]) -> list[int]:
    """The stage of each op's layer, where the residual stream is, or that of the embedding or the head."""
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
    """A tile of the first layer, or outside of the layers, as another layer's of that kind."""
    if layer <= 0:
        return replace(tile, stage=stage)
    parts = tuple(replace(part, tensor=name_in_layer(part.tensor, layer)) for part in tile.parts)
    return replace(tile, stage=stage, name=name_in_layer(tile.name, layer), parts=parts)


def prefill_tile_name(tensor: str) -> str:
    """The tile that prefill holds of a tensor where it has weights of its own."""
    return f"prefill.{tensor}"


class Tiling(NamedTuple):
    """The choices that tiles of a region go by, beside its cut.

    Attributes:
        dtype: The type that weights are held in.
        phases: The phases, in whose arrangements tiles are.
        prefill: The product of prefill.
        with_norms: Whether there are those of `norm_products` too.
        scored_on_columns: Whether a router's scores are taken on the columns of its outputs, on one wafer.
    """

    dtype: str
    phases: tuple[str, ...]
    prefill: str
    with_norms: bool
    scored_on_columns: bool


def tiling_of(state: State) -> Tiling:
    """The choices that the tiles of a compilation go by."""
    options, choice = state.options, state.choice
    phases = (*options.phases, *([VERIFY] if options.verify_tokens else []))
    with_norms = state.spec.norm == "layer" and choice.uses(NORM_SCALES)
    return Tiling(options.dtype, phases, choice.prefill, with_norms, choice.always_uses(ROUTER_SCORES))


def op_tiles(spec: ModelSpec, tiling: Tiling, op: Op, cut: RegionCut) -> list[Tile]:
    """The tiles of one op, as of stage 0, in the arrangements of the phases that use them.

    What is outside the layers has but one.
    """
    if op.kind in _OF_EXPERTS:
        on_columns = tiling.scored_on_columns and cut.span == 1
        whole_tiles = expert_tiles(op, cut, spec.hidden_size, scored_on_columns=on_columns)
        return [tile for whole in whole_tiles for tile in coded_tiles(whole, spec, tiling.dtype, op.parts)]
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


_OF_EXPERTS = ("router", *ROUTED)
"""Kinds of ops whose tiles are those of a router or of experts."""

_tiles_without_experts = lru_cache(maxsize=64)(op_tiles)
_expert_tiles = lru_cache(maxsize=6)(op_tiles)
"""Tiles of ops that layers share; an index of all experts for each column of many wafers takes tens of megabytes."""


def _sym_tile(tile: Tile, real_elements: int) -> SymTile:
    """A tile with the buffer that holds it."""
    return SymTile(
        buffer=weights_buffer(tile.stage, tile.name, tile.view, tile.elements), tile=tile, real_elements=real_elements
    )


def weights_buffer(stage: int, name: str, view: str, elements: int) -> SymBuffer:
    """The buffer that holds a tile."""
    return SymBuffer(stage=stage, name=name, use="weights", view=view, elements=elements, permanent=True)
