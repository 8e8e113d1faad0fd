"""Pass 2: the share of every tensor that each PE holds, padded up so that all PEs of a region are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from wse.compiler.options import DECODE, LAYERS, MESH_GEMM_OWN, PREFILL, PRODUCT
from wse.compiler.passes.expert_tiles import expert_tiles
from wse.compiler.passes.quantised_tiles import held
from wse.compiler.passes.shard_latent import cut_latent, latent_tiles, tables
from wse.compiler.passes.vector_tiles import column_vectors, hidden_vectors
from wse.compiler.state import Shard, State, SymBuffer, SymTile
from wse.errors import WseBug
from wse.models.graph import Op, named_in, ops_in_order
from wse.models.spec import Experts, ModelSpec
from wse.program.mixture import Mixture
from wse.program.program import Tile, TilePart
from wse.program.steps import COLUMNS, I32, ROWS, SKEWED
from wse_mappings.cuts.expert_groups import ExpertGroups, expert_groups
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.split import padded_blocks


def shard(state: State) -> State:
    """Fill ``shards`` and ``tiles``."""
    cuts = cuts_of(state)
    tiles = []
    for op, stage, like, real in wanted(state, cuts):
        tile = _in_layer(like, op.layer, stage)
        elements = tile.elements
        buffer = SymBuffer(stage=stage, name=tile.name, use="weights", view=tile.view, elements=elements, kept=True)
        tiles.append(SymTile(buffer=buffer, tile=tile, real_elements=real))
    return replace(state, shards=cuts, tiles=(*tiles, *tables_of(state, cuts)))


def cuts_of(state: State) -> tuple[Shard, ...]:
    """How extents are cut on each stage."""
    options, apart = state.options, state.experts_apart
    shape = replace(state.spec, layers=())  # of any layers, so that models in small share their cuts
    placements = [options.experts if plan.experts or not apart else None for plan in state.plans]
    return tuple(
        _cut(shape, options.scope, experts, plan.rows, plan.cols, plan.span, apart=apart)
        for plan, experts in zip(state.plans, placements, strict=True)
    )


def wanted(state: State, cuts: Sequence[Shard]) -> Iterator[tuple[Op, int, Tile, int]]:
    """Each tile of the tensors once: its op and stage, itself as of stage 0 and the first layer, its real elements."""
    shape, options = replace(state.spec, layers=()), state.options
    seen: set[tuple[int, str]] = set()
    ops = ops_in_order(state.graph)
    for op, stage in zip(ops, stages_of(state, ops), strict=True):
        first = op.in_layer(0)  # layers of one kind differ in names alone
        for like, real in _wanted(shape, options.dtype, options.phases, state.choice.prefill, first, cuts[stage]):
            key = (stage, named_in(like.name, op.layer))
            if key not in seen:
                seen.add(key)
                yield op, stage, like, real


def tables_of(state: State, cuts: Sequence[Shard]) -> list[SymTile]:
    """The tiles of what is worked out before a run."""
    tiles = []
    for stage, (plan, cut) in enumerate(zip(state.plans, cuts, strict=True)):
        rotates = any(layer.rotary for layer in state.spec.layers[plan.first_layer : plan.last_layer])
        if rotates and cut.heads.rotated and state.options.scope != PRODUCT:
            tiles.append(_frequencies(cut, stage))
        if plan.last_layer > plan.first_layer:
            tiles += tables(cut, stage)
    return tiles


@lru_cache(maxsize=4)
def _cut(
    spec: ModelSpec, scope: str, experts: str | None, rows: int, cols_of_wafer: int, span: int, *, apart: bool
) -> Shard:
    """The cut over a region of that shape on each of ``span`` wafers, with experts placed so or without any.

    ``apart``: each wafer has experts of its own.
    """
    cols = cols_of_wafer * span
    mixture, groups = spec.experts, None
    if mixture is not None and experts is not None:
        groups = expert_groups(cols, mixture.count, mixture.ffn_size, experts, span if apart else 1)
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
    return Shard(
        rows=rows,
        cols=cols,
        span=span,
        hidden=padded_blocks(spec.hidden_size, rows),
        ffn=padded_blocks(spec.ffn_size, cols),
        vocab=padded_blocks(spec.vocab_size, cols),
        positions=padded_blocks(spec.learned_positions, cols),
        heads=heads,
        queries=none if spec.latent is not None else heads.rows(spec.head_size, spec.queries_per_kv),
        keys=none if spec.latent is not None else heads.rows(spec.head_size, 1),
        latent=cut_latent(spec, rows, cols),
        router=padded_blocks(mixture.count if mixture else 0, cols),
        experts=groups,
        mixture=_mixture(mixture, groups),
        shared=padded_blocks(mixture.shared_size if mixture else 0, cols),
    )


def _mixture(experts: Experts | None, groups: ExpertGroups | None) -> Mixture | None:
    if experts is None or groups is None:
        return None
    return Mixture(count=experts.count, active=experts.active, by_column=groups.experts)


def stages_of(state: State, ops: Sequence[Op]) -> list[int]:
    """The stage that runs each op."""
    apart = [stage for stage, plan in enumerate(state.plans) if plan.experts]
    homes = homes_of(state, ops)
    return [apart[0] if apart and op.kind in EXPERTS else home for op, home in zip(ops, homes, strict=True)]


def homes_of(state: State, ops: Iterable[Op]) -> list[int]:
    """The stage of each op's layer, where the residual stream is, or that of the embedding or the head."""
    layers = [stage for stage, plan in enumerate(state.plans) for _ in range(plan.first_layer, plan.last_layer)]
    embedding = [stage for stage, plan in enumerate(state.plans) if plan.has_embedding]
    head = [stage for stage, plan in enumerate(state.plans) if plan.has_head]
    return [layers[op.layer] if op.layer >= 0 else (embedding if op.kind == "embedding" else head)[0] for op in ops]


EXPERTS = ("experts", "experts_down")
"""Kinds of the ops that work with the weights of experts."""


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
def _wanted(
    spec: ModelSpec, dtype: str, phases: tuple[str, ...], prefill: str, op: Op, cut: Shard
) -> list[tuple[Tile, int]]:
    """The tiles of one op, as of stage 0, and their elements on all PEs that are no padding.

    They are in the arrangements of the phases that use them. What is outside the layers has but one.
    """
    if op.kind in ("router", *EXPERTS):
        tiles = [tile for whole in expert_tiles(spec, op, cut, 0) for tile in held(whole, dtype)]
    else:
        tiles = column_vectors(op, cut, spec, 0)
        apart = op.layer >= 0 and prefill == MESH_GEMM_OWN
        if not apart or DECODE in phases:
            tiles += [tile for whole in _tiles(op, cut, 0) for tile in held(whole, dtype)]
            tiles += hidden_vectors(op, cut, 0, COLUMNS)
        if apart and PREFILL in phases:
            tiles += _own_tiles(op, cut, 0)
            tiles += [replace(tile, name=own_name(tile.name)) for tile in hidden_vectors(op, cut, 0, ROWS)]
    return [(tile, tile.real_elements(cut.rows, cut.cols)) for tile in tiles]


def _own_tiles(op: Op, cut: Shard, stage: int) -> list[Tile]:
    """MeshGEMM's tiles, one for each tensor: contraction skewed, outputs and gains cut over columns."""
    match op.kind:
        case "norm" | "post_norm":
            contraction, outputs = None, [cut.hidden]
        case "qkv":
            contraction, outputs = cut.hidden, [cut.queries, cut.keys, cut.keys]
        case "output":
            contraction, outputs = cut.queries, [cut.hidden]
        case "product":
            contraction, outputs = cut.hidden, [cut.ffn]
        case "gate_up":
            contraction, outputs = cut.hidden, [cut.ffn] * len(op.weights)
        case "down":
            contraction, outputs = cut.ffn, [cut.hidden]
        case "attention":
            return []
        case _:
            raise _unknown(op)
    outer = None if contraction is None else (contraction, SKEWED)
    return [
        replace(_tile((tensor,), stage, outer, [(output, ROWS)], transposed=outer is not None), name=own_name(tensor))
        for tensor, output in zip(op.weights, outputs, strict=True)
    ]


def _unknown(op: Op) -> WseBug:
    return WseBug(f"no tiles are known for ops of kind {op.kind}")


def _tiles(op: Op, cut: Shard, stage: int) -> list[Tile]:
    """The tiles that decode and the products in place use."""
    by_row, by_col = (cut.hidden, COLUMNS), (cut.feed_forward(op.kind), ROWS)
    match op.kind:
        case "embedding" | "head":
            table = _tile(op.weights[:1], stage, (cut.vocab, ROWS), [by_row], transposed=False)
            rest = [_tile((name,), stage, (cut.positions, ROWS), [by_row], transposed=False) for name in op.weights[1:]]
            return [table, *rest]
        case "norm" | "post_norm":
            return [_tile(op.weights, stage, None, [by_row], transposed=False)]
        case "qkv":
            return [
                _tile(
                    op.weights,
                    stage,
                    by_row,
                    [(cut.queries, ROWS), (cut.keys, ROWS), (cut.keys, ROWS)],
                    transposed=True,
                )
            ]
        case "output":
            return [_tile(op.weights, stage, (cut.queries, ROWS), [by_row], transposed=True)]
        case "gate_up" | "shared_gate_up":
            return [_tile(op.weights, stage, by_row, [by_col] * len(op.weights), transposed=True)]
        case "down" | "shared_down":
            return [_tile(op.weights, stage, by_col, [by_row], transposed=True)]
        case "product":
            return [_tile(op.weights, stage, by_row, [by_col], transposed=True)]
        case "attention":
            return []
        case _ if cut.latent is not None:
            return [
                _tile(tile.tensors, stage, tile.outer, list(tile.inners), transposed=tile.transposed)
                for tile in latent_tiles(op, cut)
            ]
        case _:
            raise _unknown(op)


def _tile(
    tensors: tuple[str, ...],
    stage: int,
    outer: tuple[I32, int] | None,
    inners: list[tuple[I32, int]],
    *,
    transposed: bool,
) -> Tile:
    """A tile ``[outer, sum of inners]``; an index of axis ROWS varies along rows, COLUMNS down columns, SKEWED both."""
    parts = tuple(
        TilePart(
            tensor=tensor,
            outer=None if outer is None else outer[0],
            outer_axis=ROWS if outer is None else outer[1],
            inner=inner,
            inner_axis=axis,
            transposed=transposed,
        )
        for tensor, (inner, axis) in zip(tensors, inners, strict=True)
    )
    return Tile(
        stage=stage,
        name=tensors[0] if len(tensors) == 1 else "+".join(tensors),
        address=-1,
        view="wgt",
        outer=1 if outer is None else outer[0].shape[1],
        inner=sum(part.inner.shape[1] for part in parts),
        parts=parts,
    )


def _frequencies(cut: Shard, stage: int) -> SymTile:
    """Inverse frequencies of the rotary pairs that a column holds, float32."""
    half = cut.heads.rotated // 2
    part = TilePart(
        tensor="rotary_frequencies",
        outer=None,
        outer_axis=ROWS,
        inner=np.ascontiguousarray(cut.heads.features[:, :half]),
        inner_axis=ROWS,
        transposed=False,
    )
    tile = Tile(stage=stage, name="rotary_frequencies", address=-1, view="f32", outer=1, inner=half, parts=(part,))
    buffer = SymBuffer(stage=stage, name=tile.name, use="weights", view="f32", elements=half, kept=True)
    return SymTile(buffer=buffer, tile=tile, real_elements=tile.real_elements(cut.rows, cut.cols))
