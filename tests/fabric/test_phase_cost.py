"""Tests of phase costs: cycles of single step types against closed forms, start times, and caching between runs."""

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
from wse.program.program import Program
from wse.program.steps import Phase, StepKind
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


def cause_cycles(cost: PhaseCost, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the cycles of one cause, float64 ``[steps]``."""
    return np.asarray(cost.by_cause[:, CAUSES.index(name)])


def test_crossing_cycles_are_link_latency_plus_bytes_over_bandwidth() -> None:
    program, fabric = compiled()
    cost, phase = fabric.decode_cost(9), program.decode
    crossings = np.flatnonzero(is_of_type(phase.steps, Crossing))
    assert len(crossings) == 2, "to the second wafer, and back to the first, which stores the tied table"
    for step in crossings:
        seconds = MACHINE.wafer_link_latency_s + 40 * 4 / MACHINE.wafer_link_bytes_per_s
        assert cause_cycles(cost, "crossing")[step] == np.ceil(seconds * MACHINE.clock_hz)


def test_host_cycles_are_half_a_round_trip_for_the_prompt_and_a_full_one_for_a_sampled_id() -> None:
    greedy, fabric = compiled()
    step = np.flatnonzero(is_of_type(greedy.prefill[0].steps, TokensIn))
    half_trip = (MACHINE.host_round_trip_s / 2 + 4 * 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz
    assert cause_cycles(fabric.prefill_cost(0), "host")[step] == np.ceil(half_trip)
    step = np.flatnonzero(is_of_type(greedy.decode.steps, TokenOut))  # greedy decoding does not wait for the host
    assert fabric.decode_cost(9).by_cause[step].sum() == 0
    sampled, fabric = compiled(options=replace(OPTIONS, sampling="host"))
    step = np.flatnonzero(is_of_type(sampled.decode.steps, DrawnIn))
    full_trip = (MACHINE.host_round_trip_s + 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz
    assert cause_cycles(fabric.decode_cost(9), "host")[step] == np.ceil(full_trip)


def test_logits_out_cycles_are_bytes_over_bandwidth() -> None:
    program, fabric = compiled(options=replace(OPTIONS, logits_out="all"))
    step = np.flatnonzero(is_of_type(program.decode.steps, LogitsOut))
    transfer_cycles = 67 * 4 / MACHINE.host_bytes_per_s * MACHINE.clock_hz
    assert cause_cycles(fabric.decode_cost(9), "host")[step] == np.ceil(transfer_cycles)


def test_stage_transfer_cycles_are_distance_plus_words_of_the_busiest_link() -> None:
    """In two adjacent regions, each row of the first sends ceil(40 / 6) words one hop east."""
    options = replace(OPTIONS, wafers=1)
    program, fabric = compiled(wafer(6, 10, 1 << 20), options=options, choice=replace(CHOICE, per_band=2))
    first, second = (stage.rect for stage in program.stages)
    assert (second.row, second.col) == (0, first.cols)
    cost, steps = fabric.decode_cost(9), np.flatnonzero(is_of_type(program.decode.steps, StageTransfer))
    words = -(-40 // 6)
    assert cause_cycles(cost, "hops")[steps[0]] == 1 * MACHINE.hop_cycles + words
    assert cost.traffic.words[steps[0]] == cost.traffic.hops[steps[0]] == 6 * words


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, wafers=1, logits_out="all")])
def test_start_times_ascend_and_causes_match_step_types(options: Options) -> None:
    program, fabric = compiled(options=options, choice=replace(CHOICE, per_band=2))
    phase, costs = program.decode, [fabric.prefill_cost(0), fabric.decode_cost(9)]
    for cost in costs:
        assert (np.diff(cost.start) >= 0).all()
        assert cost.start[-1] <= cost.cycles
        assert (cost.by_cause >= 0).all()
    computes, leaves_wafer = (
        phase.steps.kind == StepKind.COMPUTE,
        transfer_steps(phase.steps, lambda kind: kind.leaves_wafer),
    )
    for name, has_cause in (("compute", computes), ("crossing", leaves_wafer), ("host", leaves_wafer)):
        assert not cause_cycles(costs[-1], name)[~has_cause].any()


def test_dispatch_is_charged_once_per_step_with_work() -> None:
    extra_cycles, (program, fabric) = 7, compiled()
    slower = replace(SOFTWARE, task_dispatch_cycles=SOFTWARE.task_dispatch_cycles + extra_cycles)
    before = fabric.decode_cost(9)
    after = Fabric(program, MACHINE, slower).decode_cost(9)
    working = int((before.by_cause.sum(axis=1) > 0).sum())
    assert after.cycles - before.cycles == extra_cycles * working
    assert working >= len(program.decode.steps) - 2


def test_route_rewrite_costs_the_cycles_of_the_software_profile() -> None:
    few_colours = replace(MACHINE, colours=16, reserved_colours=3)
    program, fabric = compiled(few_colours)
    route_rewrites = int(program.decode.steps.route_rewrites.sum())
    assert route_rewrites > 0
    free = Fabric(program, few_colours, replace(SOFTWARE, route_rewrite_cycles=0)).decode_cost(9)
    assert fabric.decode_cost(9).cycles - free.cycles == route_rewrites * SOFTWARE.route_rewrite_cycles


def test_cache_shift_costs_the_same_cycles_if_no_row_passes_an_entry() -> None:
    program, fabric = compiled()
    shifts = np.flatnonzero(is_of_type(program.decode.steps, CacheShift))
    all_pass, none_pass = fabric.decode_cost(12), fabric.decode_cost(11)
    assert all_pass.by_cause[shifts].sum() == none_pass.by_cause[shifts].sum() > 0
    assert all_pass.traffic.words[shifts].sum() > none_pass.traffic.words[shifts].sum() == 0


def test_steps_run_sequentially_except_within_an_overlap_group() -> None:
    choice = Choice(prefill="mesh-gemm", prefill_chunk=4, head_chunk=67)
    program, fabric = compiled(wafer(5, 5, 1 << 20), options=replace(OPTIONS, wafers=1), choice=choice)
    cost, phase = fabric.prefill_cost(0), program.prefill[0]
    sequential_steps = np.flatnonzero((phase.steps.loop < 0) & (cost.by_cause.sum(axis=1) > 0))
    for step in sequential_steps:
        assert cost.start[step] == cost.by_cause[:step].sum()
    for group in {int(g) for g in phase.steps.overlap if g >= 0}:
        members = np.flatnonzero(phase.steps.overlap == group)
        assert len(set(cost.start[members])) == 1
        rewrite_cycles = phase.steps.route_rewrites[members] * SOFTWARE.route_rewrite_cycles
        cycles = cost.by_cause[members].sum(axis=1) - rewrite_cycles
        assert (cycles > 0).sum() == 1, "only the longest step of the group is charged"


def test_padding_is_charged_like_data() -> None:
    """40 hidden features on 6 rows need 7 per row, like 42 features, and cost the same."""
    exact = tiny_spec(layers=4, hidden=42)
    options = replace(OPTIONS, wafers=1)
    padded = compiled(options=options)[1].decode_cost(9)
    program = compile_choice(exact, MACHINE, SOFTWARE, options, CHOICE)
    whole = Fabric(program, MACHINE, SOFTWARE).decode_cost(9)
    assert padded.cycles == whole.cycles
    assert np.array_equal(padded.traffic.words, whole.traffic.words)


def test_traffic_is_counted_on_first_access_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that only compares cycles does not pay for counting words."""
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


def test_cached_costs_equal_those_of_a_new_model() -> None:
    """A model that timed other runs reports the same costs, traffic and bounds as a model that timed only one run."""
    program, cached_fabric = compiled(choice=replace(CHOICE, prefill_chunk=1))
    phase, bounds = program.decode, PhaseBounds(program, MACHINE, SOFTWARE)
    assert by_slots(phase.steps).any()
    for index in (1, 0):
        alone = Fabric(program, MACHINE, SOFTWARE).prefill_cost(index)
        np.testing.assert_array_equal(cached_fabric.prefill_cost(index).by_cause, alone.by_cause)
    for length in (25, 4, 13):
        cost, alone = cached_fabric.decode_cost(length), Fabric(program, MACHINE, SOFTWARE).decode_cost(length)
        np.testing.assert_array_equal(cost.by_cause, alone.by_cause)
        np.testing.assert_array_equal(cost.traffic.words, alone.traffic.words)
        np.testing.assert_array_equal(cost.links, alone.links)
        arguments = (phase, program.cache_slots(length), cached_fabric.shape_classes(phase))
        np.testing.assert_array_equal(bounds.of(*arguments), PhaseBounds(program, MACHINE, SOFTWARE).of(*arguments))
