"""Checks of the compiler state after each pass. A violation is a bug in the pass."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from wse.compiler.options import MODEL, THIN_GEMM, unsupported_on_mesh
from wse.compiler.passes.lifetimes import live_steps, may_coincide, replacing_steps, steps_before
from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymAddress, SymPhase, distinct_phases
from wse.errors import WseBug
from wse.program.isa.instructions import KERNELS
from wse.program.stage import Buffer
from wse.program.steps import StepKind
from wse.program.transfers.transfer_types import TRANSFERS


def check(state: State, pass_name: str) -> None:
    """Check that the compiler state satisfies the invariants of the most recent pass.

    Args:
        state: Compilation state.
        pass_name: Name of the most recent pass. Passes without invariants are not checked.

    Raises:
        WseBug: An invariant is violated.
    """
    problem = _CHECKS[pass_name](state) if pass_name in _CHECKS else None
    if problem:
        raise WseBug(f"after {pass_name}: {problem}")


def _partition(state: State) -> str | None:
    """Check the division of the op graph into stages; return an error message or None.

    A stage is the part of the model that one region of PEs stores and runs.

    1. Every op comes after the ops whose results it reads.
    2. Every layer of the model is stored on a stage.
    3. Exactly one stage has the embedding, and exactly one has the head. If the request omits both
       because it compiles only part of a model, no stage has them.
    """
    place = {name: i for i, name in enumerate(state.graph)}
    if any(place[source] >= place[target] for source, target in state.graph.edges):
        return "ops are not in topological order"
    layers = sorted({layer for plan in state.plans for layer, _ in plan.layers.parts})
    if layers != list(range(state.spec.layer_count)):
        return f"stages hold layers {layers}"
    ends = int(state.options.scope == MODEL)
    if sum(p.has_embedding for p in state.plans) != ends or sum(p.has_head for p in state.plans) != ends:
        return f"not exactly {ends} embedding and {ends} head"
    return None


def _place(state: State) -> str | None:
    """Return an error message if a region leaves the mesh or two regions overlap; None otherwise.

    The stage that stores the experts of all layers may overlap other stages, because it uses
    different SRAM addresses of the same PEs.
    """
    for i, a in enumerate(state.stages):
        if a.rect.row + a.rect.rows > state.wafer.mesh_rows or a.rect.col + a.rect.cols > state.wafer.mesh_cols:
            return f"stage {i} leaves the mesh: {a.rect}"
        for j, b in enumerate(state.stages[i + 1 :], start=i + 1):
            disjoint = (
                state.plans[i].experts != state.plans[j].experts  # same PEs, other addresses: see _expert_stage_fault
                or not set(a.wafers) & set(b.wafers)
                or a.rect.row + a.rect.rows <= b.rect.row
                or b.rect.row + b.rect.rows <= a.rect.row
                or a.rect.col + a.rect.cols <= b.rect.col
                or b.rect.col + b.rect.cols <= a.rect.col
            )
            if not disjoint:
                return f"regions {a.rect} and {b.rect} overlap"
    return None


def _shard(state: State) -> str | None:
    """Return an error message if prefill by MeshGEMM is impossible on the regions; None otherwise.

    MeshGEMM is a distributed matrix product for many tokens. It does not support some models. It
    needs square regions of PEs of equal size, and prompt chunks whose token count is a multiple of
    the region's row count. A prompt that fits in one chunk is exempt from the last condition.
    """
    choice = state.choice
    if choice.prefill == THIN_GEMM:
        return None
    unsupported_property = unsupported_on_mesh(state.spec, state.options)
    if unsupported_property:
        return f"{choice.prefill} does not support {unsupported_property}"
    for cut in state.cuts:
        if cut.rows != cut.cols or cut.rows != state.cuts[0].rows:
            first = f"{state.cuts[0].rows}x{state.cuts[0].cols}"
            size = f"{cut.rows}x{cut.cols}"
            return f"{choice.prefill} needs square regions of equal size, but one is {size} and the first is {first}"
        if choice.prefill_chunk % cut.rows and choice.prefill_chunk < max(state.options.unread_tokens):
            return f"chunks of {choice.prefill_chunk} tokens do not divide evenly over {cut.rows} rows"
    return None


def _lower_ops(state: State) -> str | None:
    """Check the lowered steps; return an error message, or None if they are valid.

    1. Equivalent layers share one list of steps (a block), which each of them runs on its own
       buffers. Corresponding buffers of these layers must be read with the same element type
       (``view``).
    2. The steps of a loop must be consecutive (`_loops`).
    3. No step may read or write another user's data (`_users`).
    """
    for number in distinct_phases(state.phases):
        phase = state.phases[number]
        for run in phase.steps.runs:  # 1
            if [buffer.view for buffer in run.buffers] != [buffer.view for buffer in run.block.buffers]:
                return f"steps of phase {number} run on stage {run.stage} with buffers of other views"
        for block in phase.steps.blocks:
            problem = _loops(block, number) or _users(state, phase, block)  # 2, 3
            if problem:
                return problem
    return None


def _loops(block: Block, phase: int) -> str | None:
    """Check the loops in a list of steps (a block); return an error message or None.

    1. The steps of a loop are consecutive, and the loop has at least one iteration.
    2. If an operand alternates between two buffers from one iteration to the next, both buffers are
       read with the same element type (``view``).
    """
    steps_of_loop: dict[int, list[int]] = defaultdict(list)
    for index, step in enumerate(block.steps):
        steps_of_loop[step.loop].append(index)
    for loop, (first, end, iterations) in enumerate(block.loops):
        loop_steps = steps_of_loop[loop]
        if loop_steps != list(range(first, end)) or iterations < 1:
            return f"loop {loop} of phase {phase} runs steps {loop_steps[:1]} to {loop_steps[-1:]}, {iterations} times"
    for step in block.steps:
        for operand in step.operands.values():
            if (
                isinstance(operand, SymAddress)
                and operand.odd_round_buffer
                and operand.odd_round_buffer.view != operand.buffer.view
            ):
                return f"{operand.buffer.name} and its buffer for odd rounds differ in view"
    return None


def _users(state: State, phase: SymPhase, block: Block) -> str | None:
    """Check that no step can access another user's data; return an error message or None.

    Kernels and transfers that depend on per-user counters, such as the KV-cache length, read the
    counters of the current user.

    - In decode, a loop over users sets the current user in each iteration. Such a step must
      therefore be inside a loop over users.
    - In prefill and verification, the whole phase belongs to one user, and the address of a step
      selects the user's KV cache. Inside a loop, the address would select another user's cache, so
      a step in a loop must not use a KV cache.

    With a single user there is nothing to check.
    """
    if state.options.batch == 1:
        return None
    for step in block.steps:
        computes = step.kind == StepKind.COMPUTE
        counts = KERNELS[step.code].counters if computes else TRANSFERS[step.code].by_counters
        if counts and phase.user < 0 and step.loop not in block.over_users:
            name = KERNELS[step.code].name if computes else TRANSFERS[step.code].name
            return f"{name} of decode depends on the counters of one user outside of a loop over the users"
        for buffer in step.buffers:
            if buffer.use in ("kv", "state") and phase.user >= 0 and step.loop >= 0:
                return f"{buffer.name} of one user is used in a loop of prefill; use a copy of it there"
    return None


def _route(state: State) -> str | None:
    """Return an error message if a pattern is assigned colours that the wafer does not have.

    A colour is a number that a word can carry, and for which each router has a route. A wafer has a
    fixed number of colours, some of which are reserved. Return None if all assigned colours are
    available.
    """
    available = state.wafer.colours - state.wafer.reserved_colours
    for use in state.colour_uses:
        if use.first < 0 or use.first + use.colours > available:
            return f"{use.pattern} of stage {use.stage} has colours {use.first} to {use.first + use.colours - 1}"
    return None


def _allocate(state: State) -> str | None:
    """Return an error message if two live buffers overlap in SRAM; None otherwise.

    Two buffers that start at the same address may be live in the same step if that step overwrites
    one with the other.
    """
    problem = _expert_stage_fault(state)
    if problem:
        return problem
    begins = steps_before(state.phases)
    replacements = {
        ((source.stage, source.name), (target.stage, target.name)): steps
        for (source, target), steps in replacing_steps(state).items()
    }
    buffers_of_stage: list[list[tuple[Buffer, int]]] = [[] for _ in state.stages]
    for buffer in sorted(state.buffers, key=lambda buffer: buffer.address):
        if buffer.bytes:
            buffers_of_stage[buffer.stage].append((buffer, live_steps(buffer.live, begins)))
    for stage, buffers in enumerate(buffers_of_stage):
        for i, (a, live_a) in enumerate(buffers):
            for b, live_b in islice(buffers, i + 1, None):
                if b.address >= a.address + a.bytes:
                    break
                names = (stage, a.name), (stage, b.name)
                at_one_place = a.address == b.address and may_coincide(*names, live_a, live_b, replacements)
                if not a.live or not b.live or (live_a & live_b and not at_one_place):
                    return f"{a.name} and {b.name} of stage {stage} overlap while both are live"
    return None


def _expert_stage_fault(state: State) -> str | None:
    """Return an error message if the expert stage overlaps another stage in SRAM.

    The expert stage stores the experts of all layers on the PEs of all other stages. Its addresses
    must therefore start after the addresses of the layers. Return None if they do.
    """
    tops = [stage.sram_top_byte for stage, plan in zip(state.stages, state.plans, strict=True) if not plan.experts]
    for stage, plan in zip(state.stages, state.plans, strict=True):
        if plan.experts and stage.sram_base_byte < max(tops):
            return f"experts start at byte {stage.sram_base_byte}, before the end of a stage of layers, {max(tops)}"
    return None


def _emit(state: State) -> str | None:
    """Check the compiled Program; return an error message, or None if it is valid.

    1. The compiler pass ``emit`` has created a Program.
    2. No buffer ends after the last byte of the SRAM range of its stage.
    """
    program = state.program
    if program is None:
        return "there is no Program"
    for buffer in program.buffers:
        if buffer.address + buffer.bytes > program.stages[buffer.stage].sram_top_byte:
            return f"{buffer.name} of stage {buffer.stage} ends after the last byte of the stage"
    return None


_CHECKS = {
    "partition": _partition,
    "shard": _shard,
    "place": _place,
    "lower_ops": _lower_ops,
    "route": _route,
    "allocate": _allocate,
    "emit": _emit,
}
