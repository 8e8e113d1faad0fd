"""Tests of the types of transfers: operands, crossings between wafers, and edges, in Programs that have all types."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.lowering.phase.builder import PhaseBuilder
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.symbolic import SymBuffer
from wse.errors import WseBug
from wse.program.program import Program
from wse.program.steps import OPERAND_COUNT, StepKind
from wse.program.transfers.messages import Translation
from wse.program.transfers.stage_streams import StageTransfer
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import ADDRESSES, TRANSFERS, operand_index, transfer_of

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=30, prompt_tokens=(4,))
CHOICE = Choice(bands=1, per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
CASES: dict[str, dict[str, Any]] = {
    "regions of two wafers": {},
    "logits leave": {"logits_out": "all"},
    "the host draws": {"sampling": "host"},
    "the host drafts": {"verify_tokens": 2, "verify_ids": "host"},
    "regions that span wafers": {"mapping": "tensor"},
}


@cache
def program_of(case: str) -> Program:
    """Return the Program of a case on two wafers of 4x10 PEs."""
    options = replace(OPTIONS, **CASES[case])
    choice = CHOICE if options.mapping == "pipeline" else replace(CHOICE, per_band=1)
    return compile_choice(tiny_spec(layers=4), wafer(4, 10, 1 << 20), SOFTWARE, options, choice)


def transfers(program: Program, kind: type[Transfer] = Transfer) -> list[Transfer]:
    """Return the transfers of a type in all phases of a Program."""
    found = []
    for phase in program.phases:
        steps = np.flatnonzero(phase.steps.kind == StepKind.TRANSFER).tolist()
        found += [transfer_of(program, phase, step, program.cache_slots(8)) for step in steps]
    return [transfer for transfer in found if isinstance(transfer, kind)]


def test_operands_of_every_type_have_separate_places() -> None:
    for kind, addresses in zip(TRANSFERS, ADDRESSES, strict=True):
        index = operand_index(kind)
        assert (index["source"], index["target"], index["elements"]) == (3, 4, 5)
        assert sorted(index.values()) == list(range(3, 3 + len(index)))
        assert addresses <= set(index.values())
        assert max(index.values()) < OPERAND_COUNT


def test_programs_have_transfers_of_every_type() -> None:
    assert {type(transfer) for case in CASES for transfer in transfers(program_of(case))} == set(TRANSFERS)


@pytest.mark.parametrize("case", CASES)
def test_only_transfers_that_leave_a_wafer_cross(case: str) -> None:
    for transfer in transfers(program_of(case)):
        assert bool(transfer.crossings) == transfer.leaves_wafer
        assert bool(transfer.crossing_bytes) == transfer.leaves_wafer
        assert transfer.leaves_wafer or not transfer.edges
        senders = {edge.wafer for edge in transfer.edges if edge.leaving}
        receivers = {edge.wafer for edge in transfer.edges if not edge.leaving}
        assert senders <= {sender for sender, _ in transfer.crossings}
        assert receivers <= {receiver for _, receiver in transfer.crossings}


@pytest.mark.parametrize("case", CASES)
def test_transfers_between_regions_leave_the_wafer_if_the_regions_do_not_share_one(case: str) -> None:
    program = program_of(case)
    for transfer in transfers(program):
        if isinstance(transfer.messages, Translation):
            target = program.stages[transfer.messages.target_stage]
            assert (target.wafer != transfer.site.placed_stage.wafer) == transfer.leaves_wafer


def test_unknown_operand_of_a_type_is_refused() -> None:
    builder = PhaseBuilder(4)
    source = SymBuffer(stage=0, name="x", use="activations", view="act", elements=4)
    with pytest.raises(WseBug, match=r"StageTransfer has the operands .*got \['latencies'\]"):
        builder.transfer(StageTransfer, source, elements=4, latencies=1)
