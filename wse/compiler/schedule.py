"""Pass 4: every op lowered to symbolic steps, phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.compiler.lower import latent
from wse.compiler.lower.attention import attention, output, qkv
from wse.compiler.lower.builder import Buffers, Patterns, PhaseBuilder
from wse.compiler.lower.context import Context
from wse.compiler.lower.embedding import embedding
from wse.compiler.lower.feed_forward import down, gate_up
from wse.compiler.lower.hand_over import hand_over, return_ids
from wse.compiler.lower.head import head, last_token
from wse.compiler.lower.norm import norm, post_norm
from wse.compiler.lower.product import product
from wse.compiler.options import DECODE, MODEL, PREFILL, THIN_GEMM
from wse.compiler.shard import stage_of
from wse.compiler.state import State, SymPhase
from wse.graph import Op, ops_in_order

LOWER: Final[dict[str, Callable[[Context, Op], None]]] = {
    "embedding": embedding,
    "norm": norm,
    "post_norm": post_norm,
    "qkv": qkv,
    "attention": attention,
    "output": output,
    "gate_up": gate_up,
    "down": down,
    "head": head,
    "product": product,
    "latent_compress": latent.compress,
    "latent_norm": latent.norm_latent,
    "latent_query": latent.query,
    "latent_attention": latent.attention,
    "latent_output": latent.output,
}
"""The lowering of each op kind."""


def schedule(state: State) -> State:
    """Fill ``phases``, ``patterns``, ``sym_buffers`` and, of a whole model, ``ids``."""
    assert state.shard is not None
    buffers, patterns = Buffers(), Patterns()
    tiles = {(t.tile.stage, t.tile.name): t.buffer for t in state.tiles}
    size = state.choice.prefill_chunk
    wanted = state.options.phases
    starts = [*range(0, state.options.prompt_tokens, size)] if PREFILL in wanted else []
    phases: list[SymPhase] = []
    for start in (*starts, *([None] if DECODE in wanted else [])):
        decoding = start is None
        cached = 0 if start is None else start
        chunk = 1 if start is None else min(size, state.options.prompt_tokens - start)
        if 0 < cached < state.options.prompt_tokens - size:  # as the first, but for what is in the cache
            phases.append(replace(phases[0], cached=cached))
            continue
        context = Context(
            spec=state.spec,
            options=state.options,
            choice=state.choice,
            cut=state.shard,
            plans=state.plans,
            builder=PhaseBuilder(state.shard.rows, state.shard.cols),
            buffers=buffers,
            patterns=patterns,
            tiles=tiles,
            on_mesh=not decoding and state.choice.prefill != THIN_GEMM,
            decoding=decoding,
            chunk=chunk,
            cached=cached,
            last=decoding or cached + chunk == state.options.prompt_tokens,
        )
        phases.append(_phase(state, context, DECODE if decoding else PREFILL))
    named = {(b.stage, b.name): b for b in buffers.all()}
    return replace(
        state,
        phases=tuple(phases),
        patterns=tuple(patterns.schedules),
        sym_buffers=buffers.all(),
        ids=named[_embedding_stage(state), "token_ids"] if state.options.scope == MODEL else None,
    )


def _phase(state: State, c: Context, name: str) -> SymPhase:
    rects = tuple(stage.rect for stage in state.stages)
    ops = ops_in_order(state.graph)
    if not c.last:
        ops = [op for op in ops if op.layer >= 0 or op.kind == "embedding"]
    previous, on_mesh = 0, c.on_mesh
    for index, op in enumerate(ops):
        stage = stage_of(state, op)
        c.builder.op = index
        if index == 0:
            c.enter_stage(stage)
        if op.kind == "norm" and op.layer < 0:
            last_token(c)
        if stage != previous:
            hand_over(c, stage, rects)
        previous = stage
        LOWER[op.kind](c, op)
    if c.last and state.options.scope == MODEL and previous != _embedding_stage(state):
        return_ids(c, _embedding_stage(state))
    return c.builder.phase(name, c.chunk, c.cached, on_mesh=on_mesh)


def _embedding_stage(state: State) -> int:
    return next(i for i, plan in enumerate(state.plans) if plan.has_embedding)
