"""The words that execution reports for a run are those that the fabric model reports.

That as many move is in `test_words_as_they_move.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from session import SOFTWARE, Session, check_traffic, golden, region_options, session, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice
from wse.compiler.pipeline import compile_choice
from wse.program.steps import HOST, StepKind
from wse.program.transfers.transfer_types import transfer_steps

CASES = [
    ("region", 1, (16, 16), None),
    ("region", 2, (16, 16), None),
    ("region", 1, (7, 5), None),
    ("pipeline", 1, (16, 16), Choice(bands=2, per_band=2, prefill="mesh-gemm", prefill_chunk=8, head_chunk=40)),
    ("region", 1, (9, 9), Choice(prefill="mesh-gemm-own-weights", prefill_chunk=9, head_chunk=40)),
    ("region", 3, (9, 9), Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=40)),
    ("pipeline", 3, (6, 9), None),
    ("pipeline", 1, (15, 13), Choice(bands=5, prefill="thin-gemm", prefill_chunk=3, head_chunk=40)),
]
NEW_TOKENS = 30


@pytest.fixture(
    scope="module",
    params=CASES,
    ids=lambda c: f"{c[0]}-{c[1]}-{c[2][0]}x{c[2][1]}-{c[3].prefill if c[3] else 'chosen'}",
)
def counted(shared: Path, request: pytest.FixtureRequest) -> tuple[Session, list[PhaseCost]]:
    """A finished run, and the fabric model's cost of each of its phase runs."""
    mapping, wafers, mesh, choice = request.param
    folder = shared / "models" / "stories260k"
    prompt = golden(folder)[2]["prompt_ids"]
    run = session(
        folder,
        mesh,
        prompt=prompt,
        new_tokens=NEW_TOKENS,
        mapping=mapping,
        wafers=wafers,
        choice=choice,
        sram_bytes=1 << 18,
        logits=True,
    )
    run.greedy(NEW_TOKENS)
    fabric = run.fabric()
    costs = [fabric.prefill_cost(i) for i in range(len(run.program.prefill))]
    costs += [fabric.decode_cost(len(prompt) + i) for i in range(NEW_TOKENS - 1)]
    return run, costs


def test_traffic_of_a_run_is_equal_exactly(counted: tuple[Session, list[PhaseCost]]) -> None:
    run, costs = counted
    check_traffic(run.engine, costs)


def test_a_cut_between_wafers_carries_a_hidden_vector_a_token(
    counted: tuple[Session, list[PhaseCost]],
) -> None:
    run, _ = counted
    prompt = sum(phase.tokens for phase in run.program.prefill)
    hidden_bytes = 64 * 4
    for (source, target), carried in run.engine.streams.crossed.items():
        if HOST not in (source, target):
            forward = target == source + 1
            tokens = prompt + NEW_TOKENS - 1 if forward else NEW_TOKENS  # the way back to the head: one vector a pass
            assert carried == hidden_bytes * tokens
    wafers = run.program.wafers
    assert sum(HOST not in pair for pair in run.engine.streams.crossed) == (wafers if wafers > 1 else 0)


def test_starts_do_not_go_back_and_causes_belong_to_their_steps(counted: tuple[Session, list[PhaseCost]]) -> None:
    run, costs = counted
    for cost in costs:
        assert (np.diff(cost.start) >= 0).all()
        assert cost.start[-1] <= cost.cycles
        assert (cost.by_cause >= 0).all()
    phase = run.program.decode
    computes, leaves = phase.steps.kind == StepKind.COMPUTE, transfer_steps(phase.steps, lambda kind: kind.leaves_wafer)
    for cause, own in (("compute", computes), ("crossing", leaves), ("host", leaves)):
        others = costs[-1].by_cause[~own, CAUSES.index(cause)]
        assert not others.any()


@pytest.mark.parametrize("stages", [1, 2])
def test_untied_models_agree_as_well_with_their_ids_going_back(stages: int) -> None:
    spec = tiny_spec(tied=False, layers=4)
    machine = wafer(5, 12, 1 << 20)
    options = region_options(
        mapping="pipeline", wafers=2, dtype="float16", context=30, prompt_tokens=(7,), logits_out="all"
    )
    choice = Choice(per_band=stages, prefill="thin-gemm", prefill_chunk=3, head_chunk=2)
    program = compile_choice(spec, machine, SOFTWARE, options, choice)
    engine = Engine(program, spec, tensors(spec).__getitem__)
    list(engine.prefill(range(3, 10)))
    for _ in range(9):
        engine.decode()
    fabric = Fabric(program, machine, SOFTWARE)
    costs = [fabric.prefill_cost(i) for i in range(3)] + [fabric.decode_cost(7 + i) for i in range(9)]
    check_traffic(engine, costs)
