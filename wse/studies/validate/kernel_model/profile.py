"""The wafer and the profile with which measured inference is predicted, and units of its times."""

from __future__ import annotations

import re
from typing import Final

from wse.hardware.compute_engine import load_compute_engine
from wse.studies.validate.kernel_model.described_run import DescribedRun, described_run
from wse.studies.validate.kernel_model.step_time import StepTime
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator, wafer_of
from wse.studies.validate.measured.text_numbers import SECONDS, read_number
from wse.studies.validate.predictors.prediction import NO_GENERATION, Declined, Prediction, require

_CLOCK: Final = re.compile(r"at (?:an assumed )?([0-9.]+) ?([GM])Hz", re.IGNORECASE)
_CYCLES: Final = {"cycle": 1, "cycles": 1, "kcycles": 1e3, "mcycles": 1e6}


def in_unit(m: Measurement, cycles: float, clock_hz: float) -> float | None:
    """Convert cycles to the unit of a measurement, or return None if it has no time or rate unit.

    None is also returned for a clock that is not a positive number.

    Args:
        m: The measurement. If its unit or metric specifies a clock, that clock is used.
        cycles: The duration in cycles.
        clock_hz: Clock to use if the measurement does not specify one.
    """
    unit = m.text("unit").strip().lower()
    match = _CLOCK.search(unit) or _CLOCK.search(m.text("metric"))
    if match:
        clock_hz = (read_number(match[1]) or 0) * (1e9 if match[2].lower() == "g" else 1e6)
        if not clock_hz:
            return None
    first = unit.split()[0].split("/")[0] if unit else ""
    if first in _CYCLES:
        return cycles / _CYCLES[first]
    if unit.startswith(("tok/s", "tokens/s", "token/s")):
        return clock_hz / cycles if cycles else None
    return cycles / clock_hz / SECONDS[first] if first in SECONDS else None


PROFILE: Final = "epcc"
METHOD: Final = "compute-engine model"
SIMULATOR: Final = "measured in a simulator, whose costs of operations the profile does not have"


def step_time_of(m: Measurement) -> StepTime:
    """Return the timing model of decode steps on the wafer that a measurement names.

    The software costs are those of the profile `PROFILE`.

    Raises:
        Declined: The wafer is not known, its block of PEs is too large, or it was simulated.
    """
    if on_simulator(m):
        raise Declined(SIMULATOR)
    wafer = require(wafer_of(m), NO_GENERATION)
    rows, cols = m.sizes.get("block_rows") or 1, m.sizes.get("block_cols") or 1
    if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
        raise Declined(f"the block is larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs")
    return StepTime(wafer, load_compute_engine(PROFILE))


def timed_run(m: Measurement) -> tuple[StepTime, DescribedRun]:
    """Return a wafer's timing model, and the run (model, PEs and context) that was measured.

    Raises:
        Declined: The wafer is not known, or the measurement does not state the run.
    """
    return step_time_of(m), described_run(m)


def duration(m: Measurement, cycles: float) -> Prediction:
    """Return a Prediction with a duration, converted from cycles to the measurement's unit.

    Raises:
        Declined: That unit is not a unit of time or rate.
    """
    value = in_unit(m, cycles, load_compute_engine(PROFILE).clock_hz)
    reason = f"the unit {m.text('unit')[:30]!r} is not one of a duration, or its clock is no positive number"
    return in_row_unit(require(value, reason))


def in_row_unit(value: float) -> Prediction:
    """Return a Prediction with a value that needs no conversion to the unit of the measurement."""
    return Prediction(value=value, method=METHOD, software=PROFILE)
