"""Tests of complete phases of a small model: the wavelet simulator against the fabric model, words and cycles.

The latency and the bandwidth of transfers between wafers and to the host are left out on both sides.
"""

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
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.options import THIN_GEMM
from wse.errors import BadMesh
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import mesh_on
from wse.program.steps import COLUMNS, ROWS, StepKind
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.stage_streams import StageTransfer
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.cache_balance import CacheBalance

PROMPT = tuple(range(1, 18))
ON_WAFER = ("hops", "relays", "compute", "launch")
CASES = [("region", 2, (9, 8)), ("pipeline", 3, (6, 9))]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2][0]}x{c[2][1]}")
def compiled(test_data: Path, request: pytest.FixtureRequest) -> Session:
    mapping, wafers, mesh = request.param
    folder = test_data / "models" / "stories260k"
    return session(
        folder, mesh, prompt=PROMPT, new_tokens=30, mapping=mapping, wafers=wafers, sram_bytes=1 << 18, logits=True
    )


def on_wafer_cycles(cost: PhaseCost) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the cycles of each step without transfers between wafers and to the host, float64 ``[steps]``."""
    return np.asarray(cost.by_cause[:, [CAUSES.index(name) for name in ON_WAFER]].sum(axis=1))


def shifting_length(compiled: Session) -> int:
    """Return a cache length at which some rows move a cache entry to the row above."""
    rows = compiled.program.stages[0].rect.rows
    return next(n for n in range(len(PROMPT), len(PROMPT) + 2 * rows) if CacheBalance.passing_rows(n, rows))


@pytest.mark.parametrize(("generation", "profile"), [("wse2", "academic"), ("wse3", "production")])
def test_decode_cycles_match_the_fabric_model(compiled: Session, generation: str, profile: str) -> None:
    """The total is within 10 %. Kernels and cache shifts that do not overlap others are exact, including launches.

    On WSE-3 a stream pauses in every ninth cycle. A cache shift may differ by one cycle because of this pause.
    """
    program, length = compiled.program, shifting_length(compiled)
    machine = mesh_on(load_wafer(generation), program.wafer_rows, program.wafer_cols)
    software = load_software(profile, generation)
    cost = Fabric(program, machine, software).decode_cost(length)
    simulated = phase_run(program, program.decode, [length], machine, software)
    model_cycles, not_overlapped = on_wafer_cycles(cost), program.decode.steps.overlap < 0
    kernels = (program.decode.steps.kind == StepKind.COMPUTE) & not_overlapped
    np.testing.assert_array_equal(simulated.links, cost.links)
    np.testing.assert_array_equal(simulated.step_cycles[kernels], model_cycles[kernels])
    differences = np.abs(simulated.step_cycles - model_cycles)[
        is_of_type(program.decode.steps, CacheShift) & not_overlapped
    ]
    assert differences.max(initial=0) <= (machine.stream_words_per_cycle < 1)
    deviation = 100 * (model_cycles.sum() - simulated.cycles) / simulated.cycles
    assert abs(deviation) <= 10, (
        f"wavelets {simulated.cycles}, fabric model {model_cycles.sum():.0f}, {deviation:+.1f} %"
    )
    transfers = is_of_type(program.decode.steps, AlongLine, StageTransfer) & not_overlapped
    deviation = (
        100
        * (model_cycles[transfers].sum() - simulated.step_cycles[transfers].sum())
        / simulated.step_cycles[transfers].sum()
    )
    assert abs(deviation) <= 10, f"patterns and stage transfers that do not overlap others: {deviation:+.1f} %"


@pytest.mark.parametrize(
    "schedule", ["merged-sums,shared-exp,local-maxima", "merged-sums,shared-exp,local-maxima,joined-tasks"]
)
def test_chain_beside_an_all_reduce_matches_the_fabric_model(schedule: str) -> None:
    """The overlap group computes exponentials, an exchange between columns, sums and values, within 3 cycles."""
    spec = tiny_spec(kv_heads=1, heads=4)
    run = tiny_session(spec, (5, 17), THIN_GEMM, PROMPT, 3, schedule=schedule)
    program, length = run.program, len(PROMPT)
    steps, cost = program.decode.steps, run.fabric().decode_cost(length)
    simulated = phase_run(program, program.decode, [length], run.machine, SOFTWARE)
    np.testing.assert_array_equal(simulated.links, cost.links)
    chains = np.unique(steps.overlap[steps.in_chain])
    assert len(chains) == spec.layer_count
    for chain in chains:
        group = np.flatnonzero(steps.overlap == chain)
        transfers = group[~np.array([steps.computes(step) for step in group])]
        assert steps.axis[transfers].tolist() == [COLUMNS, ROWS]
        assert steps.in_chain[transfers].tolist() == [False, True]
        assert bool(steps.runs_in_previous_task[transfers[1]]) == ("joined-tasks" in schedule)
        assert simulated.step_cycles[group[0]] == pytest.approx(on_wafer_cycles(cost)[group].sum(), abs=3)


def test_move_log_has_every_word_once_per_link_in_the_order_of_steps(compiled: Session) -> None:
    program, length, moves_by_step = compiled.program, shifting_length(compiled), []
    simulated = phase_run(
        program,
        program.decode,
        [length],
        compiled.machine,
        SOFTWARE,
        on_moves=lambda step, moves: moves_by_step.append((step, moves)),
    )
    moves = np.concatenate([moves for _, moves in moves_by_step])
    on_links = moves[moves[:, 5] < Port.RAMP]
    assert len(np.unique(on_links[:, [0, 1, 2, 3, 5]], axis=0)) == len(on_links) == simulated.links.sum()
    words = np.zeros_like(simulated.links)
    np.add.at(words, (on_links[:, 1], on_links[:, 5], on_links[:, 2], on_links[:, 3]), 1)
    np.testing.assert_array_equal(words, simulated.links)
    last = 0
    for _, moves in moves_by_step:
        assert last <= moves[:, 0].min(initial=simulated.cycles)
        last = max(last, moves[:, 0].max(initial=0))
    assert last < simulated.cycles


def test_prefill_link_words_and_cycles_match_the_fabric_model(compiled: Session) -> None:
    program = compiled.program
    for index in {0, len(program.prefill) - 1}:
        cost, phase = compiled.fabric().prefill_cost(index), program.prefill[index]
        simulated = phase_run(program, phase, [phase.cached], compiled.machine, SOFTWARE)
        np.testing.assert_array_equal(simulated.links, cost.links)
        assert abs(on_wafer_cycles(cost).sum() - simulated.cycles) <= 0.1 * simulated.cycles


def test_check_size_includes_the_rectangle_between_two_regions(
    compiled: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
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
