"""The wafer and the software profile with which measured inference is predicted."""

from __future__ import annotations

from functools import cache
from typing import Final

from wse.hardware.compute_engine import load_compute_engine
from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.durations import in_unit
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator, wafer_of
from wse.studies.validate.predictors.prediction import NO_GENERATION, Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.described_run import DescribedRun, described_run
from wse.studies.validate.predictors.wafer_inference.kernel_model.layer_time import LayerTime
from wse.studies.validate.predictors.wafer_inference.kernel_model.step_time import StepTime

PROFILE: Final = "epcc"
METHOD: Final = "compute-engine model"
SIMULATOR: Final = "measured in a simulator, whose costs of operations the profile does not have"


def step_time_of(m: Measurement) -> StepTime | Prediction:
    """Return the timing model for a measurement's wafer, or the reason why there is none."""
    if on_simulator(m):
        return decline(SIMULATOR)
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    rows, cols = m.sizes.get("block_rows") or 1, m.sizes.get("block_cols") or 1
    if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
        return decline(f"the block is larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs")
    return step_time(wafer)


def timed_run(m: Measurement) -> tuple[StepTime, DescribedRun] | Prediction:
    """Return the timing model for a measurement's wafer, and the run that was measured.

    If one of them is unknown, the result is a Prediction with the reason.
    """
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    run = described_run(m)
    return decline(run) if isinstance(run, str) else (steps, run)


def memory_wafer(m: Measurement) -> WaferSpec:
    """Return the wafer of an SRAM measurement, or the default wafer if none is stated.

    The sizes reported by a linker state no wafer.
    """
    return wafer_of(m) or load_wafer(DEFAULT_WAFER)


@cache
def step_time(wafer: WaferSpec) -> StepTime:
    """Return the timing model of decode steps on a wafer with the software profile."""
    return StepTime(LayerTime(wafer, load_compute_engine(PROFILE)))


def duration(m: Measurement, cycles: float) -> Prediction:
    """Return a Prediction with a duration, converted from cycles to the measurement's unit.

    If that unit is not one of a duration, the Prediction has a reason instead of a value.
    """
    value = in_unit(m, cycles, load_compute_engine(PROFILE).clock_hz)
    if value is None:
        return decline(f"the unit {m.text('unit')[:30]!r} is not one of a duration, or its clock is no positive number")
    return in_row_unit(value)


def in_row_unit(value: float) -> Prediction:
    """Return a Prediction with a value that is already in the unit of the measurement."""
    return Prediction(value=value, method=METHOD, software=PROFILE)
