"""Pass 7: turn symbolic steps and buffers into the frozen arrays of a Program.

Lowering creates one list of symbolic steps per block. At this point, addresses and colours are
known, so every run of a block becomes rows of integer arrays, with addresses as operands.

All layers of the same kind run one block. Their steps differ only in stage, indices and addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, Final

import numpy as np

from wse.arrays import I32, I64
from wse.compiler.options import PREFILL
from wse.compiler.passes.shard import stages_of
from wse.compiler.state import State
from wse.compiler.symbolic import Block, BlockRun, SymAddress, SymBuffer, SymPhase, SymSteps
from wse.models.graph import ops_in_order
from wse.program.isa.operands import VIEWS
from wse.program.program import Program
from wse.program.stage import Buffer, Stage
from wse.program.steps import OPERAND_COUNT, Phase, Steps
from wse.program.tiles import Tile
from wse_mappings.patterns.k_tree import root_of

NUMBERS: Final = ("kind", "code", "pattern", "axis", "view", "op", "loop", "overlap")
"""Integer fields of `SymStep` that become an array of the same name in `Steps`."""
FLAGS: Final = ("depends_on_experts", "runs_in_previous_task", "over_heads", "in_chain")
"""Boolean fields of `SymStep` that become an array of the same name in `Steps`."""

_flags_of = attrgetter(*FLAGS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockArrays:
    """Steps of a block as arrays, with addresses relative to the start of each buffer.

    A block is a list of steps that all layers of the same kind run, each on its own buffers.
    `arrays_of_run` adds the buffer addresses of one layer.

    Attributes:
        fields: Arrays by field name of `wse.program.steps.Steps`: int32 ``[steps]``, bool
            ``[steps]`` or int64 ``[steps, operands]``.
        at: int64 ``[3, n]``: step, operand and buffer of each operand that is an address.
        alternating: int64 ``[4, n]``: step, operand, buffer in even iterations and buffer in odd
            iterations, for each address that alternates between two buffers.
    """

    fields: dict[str, Any]
    at: I64
    alternating: I64

    def arrays_of_run(self, run: BlockRun, elements: I64) -> dict[str, Any]:
        """Return the arrays for one layer that runs the block, with the addresses of its buffers.

        Args:
            run: The run, with its stage, buffers and first indices.
            elements: int64 ``[buffers]``: address of each buffer of the run, in elements of its
                view.

        Returns:
            Keys are fields of `wse.program.steps.Steps`; values are arrays over the steps.
        """
        fields = dict(self.fields)
        fields["stage"] = np.full(len(run.block.steps), run.stage, np.int32)
        fields["op"] = fields["op"] + np.int32(run.op)
        for name, first_index in (("loop", run.loop), ("overlap", run.group)):
            fields[name] = np.where(fields[name] < 0, np.int32(-1), fields[name] + np.int32(first_index))
        if run.runs_in_previous_task:
            fields["runs_in_previous_task"] = fields["runs_in_previous_task"].copy()
            fields["runs_in_previous_task"][0] = True
        step, operand, buffer = self.at
        fields["fixed"] = fields["fixed"].copy()
        fields["fixed"][step, operand] += elements[buffer]
        step, operand, even_buffer, odd = self.alternating
        if len(step):
            fields["odd"] = fields["odd"].copy()
            fields["odd"][step, operand] = elements[odd] - elements[even_buffer]
        return fields


def block_arrays(block: Block) -> BlockArrays:
    """Convert a block (list of steps) to arrays, with addresses relative to each buffer's start."""
    steps, buffer_index = block.steps, {buffer: i for i, buffer in enumerate(block.buffers)}
    terms = np.zeros((5, len(steps), OPERAND_COUNT), np.int64)
    at, alternating, places, values = [], [], [], []
    for index, step in enumerate(steps):
        for place, operand in step.operands.items():
            places.append((index, place))
            if isinstance(operand, SymAddress):
                at.append((index, place, buffer_index[operand.buffer]))
                values.append((operand.offset, 0, operand.per_round, operand.per_slot_round, 0))
                if operand.odd_round_buffer is not None:
                    alternating.append((*at[-1], buffer_index[operand.odd_round_buffer]))
            else:
                values.append((operand.fixed, operand.per_slot, operand.per_round, 0, operand.per_pair))
    if places:
        terms[:, *np.array(places).T] = np.array(values, np.int64).T
    operands = dict(zip(("fixed", "per_slot", "per_round", "per_slot_round", "per_pair"), terms, strict=True))
    operands["odd"] = np.zeros_like(terms[0])
    numbers = [(s.kind, s.code, s.pattern, s.axis, VIEWS.index(s.view), s.op, s.loop, s.overlap) for s in steps]
    flags = [_flags_of(s) for s in steps]
    return BlockArrays(
        fields=dict(zip(NUMBERS, np.array(numbers, np.int32).reshape(-1, len(NUMBERS)).T.copy(), strict=True))
        | dict(zip(FLAGS, np.array(flags, np.bool_).reshape(-1, len(FLAGS)).T.copy(), strict=True))
        | operands,
        at=np.array(at, np.int64).reshape(-1, 3).T,
        alternating=np.array(alternating, np.int64).reshape(-1, 4).T,
    )


def emit(state: State) -> State:
    """Create the Program from the state: frozen arrays of steps and addresses.

    Backends execute and time the Program without the state.
    """
    assert state.addresses is not None
    ops = ops_in_order(state.graph)
    op_index = {op.name: i for i, op in enumerate(ops)}
    program = Program(
        model_name=state.spec.name,
        mapping_name=state.options.mapping_name,
        wafer_name=state.wafer.name,
        wafer_rows=state.wafer.mesh_rows,
        wafer_cols=state.wafer.mesh_cols,
        wafers=state.options.wafers,
        is_transposed=state.choice.is_transposed,
        sram_bytes_per_pe=state.wafer.sram_bytes_per_pe,
        prefill_name=state.choice.prefill,
        element_types=tuple(map(state.options.element_type, VIEWS)),
        weight_type=state.options.dtype,
        context=state.options.context,
        batch=state.options.batch,
        vocab_size=state.spec.vocab_size,
        stages=state.stages,
        patterns=state.patterns,
        phases=_phases(state),
        buffers=state.buffers,
        tiles=tiles_at(state, state.stages, state.buffers),
        op_names=tuple(op.name for op in ops),
        op_kinds=tuple(op.kind for op in ops),
        op_layers=tuple(op.layer for op in ops),
        op_stages=tuple(stages_of(state, ops)),
        op_edges=np.array([(op_index[a], op_index[b]) for a, b in state.graph.edges], np.int32).reshape(-1, 2),
        colour_uses=state.colour_uses,
        ids_address=-1 if state.ids is None else _element(state, state.ids),
        root_row=next((root_of(plan.rows) for plan in state.plans if plan.has_head), 0),
        logits_out=state.options.logits_out != "none" or state.options.sampling == "host",
        sampling=state.options.sampling,
        padding_fraction=padding_fraction(state),
        mixtures=tuple(cut.mixture for cut in state.cuts),
        routing=state.options.routing,
        expert_order=state.expert_order,
    )
    return replace(state, program=program)


def tiles_at(state: State, stages: Sequence[Stage], buffers: Sequence[Buffer]) -> tuple[Tile, ...]:
    """Return the weight tiles of a Program, with their addresses.

    Args:
        state: State after sharding, whose tiles have no addresses yet.
        stages: Stages with their SRAM ranges.
        buffers: Buffers with their addresses, including the buffers of all tiles.

    Returns:
        The tiles. Their addresses are in elements from the first byte of the stage.
    """
    addresses = {(buffer.stage, buffer.name): buffer.address for buffer in buffers if buffer.use == "weights"}
    tiles = []
    for sym_tile in state.tiles:
        stage, name = sym_tile.buffer.stage, sym_tile.buffer.name
        offset = addresses[stage, name] - stages[stage].sram_base_byte
        tiles.append(replace(sym_tile.tile, address=offset // state.options.element_bytes(sym_tile.buffer.view)))
    return tuple(tiles)


def _element(state: State, buffer: SymBuffer) -> int:
    """Return the address of a buffer, counted in elements of its type from the start of its stage."""
    assert state.addresses is not None
    offset = state.addresses[buffer] - state.stages[buffer.stage].sram_base_byte
    return offset // state.options.element_bytes(buffer.view)


def _phases(state: State) -> tuple[Phase, ...]:
    """Return the phases of the Program: prompt chunks, the decode pass, and verification passes.

    Phases with the same steps share one `Steps` object.
    """
    emitted: dict[SymSteps, Steps] = {}
    arrays_of = cache(block_arrays)  # chunks of prompts share their blocks
    phases = []
    for phase, route_rewrites in zip(state.phases, state.route_rewrites, strict=True):
        if phase.steps not in emitted:
            emitted[phase.steps] = _steps(state, phase, route_rewrites, arrays_of)
        phases.append(
            Phase(
                name=phase.name,
                tokens=phase.tokens,
                user=phase.user,
                on_mesh=phase.on_mesh,
                cached=phase.cached,
                prefix_tokens=state.options.prefix_tokens if phase.name == PREFILL else 0,
                steps=emitted[phase.steps],
            )
        )
    return tuple(phases)


def _steps(state: State, phase: SymPhase, route_rewrites: I32, arrays_of: Callable[[Block], BlockArrays]) -> Steps:
    """Return the arrays of all steps of a phase, with addresses as operands.

    A phase consists of runs of blocks. A block is a list of steps that equivalent layers share. The
    arrays of each run are computed from its block, and then concatenated in the order of the runs.

    Args:
        state: State after allocation, with the addresses of all buffers.
        phase: The phase.
        route_rewrites: int32 ``[steps]``: number of route rewrites in each step.
        arrays_of: Function that returns the arrays of a block.
    """
    steps = phase.steps
    max_pairs = [0 if cut.mixture is None else cut.mixture.max_pairs(phase.tokens) for cut in state.cuts]
    over_users = [loop in run.block.over_users for run in steps.runs for loop in range(len(run.block.loops))]
    runs = [
        arrays_of(run.block).arrays_of_run(run, np.array([_element(state, buffer) for buffer in run.buffers], np.int64))
        for run in steps.runs
    ]
    arrays = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
    return Steps(
        route_rewrites=route_rewrites,
        max_pairs=np.array(max_pairs, np.int64)[arrays["stage"]],
        loops=np.array(steps.loops, np.int32).reshape(-1, 3),
        over_users=np.array(over_users, np.bool_),
        **arrays,
    )


def padding_fraction(state: State) -> float:
    """Return the fraction of weight elements in SRAM that are padding; 0 if there are no tiles.

    Only weights are counted, not float32 vectors or tables such as rotary frequencies.
    """
    elements = real_elements = 0
    for sym_tile in state.tiles:
        tile = sym_tile.tile
        if tile.view != "wgt" and not tile.coding:
            continue
        cut = state.cuts[tile.stage]
        elements += tile.outer * tile.inner * cut.rows * cut.cols
        real_elements += sym_tile.real_elements
    return 1.0 - real_elements / elements if elements else 0.0
