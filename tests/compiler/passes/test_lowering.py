"""Test lowering: phases for all prompt chunks, the order of steps, and shared steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler_states import CHOICE, before, begin
from tiny_model import tiny_spec

from wse.compiler.check import check
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.compiler.passes.lowering import LOWER, lower_ops
from wse.compiler.state import State
from wse.compiler.symbolic import SymPhase
from wse.models.graph import op_graph, ops_in_order
from wse.program.isa.instructions import KERNELS
from wse.program.steps import StepKind
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import TRANSFERS


def lowered(state: State) -> State:
    result = lower_ops(before("lower_ops", state))
    check(result, pass_name="lower_ops")
    return result


def ops_of(phase: SymPhase) -> list[int]:
    return [run.op + step.op for run in phase.steps.runs for step in run.block.steps]


def transfers_of(phase: SymPhase) -> list[type[Transfer]]:
    steps = [step for run in phase.steps.runs for step in run.block.steps]
    return [TRANSFERS[step.code] for step in steps if step.kind == StepKind.TRANSFER]


def kernels_of(phase: SymPhase) -> set[str]:
    steps = [step for run in phase.steps.runs for step in run.block.steps]
    return {KERNELS[step.code].name for step in steps if step.kind == StepKind.COMPUTE}


def test_every_op_of_every_family_can_be_lowered() -> None:
    ops = ops_in_order(op_graph(tiny_spec(tied=False)))
    assert {op.kind for op in ops} <= {*LOWER}


def test_a_prompt_is_read_in_chunks_and_then_tokens_are_decoded() -> None:
    phases = lowered(begin((3, 4))).phases
    assert [(phase.tokens, phase.cached, phase.user) for phase in phases] == [
        (4, 0, 0),
        (4, 4, 0),
        (1, 8, 0),
        (1, 0, -1),
    ]


def test_each_users_prompt_has_chunks_of_its_own_and_all_decode_at_once() -> None:
    phases = lowered(begin((3, 4), prompt_tokens=(5, 3))).phases
    chunks = [(phase.user, phase.cached, phase.tokens) for phase in phases]
    assert chunks == [(0, 0, 4), (0, 4, 1), (1, 0, 3), (-1, 0, 2)]


def test_chunks_alike_share_their_steps() -> None:
    choice = replace(CHOICE, prefill_chunk=3)
    phases = lowered(begin((3, 4), choice=choice, prompt_tokens=(9, 9))).phases
    assert phases[0].steps is phases[1].steps is phases[3].steps
    assert phases[2].steps is phases[5].steps
    assert phases[2].steps is not phases[0].steps, "the next token follows the last chunk alone"


def test_layers_of_one_kind_run_through_one_block() -> None:
    decode = lowered(begin((3, 4), tiny_spec(layers=5))).phases[-1]
    layers = [
        run.block for run in decode.steps.runs if len([r for r in decode.steps.runs if r.block is run.block]) == 5
    ]
    assert len({id(block) for block in layers}) == 1
    assert len(layers) == 5


def test_ops_are_lowered_in_order_and_only_the_last_chunk_has_a_head() -> None:
    state = lowered(begin((3, 4)))
    names = [op.kind for op in ops_in_order(state.graph)]
    for phase in state.phases:
        order = ops_of(phase)
        assert order == sorted(order)
    first, last = ({names[op] for op in ops_of(state.phases[i])} for i in (0, 2))
    assert "head" not in first
    assert "head" in last


def test_regions_hand_the_stream_over_and_wafers_cross_it() -> None:
    one = lowered(begin((3, 4))).phases[-1]
    choice = replace(CHOICE, per_band=2)
    two = lowered(begin((3, 8), choice=choice, mapping="pipeline")).phases[-1]
    apart = lowered(begin((3, 4), wafers=2)).phases[-1]
    assert {StageTransfer, Crossing} & {*transfers_of(one)} == set()
    assert transfers_of(two).count(StageTransfer) == 2, "there, and back with the id"
    assert transfers_of(apart).count(Crossing) == 2


@pytest.mark.parametrize(("tokens", "schedule"), [(2, OPTIMIZED), (15, OPTIMIZED), (2, BASELINE)])
def test_a_gemv_multiplies_each_of_few_tokens_but_those_of_a_chunk_as_released(tokens: int, schedule: str) -> None:
    """A few tokens are no more than the outputs of a tile; no tile has 15 outputs."""
    choice = replace(CHOICE, prefill_chunk=tokens)
    first, *_, token = lowered(begin((3, 8), choice=choice, schedule=schedule, prompt_tokens=(30,))).phases
    kernels = kernels_of(first)
    assert ("matmul" in kernels) == (tokens == 15 or schedule == BASELINE)
    assert ("gemv" in kernels) == (tokens == 2 and schedule == OPTIMIZED)
    assert "matmul" not in kernels_of(token)
