"""Whole phases of a small model: wavelets against the fabric model's words, links and cycles.

Neither side counts the latency and the rate of crossings between wafers and to the host.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from session import SOFTWARE, Session, session
from tiny_model import tiny_spec
from tiny_run import tiny_session

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.machine import Port
from wse.backends.wavelet.phases.mesh_state import check_size
from wse.backends.wavelet.phases.phase import PhaseRun, phase_run
from wse.compiler.options import THIN_GEMM
from wse.errors import BadMesh
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on
from wse.program.steps import COLUMNS, ROWS, StepKind
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.stage_streams import StageTransfer
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.cache_balance import CacheBalance

PROMPT = tuple(range(1, 18))
ON_WAFER = ("hops", "relays", "compute", "launch")
CASES = [("region", 2, (9, 8)), ("pipeline", 3, (6, 9))]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2][0]}x{c[2][1]}")
def compiled(shared: Path, request: pytest.FixtureRequest) -> Session:
    mapping, wafers, mesh = request.param
    folder = shared / "models" / "stories260k"
    return session(
        folder, mesh, prompt=PROMPT, new_tokens=30, mapping=mapping, wafers=wafers, sram_bytes=1 << 18, logits=True
    )


def decoded(compiled: Session, length: int) -> tuple[PhaseCost, PhaseRun]:
    program = compiled.program
    ran = phase_run(program, program.decode, [length], compiled.machine, SOFTWARE)
    return compiled.fabric().decode_cost(length), ran


def on_wafer(cost: PhaseCost) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Cycles of each step without crossings and the host."""
    return np.asarray(cost.by_cause[:, [CAUSES.index(name) for name in ON_WAFER]].sum(axis=1))


def passing_length(compiled: Session) -> int:
    """A length of the cache at which some rows pass an entry up."""
    rows = compiled.program.stages[0].rect.rows
    return next(n for n in range(len(PROMPT), len(PROMPT) + 2 * rows) if CacheBalance.passing_rows(n, rows))


@pytest.mark.parametrize(
    ("generation", "profile"),
    [("wse2", "tuned"), pytest.param("wse2", "academic", marks=pytest.mark.slow), ("wse3", "production")],
)
def test_a_decoded_token_takes_the_fast_models_cycles(compiled: Session, generation: str, profile: str) -> None:
    """Within the fabric model's own tolerance on the whole; kernels and cache shifts alone exactly, launches included.

    The pause of WSE-3 in every ninth cycle of a stream may come a cycle earlier or later.
    """
    program, length = compiled.program, passing_length(compiled)
    machine = mesh_on(load_wafer(generation), program.wafer_rows, program.wafer_cols)
    software = load_software(profile, generation)
    cost = Fabric(program, machine, software).decode_cost(length)
    ran = phase_run(program, program.decode, [length], machine, software)
    fast, alone = on_wafer(cost), program.decode.steps.overlap < 0
    kernels = (program.decode.steps.kind == StepKind.COMPUTE) & alone
    np.testing.assert_array_equal(ran.links, cost.links)
    np.testing.assert_array_equal(ran.step_cycles[kernels], fast[kernels])
    apart = np.abs(ran.step_cycles - fast)[is_of_type(program.decode.steps, CacheShift) & alone]
    assert apart.max(initial=0) <= (machine.stream_words_per_cycle < 1)
    deviation = 100 * (fast.sum() - ran.cycles) / ran.cycles
    assert abs(deviation) <= 10, f"wavelets {ran.cycles}, fast {fast.sum():.0f}, {deviation:+.1f} %"
    moving = is_of_type(program.decode.steps, AlongLine, StageTransfer) & alone
    deviation = 100 * (fast[moving].sum() - ran.step_cycles[moving].sum()) / ran.step_cycles[moving].sum()
    assert abs(deviation) <= 10, f"patterns and stage transfers alone: {deviation:+.1f} %"


@pytest.mark.parametrize(
    "schedule", ["merged-sums,shared-exp,local-maxima", "merged-sums,shared-exp,local-maxima,joined-tasks"]
)
def test_a_chain_with_words_of_its_own_runs_beside_an_all_reduce(schedule: str) -> None:
    """Exponentials, an exchange among columns, sums and values take as long as in the fabric model, to a few cycles."""
    spec = tiny_spec(kv_heads=1, heads=4)
    run = tiny_session(spec, (5, 17), THIN_GEMM, PROMPT, 3, schedule=schedule)
    program, length = run.program, len(PROMPT)
    steps, cost = program.decode.steps, run.fabric().decode_cost(length)
    ran = phase_run(program, program.decode, [length], run.machine, SOFTWARE)
    np.testing.assert_array_equal(ran.links, cost.links)
    chains = np.unique(steps.overlap[steps.in_chain])
    assert len(chains) == spec.layer_count
    for chain in chains:
        group = np.flatnonzero(steps.overlap == chain)
        moving = group[~np.array([steps.computes(step) for step in group])]
        assert steps.axis[moving].tolist() == [COLUMNS, ROWS]
        assert steps.in_chain[moving].tolist() == [False, True]
        assert bool(steps.runs_in_previous_task[moving[1]]) == ("joined-tasks" in schedule)
        assert ran.step_cycles[group[0]] == pytest.approx(on_wafer(cost)[group].sum(), abs=3)


def test_the_log_of_a_token_has_every_word_on_its_link_once_and_the_cycles_of_its_step(compiled: Session) -> None:
    program, length, told = compiled.program, passing_length(compiled), []
    ran = phase_run(
        program,
        program.decode,
        [length],
        compiled.machine,
        SOFTWARE,
        on_moves=lambda step, moves: told.append((step, moves)),
    )
    moves = np.concatenate([moves for _, moves in told])
    over = moves[moves[:, 5] < Port.RAMP]
    assert len(np.unique(over[:, [0, 1, 2, 3, 5]], axis=0)) == len(over) == ran.links.sum()
    words = np.zeros_like(ran.links)
    np.add.at(words, (over[:, 1], over[:, 5], over[:, 2], over[:, 3]), 1)
    np.testing.assert_array_equal(words, ran.links)
    last = 0
    for _, moves in told:
        assert last <= moves[:, 0].min(initial=ran.cycles)
        last = max(last, moves[:, 0].max(initial=0))
    assert last < ran.cycles


def test_a_prefill_crosses_the_links_and_takes_the_cycles_that_the_fast_model_says(compiled: Session) -> None:
    program = compiled.program
    for index in {0, len(program.prefill) - 1}:
        cost, phase = compiled.fabric().prefill_cost(index), program.prefill[index]
        ran = phase_run(program, phase, [phase.cached], compiled.machine, SOFTWARE)
        np.testing.assert_array_equal(ran.links, cost.links)
        assert abs(on_wafer(cost).sum() - ran.cycles) <= 0.1 * ran.cycles


def test_a_slower_launch_delays_every_step_by_as_much(compiled: Session) -> None:
    """task_dispatch_cycles once a step that has a task of its own, vector_issue_cycles by what a step issues."""
    program, length = compiled.program, len(PROMPT)
    _, before = decoded(compiled, length)
    slower = replace(SOFTWARE, task_dispatch_cycles=SOFTWARE.task_dispatch_cycles + 7)
    after = phase_run(program, program.decode, [length], compiled.machine, slower)
    steps = program.decode.steps
    iterations = np.array([steps.iterations(step) for step in range(len(steps))])
    moved, dispatched = after.step_cycles - before.step_cycles, ~steps.runs_in_previous_task & (steps.overlap < 0)
    assert dispatched.sum() < len(steps)
    differing = np.flatnonzero(moved != 7 * iterations * dispatched)
    assert len(differing) <= 1  # the token that leaves beside other work
    assert not moved[differing].any()


def test_the_rectangle_between_two_regions_counts_too(compiled: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    program, machine = compiled.program, compiled.machine
    check_size(program, machine)
    region = max(stage.rect.rows * stage.rect.cols for stage in program.stages)
    monkeypatch.setattr("wse.backends.wavelet.machine.LARGEST_PES", region)
    if (is_of_type(program.decode.steps, StageTransfer)).any():
        with pytest.raises(BadMesh, match=f"at most {region:,}"):
            check_size(program, machine)
    else:
        check_size(program, machine)
    monkeypatch.setattr("wse.backends.wavelet.machine.LARGEST_PES", region - 1)
    with pytest.raises(BadMesh, match=f"{region:,} PEs"):
        check_size(program, machine)
