"""Test lowering: phases for all prompt chunks, the order of steps, and shared steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler_states import CHOICE, before, begin
from tiny_model import tiny_spec

from wse.compiler.check import check
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.compiler.passes.lowering import lower_ops
from wse.compiler.state import State
from wse.compiler.symbolic import SymPhase
from wse.program.isa.instructions import KERNELS
from wse.program.steps import StepKind


def lowered(state: State) -> State:
    result = lower_ops(before("lower_ops", state))
    check(result, pass_name="lower_ops")
    return result


def kernels_of(phase: SymPhase) -> set[str]:
    steps = [step for run in phase.steps.runs for step in run.block.steps]
    return {KERNELS[step.code].name for step in steps if step.kind == StepKind.COMPUTE}


def test_layers_of_one_kind_run_through_one_block() -> None:
    decode = lowered(begin((3, 4), tiny_spec(layers=5))).phases[-1]
    layers = [
        run.block for run in decode.steps.runs if len([r for r in decode.steps.runs if r.block is run.block]) == 5
    ]
    assert len({id(block) for block in layers}) == 1
    assert len(layers) == 5


@pytest.mark.parametrize(("tokens", "schedule"), [(2, OPTIMIZED), (15, OPTIMIZED), (2, BASELINE)])
def test_a_gemv_multiplies_each_of_few_tokens_but_those_of_a_chunk_as_released(tokens: int, schedule: str) -> None:
    """A few tokens are no more than the outputs of a tile; no tile has 15 outputs."""
    choice = replace(CHOICE, prefill_chunk=tokens)
    first, *_, token = lowered(begin((3, 8), choice=choice, schedule=schedule, prompt_tokens=(30,))).phases
    kernels = kernels_of(first)
    assert ("matmul" in kernels) == (tokens == 15 or schedule == BASELINE)
    assert ("gemv" in kernels) == (tokens == 2 and schedule == OPTIMIZED)
    assert "matmul" not in kernels_of(token)
