"""Pass 2: the share of every tensor that each PE holds, padded up so that all PEs of a region are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from wse.arrays import I32
from wse.compiler.options import DECODE, LAYERS, MESH_GEMM_OWN, NORM_SCALES, PREFILL, PRODUCT, VERIFY
from wse.compiler.passes.contraction import EXPERTS, FFN, HIDDEN, SHARED, Held
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
from wse.models.graph import Op, named_in, ops_in_order
from wse.models.spec import Experts, ModelSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.mixture import Mixture
from wse.program.program import Tile
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.expert_groups import ExpertGroups, columns_of_expert, expert_groups
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.split import blocks, padded_blocks


def shard(state: State) -> State:
    """Fill ``cuts`` and ``tiles``."""
    cuts = cuts_of(state)
    tiles = [_sym_tile(_in_layer(tile, op.layer, stage), real) for op, stage, tile, real in tiles_of(state, cuts)]
    return replace(state, cuts=cuts, tiles=(*tiles, *tables_of(state, cuts)))


def cuts_of(state: State) -> tuple[RegionCut, ...]:
    """Cuts of extents over the region of each stage."""
    options, apart = state.options, state.has_expert_stage
    shape = replace(state.spec, layers=())  # of any layers, so that models in small share their cuts
    held = Held(dtype=options.dtype, float_bytes=ELEMENT_BYTES[options.activation_type])
    placements = [options.experts if plan.experts or not apart else None for plan in state.plans]
    return tuple(
        _cut(shape, held, options.scope, experts, plan.rows, plan.cols, plan.span, apart=apart)
        for plan, experts in zip(state.plans, placements, strict=True)
    )


def tiles_of(state: State, cuts: Sequence[RegionCut]) -> Iterator[tuple[Op, int, Tile, int]]:
    """Each tile of the tensors once: its op and stage, itself as of stage 0 and the first layer, its real elements."""
    shape, options = replace(state.spec, layers=()), state.options
    phases = (*options.phases, *([VERIFY] if options.verify_tokens else []))
    with_norms = state.spec.norm == "layer" and state.choice.uses(NORM_SCALES)
    names: set[tuple[int, str]] = set()
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        first = op.in_layer(0)  # layers of one kind differ in names alone
        sized_tiles = (
            _expert_tiles(shape, options.dtype, first, cuts[stage])
            if op.kind in ("router", *ROUTED)
            else _op_tiles(shape, options.dtype, phases, state.choice.prefill, first, cuts[stage], with_norms)
        )
        for tile, real in sized_tiles:
            key = (stage, named_in(tile.name, op.layer))
            if key not in names:
                names.add(key)
                yield op, stage, tile, real


def tables_of(state: State, cuts: Sequence[RegionCut]) -> list[SymTile]:
    """The tiles of what is worked out before a run: frequencies of rotary pairs, and tables of latent attention."""
    tiles = []
    for stage, (plan, cut) in enumerate(zip(state.plans, cuts, strict=True)):
        tables = latent_tables(cut) if plan.last_layer > plan.first_layer else []
        rotates = any(layer.rotary for layer in state.spec.layers[plan.first_layer : plan.last_layer])
        if rotates and cut.heads.rotated and state.options.scope != PRODUCT:
            tables = [frequency_table(cut), *tables]
        tiles += [_sym_tile(replace(tile, stage=stage), tile.real_elements(cut.rows, cut.cols)) for tile in tables]
    return tiles


@lru_cache(maxsize=8)
def _cut(
    spec: ModelSpec,
    held: Held,
    scope: str,
    experts: str | None,
    rows: int,
    cols_of_wafer: int,
    span: int,
    *,
    apart: bool,
) -> RegionCut:
    """The cut over a region of that shape on each of ``span`` wafers, with experts placed so or without any.

    ``apart``: each wafer has experts of its own.
    """
    cols = cols_of_wafer * span
    hidden_group = held.group_of_cut(spec, HIDDEN, rows)
    hidden = blocks(spec.hidden_size, rows, hidden_group)
    mixture, groups = spec.experts, None
    if mixture is not None and experts is not None:
        stretches = span if apart else 1
        placed = cols, mixture.count, held.expert_placement(spec, experts, cols, stretches), stretches
        features = held.group_of_cut(spec, EXPERTS, columns_of_expert(*placed))
        groups = expert_groups(cols, mixture.count, mixture.ffn_size, *placed[2:], feature_group=features)
    rotary_size = 0 if spec.rope is None else 2 * len(spec.rope.frequencies)
    whole_pairs = scope != LAYERS
    if spec.latent is not None:
        heads = head_groups(cols, spec.kv_head_count, spec.latent.rope_size, rotary_size, stretches=span)
    elif span == 1:
        heads = head_groups(cols, spec.kv_head_count, spec.head_size, rotary_size, whole_pairs=whole_pairs)
    else:
        sizes = (spec.kv_head_count, spec.queries_per_kv, spec.head_size, rotary_size)
        heads = head_groups_of_wafers(cols, *sizes, stretches=span, whole_pairs=whole_pairs)
    none = np.empty((cols, 0), np.int32)
    return RegionCut(
        rows=rows,
        cols=cols,
        span=span,
        hidden=hidden,
        hidden_group=hidden_group,
        ffn=blocks(spec.ffn_size, cols, held.group_of_cut(spec, FFN, cols)),
        vocab=padded_blocks(spec.vocab_size, cols),
        positions=padded_blocks(spec.learned_positions, cols),
        heads=heads,
        queries=none if spec.latent is not None else heads.rows(spec.head_size, spec.queries_per_kv),
        keys=none if spec.latent is not None else heads.rows(spec.head_size, 1),
        latent=_latent_cut(spec, hidden, cols),
        router=padded_blocks(mixture.count if mixture else 0, cols),
        experts=groups,
        mixture=_mixture(mixture, groups),
        shared=blocks(mixture.shared_size if mixture else 0, cols, held.group_of_cut(spec, SHARED, cols)),
    )


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
    homes = homes_of(state, ops)
    return [apart[0] if apart and op.kind in ROUTED else home for op, home in zip(ops, homes, strict=True)]


def homes_of(state: State, ops: Iterable[Op]) -> list[int]:
    """The stage of each op's layer, where the residual stream is, or that of the embedding or the head."""
    layers = [stage for stage, plan in enumerate(state.plans) for _ in range(plan.first_layer, plan.last_layer)]
    embedding = [stage for stage, plan in enumerate(state.plans) if plan.has_embedding]
    head = [stage for stage, plan in enumerate(state.plans) if plan.has_head]
    return [layers[op.layer] if op.layer >= 0 else (embedding if op.kind == "embedding" else head)[0] for op in ops]


def _in_layer(tile: Tile, layer: int, stage: int) -> Tile:
    """A tile of the first layer, or outside of the layers, as another layer's of that kind."""
    if layer <= 0:
        return replace(tile, stage=stage)
    parts = tuple(replace(part, tensor=named_in(part.tensor, layer)) for part in tile.parts)
    return replace(tile, stage=stage, name=named_in(tile.name, layer), parts=parts)


def own_name(tensor: str) -> str:
    """The tile that prefill holds of a tensor where it has weights of its own."""
    return f"prefill.{tensor}"


@lru_cache(maxsize=64)
def _op_tiles(
    spec: ModelSpec,
    dtype: str,
    phases: tuple[str, ...],
    prefill: str,
    op: Op,
    cut: RegionCut,
    with_norms: bool,  # noqa: FBT001
) -> list[tuple[Tile, int]]:
    """The tiles of one op without experts, as of stage 0, and their elements on all PEs that are no padding.

    They are in the arrangements of the phases that use them. What is outside the layers has but one. ``with_norms``:
    those of `norm_products` too.
    """
    tiles = column_vectors(op, cut, spec)
    twice = op.layer >= 0 and prefill == MESH_GEMM_OWN
    if not twice or {DECODE, VERIFY} & {*phases}:
        tiles += [tile for whole in tiles_in_place(op, cut) for tile in coded_tiles(whole, spec, dtype)]
        tiles += hidden_vectors(op, cut, COLUMNS)
        tiles += norm_products(op, cut, spec) if with_norms else []
    if twice and PREFILL in phases:
        own = skewed_tiles(op, cut) + hidden_vectors(op, cut, ROWS)
        tiles += [replace(tile, name=own_name(tile.name)) for tile in own]
    return _with_real_elements(tiles, cut)


@lru_cache(maxsize=6)  # an index of all experts for each column of many wafers takes tens of megabytes
def _expert_tiles(spec: ModelSpec, dtype: str, op: Op, cut: RegionCut) -> list[tuple[Tile, int]]:
    """The tiles of a router or of experts, as of stage 0, and their elements on all PEs that are no padding."""
    whole_tiles = expert_tiles(op, cut, spec.hidden_size)
    tiles = [tile for whole in whole_tiles for tile in coded_tiles(whole, spec, dtype)]
    return _with_real_elements(tiles, cut)


def _with_real_elements(tiles: Sequence[Tile], cut: RegionCut) -> list[tuple[Tile, int]]:
    return [(tile, tile.real_elements(cut.rows, cut.cols)) for tile in tiles]


def _sym_tile(tile: Tile, real_elements: int) -> SymTile:
    """A tile with the buffer that holds it."""
    buffer = SymBuffer(
        stage=tile.stage, name=tile.name, use="weights", view=tile.view, elements=tile.elements, permanent=True
    )
    return SymTile(buffer=buffer, tile=tile, real_elements=real_elements)
