"""Tests of the response surface against complete timings of Programs, and of timing models with changed costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from tiers import slow_but

from wse.backends.fabric.model import Fabric
from wse.program.program import Program
from wse.serving.operating_point import operating_point
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.ranges.constants import (
    Costs,
    UncertainConstant,
    probabilities_of,
    uncertain_constants,
    values_at,
)
from wse.studies.estimate.ranges.retiming import TIMES, Retiming, scaled_deployment
from wse.studies.estimate.ranges.surface import ResponseSurface, response_surface
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import replace_options
from wse.studies.options.placement import MachineOptions

SHORT = {"schedule": "baseline", "prompt_len": 64, "new_tokens": 64}
MODELS = {
    "story": {"mesh": "32x32", **SHORT},
    "story on two wafers": {
        "mesh": "20x20",
        "wafers": 2,
        "mapping": "pipeline",
        "batch": 2,
        "software": "tuned",
        **SHORT,
    },
}
SAMPLES = 8


@dataclass(frozen=True, kw_only=True)
class CompiledCase:
    """A compiled estimate with its uncertain constants and its response surface."""

    prepared: PreparedEstimate
    program: Program
    constants: tuple[UncertainConstant, ...]
    surface: ResponseSurface


@cache
def compiled(name: str) -> CompiledCase:
    """Compile MODELS[name] once per process."""
    request = replace_options(EstimateRequest(model=name.partition(" ")[0]), **MODELS[name])
    layout = choose_layout(prepare_estimate(request))
    prepared, program = layout.prepared, layout.compilation.program
    constants = uncertain_constants(request.machine, prepared.wafer.generation)
    surface = response_surface(Retiming(prepared, program), constants, on_several_wafers=program.wafers > 1)
    return CompiledCase(prepared=prepared, program=program, constants=constants, surface=surface)


@pytest.mark.parametrize("name", slow_but([*MODELS], "story"))
def test_surface_agrees_with_complete_timings(name: str) -> None:
    case = compiled(name)
    constants = case.surface.constants
    costs = Costs(wafer=case.prepared.wafer, software=case.prepared.software)
    columns = [values_at(constant.number, probabilities_of(constant.name, SAMPLES)) for constant in constants]
    base = timed_deployment(case.prepared, case.program)
    errors = []
    for row in np.stack(columns, axis=1).tolist():
        sampled_costs = costs
        for constant, value in zip(constants, row, strict=True):
            sampled_costs = sampled_costs.with_constant(constant.name, value)
        rounded = [_value(sampled_costs, constant.name) for constant in constants]
        changed = replace(case.prepared, wafer=sampled_costs.wafer, software=sampled_costs.software)
        exact = operating_point(timed_deployment(changed, case.program), 1)
        estimate = operating_point(scaled_deployment(base, case.surface.ratios(np.array([rounded]))[0]), 1)
        errors.append([estimate.ttft_s / exact.ttft_s - 1, estimate.tpot_s / exact.tpot_s - 1])
    ttft_errors, tpot_errors = np.abs(errors).T
    assert np.median(tpot_errors) < 0.005
    assert tpot_errors.max() < 0.025
    assert np.median(ttft_errors) < 0.01
    assert ttft_errors.max() < 0.02


def test_surface_is_exact_at_the_stated_constants() -> None:
    surface = compiled("story").surface
    values = np.array([[constant.number.value for constant in surface.constants]])
    assert surface.ratios(values) == pytest.approx(np.ones((1, len(TIMES))))


def test_doubled_clock_halves_the_times_on_the_wafer() -> None:
    surface = compiled("story").surface
    values = np.array([[constant.number.value for constant in surface.constants]])
    clock = [constant.name for constant in surface.constants].index("wafer.clock_hz")
    values[0, clock] *= 2
    token, stage, prompt, delay = surface.ratios(values)[0]
    assert token == pytest.approx(0.5, rel=0.01)
    assert stage == pytest.approx(0.5, rel=0.01)
    assert prompt == pytest.approx(0.5, rel=0.01)
    assert delay > 0.6  # the round trip to the host does not depend on the clock


def test_constants_without_a_range_or_a_use_are_left_out() -> None:
    names = {constant.name for constant in compiled("story").surface.constants}
    assert {"wafer.clock_hz", "software.task_dispatch_cycles"} <= names
    assert not names & {"wafer.hop_cycles", "wafer.wafer_link_latency_s", "wafer.mesh_rows"}
    links = {constant.name for constant in compiled("story on two wafers").surface.constants}
    assert "wafer.wafer_link_latency_s" in links


def test_constant_set_by_the_user_has_no_range() -> None:
    machine = MachineOptions(wafer="wse3", software="tuned", wafer_values=(("clock_hz", 9e8),))
    constants = uncertain_constants(machine, "wse3")
    assert "wafer.clock_hz" not in {constant.name for constant in constants}
    machine = MachineOptions(wafer="wse2", software="academic")
    constants_of_generation = {c.name: c.number.value for c in uncertain_constants(machine, "wse2")}
    assert constants_of_generation["software.relay_cycles"] == 14


@pytest.mark.parametrize(
    "changes",
    [
        {"task_dispatch_cycles": 7}, {"function_cycles": 31}, {"relay_cycles": 3}, {"reduce_gap_cycles": 40},
        {"transfer_sync_cycles": 90}, {"bank_conflict_ratio": 1.5}, {"route_rewrite_cycles": 0}, {"loop_cycles": 33},
    ],
)  # fmt: skip
def test_model_with_changed_costs_equals_a_new_model(changes: dict[str, float]) -> None:
    """``with_costs`` reuses parts of the old model; the result must equal that of a model built from scratch."""
    case = compiled("story on two wafers")
    wafer, meshes, context = case.prepared.wafer, case.prepared.meshes, case.prepared.middle_context
    fabric = Fabric(case.program, wafer, case.prepared.software, meshes)
    fabric.decode_cost(*context)
    other_wafer = replace(wafer, ramp_cycles=5, host_round_trip_s=0.01)
    for new_wafer in (wafer, other_wafer):
        software = replace(case.prepared.software, **changes)
        shared, new = fabric.with_costs(new_wafer, software), Fabric(case.program, new_wafer, software, meshes)
        assert np.array_equal(shared.decode_cost(*context).by_cause, new.decode_cost(*context).by_cause)
        for index in (0, len(case.program.prefill) - 1):
            assert np.array_equal(shared.prefill_cost(index).by_cause, new.prefill_cost(index).by_cause)


def _value(costs: Costs, name: str) -> float:
    """Return the constant of a name such as ``wafer.clock_hz``."""
    place, _, key = name.partition(".")
    return float(getattr(getattr(costs, place), key))
