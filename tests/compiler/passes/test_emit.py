"""Test that the arrays of a Program correspond to the symbolic steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler_states import CHOICE, before, begin
from tiny_model import tiny_spec

from wse.compiler.passes.emit import emit
from wse.compiler.state import State
from wse.compiler.symbolic import SymAddress, SymNumber
from wse.models.graph import ops_in_order
from wse.program.program import Program

pytestmark = pytest.mark.smoke


def emitted(state: State) -> tuple[State, Program]:
    given = before("emit", state)
    program = emit(given).program
    assert program is not None
    return given, program


def test_every_symbolic_step_is_a_row_of_its_phase() -> None:
    state, program = emitted(begin((3, 4)))
    for symbolic, phase in zip(state.phases, program.phases, strict=True):
        steps = [(run, step) for run in symbolic.steps.runs for step in run.block.steps]
        assert len(phase.steps) == len(symbolic.steps) == len(steps)
        assert phase.steps.kind.tolist() == [step.kind for _, step in steps]
        assert phase.steps.op.tolist() == [run.op + step.op for run, step in steps]
        assert phase.steps.stage.tolist() == [run.stage for run, _ in steps]
        assert (phase.tokens, phase.cached, phase.user) == (symbolic.tokens, symbolic.cached, symbolic.user)


def test_operands_are_addresses_in_elements_of_a_view_and_numbers() -> None:
    state, program = emitted(begin((3, 4), dtype="float16"))
    symbolic, phase = state.phases[-1], program.decode
    base = state.stages[0].sram_base_byte
    sizes = {"float16": 2, "float32": 4, "uint8": 1}
    at = 0
    for run in symbolic.steps.runs:
        own = dict(zip(run.block.buffers, run.buffers, strict=True))
        for step in run.block.steps:
            for index, operand in step.operands.items():
                value = int(phase.steps.fixed[at, index])
                if isinstance(operand, SymNumber):
                    assert value == operand.fixed
                elif isinstance(operand, SymAddress) and operand.odd_round_buffer is None:
                    buffer = own[operand.buffer]
                    size = sizes[state.options.element_type(buffer.view)]
                    assert value == (state.addresses[buffer] - base) // size + operand.offset
            at += 1


def test_chunks_that_share_steps_share_arrays() -> None:
    _, program = emitted(begin((3, 4), choice=replace(CHOICE, prefill_chunk=3)))
    assert program.phases[0].steps is program.phases[1].steps


def test_ops_edges_and_stages_are_those_of_the_graph() -> None:
    state, program = emitted(begin((3, 4), tiny_spec(layers=3), wafers=2))
    ops = ops_in_order(state.graph)
    assert program.op_names == tuple(op.name for op in ops)
    edges = {(program.op_names[a], program.op_names[b]) for a, b in program.op_edges}
    assert edges == {*state.graph.edges}
    assert all(
        state.plans[stage].first_layer <= layer < state.plans[stage].last_layer
        for stage, layer in zip(program.op_stages, program.op_layers, strict=True)
        if layer >= 0
    )


def test_padding_is_what_tiles_hold_beyond_their_tensors() -> None:
    """A matrix of 40 x 52 divides evenly over 4 x 4 PEs, but not over 3 x 5."""
    spec = tiny_spec(heads=4, kv_heads=4, head_size=6, vocab=64)
    even, odd = (emitted(begin(mesh, spec))[1].padding_fraction for mesh in ((4, 4), (3, 5)))
    assert even == 0
    assert 0 < odd < 0.5


def test_the_program_is_frozen_in_its_digest() -> None:
    one, same, other = (emitted(begin((3, 4), context=context))[1] for context in (30, 30, 31))
    assert one.digest() == same.digest() != other.digest()
    assert np.array_equal(one.decode.steps.fixed, same.decode.steps.fixed)
