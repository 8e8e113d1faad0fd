"""Pass 4: lower every op of the graph to symbolic steps, phase by phase.

A phase is a prompt chunk, a decoded token or a verification pass. A step is a kernel on all PEs of
a region, or a transfer. Steps are symbolic until buffers have addresses and routes have colours.
Equivalent layers share the steps of one lowering, so the time of this pass does not grow with the
number of layers.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from wse.compiler import lowering
from wse.compiler.lowering.dispatch import expert_stage
from wse.compiler.lowering.head import last_token
from wse.compiler.lowering.phase.buffers import Buffers, Patterns
from wse.compiler.lowering.phase.builder import PhaseBuilder
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import end_split_block, keeps_input
from wse.compiler.lowering.stage_transfers import return_ids, transfer_inside_layer, transfer_to_stage
from wse.compiler.options import DECODE, MODEL, PREFILL, THIN_GEMM, VERIFY
from wse.compiler.passes.shard import residual_stages
from wse.compiler.rewrites.joined_tasks import joins
from wse.compiler.rewrites.recipes import rewrite
from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymBuffer, SymPhase, SymSteps
from wse.models.graph import ops_in_order
from wse.models.op import Op
from wse.models.spec import Layer
from wse.program.isa.pe_costs import pe_costs
from wse_mappings.cuts.layer_parts import ATTENTION, BLOCK, Parts


def _lowerings() -> dict[str, Callable[[Context, Op], None]]:
    """Return the functions that lower ops to steps, keyed by op kind.

    Every module of `wse.compiler.lowering` may define ``OPS``, a dictionary that maps op kinds to
    functions.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(lowering.__path__))
    modules = [importlib.import_module(f"{lowering.__name__}.{name}") for name in names]
    return {kind: lower for module in modules for kind, lower in getattr(module, "OPS", {}).items()}


LOWER: Final = _lowerings()
"""Lowering function of each kind of op."""


def lower_ops(state: State) -> State:
    """Lower the op graph to the steps of all phases, with their patterns and buffers.

    The pass fills in ``phases``, ``patterns``, ``pattern_calls``, ``sym_buffers`` and, for a whole
    model, ``ids``. Phases that need the same steps, and differ only in the user and the number of
    tokens in the KV cache, are lowered only once.
    """
    buffers, patterns = Buffers(state.weights), Patterns(state.options.cache)
    types = state.options.element_type("act"), state.options.element_type("acc")
    costs = pe_costs(state.wafer, state.software, *types)
    layers: dict[_Demand, _Layers] = {}
    steps: dict[_Demand, SymSteps] = {}
    demands = list(_demands(state))
    for demand in dict.fromkeys(demand for *_, demand in demands):
        context = Context(
            spec=state.spec,
            wafer=state.wafer,
            costs=costs,
            options=state.options,
            choice=state.choice,
            cuts=state.cuts,
            cuts_of_parts=state.cuts_of_parts,
            plans=state.plans,
            builder=PhaseBuilder([plan.rows for plan in state.plans]),
            buffers=buffers,
            patterns=patterns,
            on_mesh=_is_on_mesh(state, demand.name),
            name=demand.name,
            chunk=demand.tokens,
        )
        context.builder.rewrite = partial(rewrite, context)
        context.builder.joins = partial(joins, context)
        lowered_layers = layers.setdefault(demand._replace(last=True), {})  # layers do not depend on ``last``
        steps[demand] = _steps(state, context, lowered_layers, last=demand.last)
    phases = tuple(
        SymPhase(
            name=demand.name,
            tokens=demand.tokens,
            user=user,
            on_mesh=_is_on_mesh(state, demand.name),
            cached=cached,
            steps=steps[demand],
        )
        for user, cached, demand in demands
    )
    buffer_by_name = {(b.stage, b.name): b for b in buffers.values()}
    return replace(
        state,
        phases=phases,
        patterns=tuple(patterns.schedules),
        pattern_calls=tuple(patterns.calls),
        sym_buffers=buffers.values(),
        ids=buffer_by_name[_embedding_stage(state), "token_ids"] if state.options.scope == MODEL else None,
    )


def _is_on_mesh(state: State, phase: str) -> bool:
    """Return whether the tokens of a phase are partitioned across the rows of the mesh."""
    return phase == PREFILL and state.choice.prefill != THIN_GEMM


class _Demand(NamedTuple):
    """Properties of a phase that determine its steps; phases with equal properties share them.

    A phase is a prompt chunk, a decode pass or a verification pass.

    Attributes:
        name: Name of the phase: ``prefill``, ``decode`` or ``verify``.
        tokens: Number of tokens that the phase processes.
        last: Whether the phase also computes the next token, which requires the head. This is false
            only for prompt chunks before the last one.
    """

    name: str
    tokens: int
    last: bool


def _demands(state: State) -> Iterator[tuple[int, int, _Demand]]:
    """Yield the phases of a request that must be compiled, with what determines their steps.

    A phase is a prompt chunk, a decode pass or a verification pass. The order is: the prompt chunks
    of each user, user by user; one decode phase for all users; the verification phase of each user.

    Yields:
        Index of the user (-1 for decode), tokens in the KV cache before a prompt chunk (0 for the
        other phases), and the properties of the phase that determine its steps.
    """
    options, size = state.options, state.choice.prefill_chunk
    if PREFILL in options.phases:
        for user, length in enumerate(options.prompt_tokens):
            for cached in range(options.prefix_tokens, length, size):
                tokens = min(size, length - cached)
                yield user, cached, _Demand(name=PREFILL, tokens=tokens, last=cached + tokens == length)
    if DECODE in options.phases:
        yield -1, 0, _Demand(name=DECODE, tokens=options.batch, last=True)
    for user in range(options.batch if options.verify_tokens else 0):
        yield user, 0, _Demand(name=VERIFY, tokens=options.verify_tokens, last=True)


_Layers = dict[tuple[Layer, int, int, Parts], tuple[Block, dict[SymBuffer, int]]]
"""Lowered layers, kept so that equivalent layers are lowered only once.

Keys are the kind of layer, the rows and columns of its region, and the parts of the layer in the
region. Values are the block of steps and the number of elements that the steps request from each
buffer.
"""


def _steps(state: State, c: Context, lowered_layers: _Layers, *, last: bool) -> SymSteps:
    """Return the steps of one phase: a prompt chunk, a decode pass or a verification pass.

    1. Lower the consecutive ops of each layer on a stage as a group, and ops outside layers
       (embedding, final norm, head) individually.
    2. Before the first op on another stage, add the steps that send the residual stream to that
       stage.
    3. If the phase computes the next token, send its id from the head's stage to the embedding's
       stage.

    Args:
        state: State after placement.
        c: Context of the phase. Its builder collects the steps.
        lowered_layers: Layers that have already been lowered; new ones are added.
        last: Whether the phase also computes the next token.
    """
    rects = tuple(stage.rect for stage in state.stages)
    ops = ops_in_order(state.graph)
    if not last:  # a chunk before the last one needs no logits, so the final norm and the head are omitted
        ops = [op for op in ops if op.layer >= 0 or op.kind == "embedding"]
    previous_stage = 0
    stages = residual_stages(state, ops)
    for _, group in groupby(enumerate(ops), key=lambda item: (*_group_key(item), stages[item[0]])):
        layer = list(group)  # the ops of a layer on one stage, or one op outside of layers
        index, op = layer[0]
        stage = stages[index]
        c.builder.op = index
        if index == 0:
            c.enter_stage(stage)
        if op.kind == "norm" and op.layer < 0:
            last_token(c)
        if stage != previous_stage:  # 2
            if op.parts.first > BLOCK.first or (op.parts.first == BLOCK.first and c.spec.parallel_blocks):
                transfer_inside_layer(c, stage, rects, op)
            else:
                transfer_to_stage(c, stage, rects)
        previous_stage = stage
        if op.layer < 0:  # 1
            LOWER[op.kind](c, op)
        else:
            c.select_heads(windowed=state.spec.layers[op.layer].window is not None)
            _layer(c, [op for _, op in layer], lowered_layers)
            c.select_heads(windowed=False)
            c.enter_stage(stage)
    if last and state.options.scope == MODEL and previous_stage != _embedding_stage(state):  # 3
        return_ids(c, _embedding_stage(state))
    return c.builder.finish()


def _layer(c: Context, ops: list[Op], lowered_layers: _Layers) -> None:
    """Lower the ops of a layer on one stage, or reuse the steps of an equivalent layer.

    1. If the experts of all layers are on a separate stage, lower the layer without reuse, because
       its steps are on two stages.
    2. If an equivalent layer was lowered before, add a run of its block (its list of steps) with
       the buffers of this layer.
    3. Otherwise lower the ops and apply the rewrites of the schedule. Store the block with the
       sizes of the buffers that it requests.

    Args:
        c: Context of the phase, on the stage of the layer.
        ops: Ops of the layer on this stage, in order.
        lowered_layers: Layers that have already been lowered; a new one is added.
    """
    builder, first, layer = c.builder, c.builder.op, ops[0].layer
    layer_key = (c.spec.layers[layer], c.cut.rows, c.cut.cols, Parts(ops[0].parts.first, ops[-1].parts.last))
    if c.spec.layers[layer].experts and expert_stage(c) is not None:  # 1
        for builder.op, op in enumerate(ops, first):
            LOWER[op.kind](c, op)
        if c.spec.parallel_blocks:
            end_split_block(c)
        return
    builder.rewrite_steps()
    builder.close()
    if layer_key in lowered_layers:  # 2
        block, requests = lowered_layers[layer_key]
        builder.add_run(block, builder.stage, first, c.buffers.buffers_of_layer(requests, builder.stage, layer))
        return
    c.buffers.take_requests()  # 3, without the requests of earlier steps
    for index, op in enumerate(ops, first):
        builder.op, c.parts = index, op.parts
        LOWER[op.kind](c, op)
    if keeps_input(c) and c.parts.last == BLOCK.last:
        end_split_block(c)
    builder.rewrite_steps()
    c.parts = ATTENTION
    requests = c.buffers.take_requests()
    block = builder.close(requests)
    lowered_layers[layer_key] = block, {buffer: requests.get(buffer, 0) for buffer in block.buffers}


def _group_key(item: tuple[int, Op]) -> tuple[int, ...]:
    """Return a key that is the same for all ops of one layer, by which ops are grouped.

    Each op outside layers has a key of its own, so it is lowered separately.

    Args:
        item: Index of the op, and the op.
    """
    index, op = item
    return (op.layer,) if op.layer >= 0 else (-1, index)


def _embedding_stage(state: State) -> int:
    """Return the index of the stage that stores the embedding table."""
    return next(i for i, plan in enumerate(state.plans) if plan.has_embedding)
