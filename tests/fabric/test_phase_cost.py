"""Closed forms for the steps of a phase: what a crossing, the host, a stage transfer, a rewrite or a dispatch adds."""

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.backends.fabric.bounds import PhaseBounds
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.links.traffic import StepTraffic, Traffic
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.fabric.step_classes import by_slots
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.host_streams import DrawnIn, LogitsOut, TokenOut, TokensIn
from wse.program.transfers.patterns import CacheShift
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import is_of_type, transfer_steps

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=30, prompt_tokens=(4,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)
MACHINE = wafer(6, 5, 1 << 20)


def compiled(
    machine: WaferSpec = MACHINE,
    software: SoftwareProfile = SOFTWARE,
    options: Options = OPTIONS,
    choice: Choice = CHOICE,
    *,
    tied: bool = True,
) -> tuple[Program, Fabric]:
    program = compile_choice(tiny_spec(tied=tied, layers=4), machine, software, options, choice)
    return program, Fabric(program, machine, software)


def cause(cost: PhaseCost, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Cycles of one cause by step."""
    return np.asarray(cost.by_cause[:, CAUSES.index(name)])


def test_a_crossing_takes_the_links_latency_and_its_bytes_over_the_bandwidth() -> None:
    program, fabric = compiled()
    cost, phase = fabric.decode_cost(9), program.decode
    between = np.flatnonzero(is_of_type(phase.steps, Crossing))
    assert len(between) == 2, "there and back to the tied table"
    for step in between:
        seconds = MACHINE.wafer_link_latency_s + 40 * 4 / MACHINE.wafer_link_bytes_per_s
        assert cause(cost, "crossing")[step] == np.ceil(seconds * MACHINE.clock_hz)


def test_the_prompt_takes_half_a_round_trip_a_drawn_id_a_whole_one_and_a_greedy_id_none() -> None:
    greedy, fabric = compiled()
    step = np.flatnonzero(is_of_type(greedy.prefill[0].steps, TokensIn))
    half = (MACHINE.host_round_trip_s / 2 + 4 * 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz
    assert cause(fabric.prefill_cost(0), "host")[step] == np.ceil(half)
    step = np.flatnonzero(is_of_type(greedy.decode.steps, TokenOut))
    assert fabric.decode_cost(9).by_cause[step].sum() == 0
    drawn, fabric = compiled(options=replace(OPTIONS, sampling="host"))
    step = np.flatnonzero(is_of_type(drawn.decode.steps, DrawnIn))
    whole = (MACHINE.host_round_trip_s + 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz
    assert cause(fabric.decode_cost(9), "host")[step] == np.ceil(whole)


def test_logits_that_leave_take_their_bytes_over_the_bandwidth() -> None:
    program, fabric = compiled(options=replace(OPTIONS, logits_out="all"))
    step = np.flatnonzero(is_of_type(program.decode.steps, LogitsOut))
    wire = 67 * 4 / MACHINE.host_bytes_per_s * MACHINE.clock_hz
    assert cause(fabric.decode_cost(9), "host")[step] == np.ceil(wire)


def test_a_stage_transfer_takes_its_distance_and_the_words_of_the_busiest_link() -> None:
    """Two regions side by side: one column sends d words a row, one hop east."""
    options = replace(OPTIONS, wafers=1)
    program, fabric = compiled(wafer(6, 10, 1 << 20), options=options, choice=replace(CHOICE, per_band=2))
    first, second = (stage.rect for stage in program.stages)
    assert (second.row, second.col) == (0, first.cols)
    cost, steps = fabric.decode_cost(9), np.flatnonzero(is_of_type(program.decode.steps, StageTransfer))
    words = -(-40 // 6)
    assert cause(cost, "hops")[steps[0]] == 1 * MACHINE.hop_cycles + words
    assert cost.traffic.words[steps[0]] == cost.traffic.hops[steps[0]] == 6 * words


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, wafers=1, logits_out="all")])
def test_starts_do_not_go_back_and_causes_belong_to_their_steps(options: Options) -> None:
    program, fabric = compiled(options=options, choice=replace(CHOICE, per_band=2))
    phase, costs = program.decode, [fabric.prefill_cost(0), fabric.decode_cost(9)]
    for cost in costs:
        assert (np.diff(cost.start) >= 0).all()
        assert cost.start[-1] <= cost.cycles
        assert (cost.by_cause >= 0).all()
    computes, leaves = phase.steps.kind == StepKind.COMPUTE, transfer_steps(phase.steps, lambda kind: kind.leaves_wafer)
    for name, own in (("compute", computes), ("crossing", leaves), ("host", leaves)):
        assert not cause(costs[-1], name)[~own].any()


@pytest.mark.parametrize("more", [1, 7])
def test_every_step_that_works_pays_one_dispatch(more: int) -> None:
    program, fabric = compiled()
    slower = replace(SOFTWARE, task_dispatch_cycles=SOFTWARE.task_dispatch_cycles + more)
    before = fabric.decode_cost(9)
    after = Fabric(program, MACHINE, slower).decode_cost(9)
    working = int((before.by_cause.sum(axis=1) > 0).sum())
    assert after.cycles - before.cycles == more * working
    assert working >= len(program.decode.steps) - 2


def test_a_rewrite_of_a_route_costs_what_the_software_says() -> None:
    few = replace(MACHINE, colours=16, reserved_colours=3)
    program, fabric = compiled(few)
    route_rewrites = int(program.decode.steps.route_rewrites.sum())
    assert route_rewrites > 0
    free = Fabric(program, few, replace(SOFTWARE, route_rewrite_cycles=0)).decode_cost(9)
    assert fabric.decode_cost(9).cycles - free.cycles == route_rewrites * SOFTWARE.route_rewrite_cycles


def test_a_cache_shift_takes_its_time_whether_or_not_rows_pass_an_entry() -> None:
    program, fabric = compiled()
    shifts = np.flatnonzero(is_of_type(program.decode.steps, CacheShift))
    all_pass, none_pass = fabric.decode_cost(12), fabric.decode_cost(11)
    assert all_pass.by_cause[shifts].sum() == none_pass.by_cause[shifts].sum() > 0
    assert all_pass.traffic.words[shifts].sum() > none_pass.traffic.words[shifts].sum() == 0


def test_steps_run_one_after_another_but_for_those_that_run_together() -> None:
    choice = Choice(prefill="mesh-gemm", prefill_chunk=4, head_chunk=67)
    program, fabric = compiled(wafer(5, 5, 1 << 20), options=replace(OPTIONS, wafers=1), choice=choice)
    cost, phase = fabric.prefill_cost(0), program.prefill[0]
    alone = np.flatnonzero((phase.steps.loop < 0) & (cost.by_cause.sum(axis=1) > 0))
    for step in alone:
        assert cost.start[step] == cost.by_cause[:step].sum()
    for group in {int(g) for g in phase.steps.overlap if g >= 0}:
        members = np.flatnonzero(phase.steps.overlap == group)
        assert len(set(cost.start[members])) == 1
        painting = phase.steps.route_rewrites[members] * SOFTWARE.route_rewrite_cycles
        taken = cost.by_cause[members].sum(axis=1) - painting
        assert (taken > 0).sum() == 1, "the longest of them takes the time"


def test_padding_is_charged_as_if_it_were_work() -> None:
    """40 hidden features on 6 rows are 7 a row; 42 are 7 as well and cost the same."""
    exact = tiny_spec(layers=4, hidden=42)
    options = replace(OPTIONS, wafers=1)
    padded = compiled(options=options)[1].decode_cost(9)
    program = compile_choice(exact, MACHINE, SOFTWARE, options, CHOICE)
    whole = Fabric(program, MACHINE, SOFTWARE).decode_cost(9)
    assert padded.cycles == whole.cycles
    assert np.array_equal(padded.traffic.words, whole.traffic.words)


def test_cycles_alone_count_no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that compares cycles pays for nothing else; what asks for words later has them."""
    program, fabric = compiled()
    counted: list[int] = []
    count = Traffic.step_traffic

    def step_traffic(traffic: Traffic, phase: Phase, step: int, slots: int) -> StepTraffic:
        counted.append(step)
        return count(traffic, phase, step, slots)

    monkeypatch.setattr(Traffic, "step_traffic", step_traffic)
    cost = fabric.decode_cost(9)
    assert cost.cycles > 0
    assert not counted
    assert cost.traffic.words.sum() > 0
    assert sorted(counted) == sorted(set(fabric.shape_classes(program.decode).tolist()))


def test_what_is_kept_of_other_runs_changes_nothing() -> None:
    """Costs, traffic and bounds of one run after another are those of a model that was requested that run alone."""
    program, kept = compiled(choice=replace(CHOICE, prefill_chunk=1))
    phase, bounds = program.decode, PhaseBounds(program, MACHINE, SOFTWARE)
    assert by_slots(phase.steps).any()
    for index in (1, 0):
        alone = Fabric(program, MACHINE, SOFTWARE).prefill_cost(index)
        np.testing.assert_array_equal(kept.prefill_cost(index).by_cause, alone.by_cause)
    for length in (25, 4, 13):
        cost, alone = kept.decode_cost(length), Fabric(program, MACHINE, SOFTWARE).decode_cost(length)
        np.testing.assert_array_equal(cost.by_cause, alone.by_cause)
        np.testing.assert_array_equal(cost.traffic.words, alone.traffic.words)
        np.testing.assert_array_equal(cost.links, alone.links)
        asked = (phase, program.cache_slots(length), kept.shape_classes(phase))
        np.testing.assert_array_equal(bounds.of(*asked), PhaseBounds(program, MACHINE, SOFTWARE).of(*asked))
