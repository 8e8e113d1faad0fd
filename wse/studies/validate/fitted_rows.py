"""Measurements that constants of the models were fitted on.

The tools that fit constants select their rows with the functions of this module, and `wse validate`
uses the same functions to report the errors of all other rows separately.

Four fits select their rows one by one: the profiles `academic` and `production`, the compute-engine
profile `epcc`, and the stacks of GPUs. For the remaining constants, only the kind and the source of
the rows are known. All rows of that kind and source then count as fitted:

- chain and two-phase reduces on the WSE-2 simulator: start and end of a timed collective, and the
  gap between two operations
- messages between two PEs, except the turns of a path, for which there is no constant
- vector operations of one PE on WSE-3
- bytes of code and of fixed buffers on a PE
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, TypeVar

from wse.studies.estimate.request import EstimateRequest
from wse.studies.validate.gpu_calibration import CALIBRATIONS, FitRow, calibration_rows
from wse.studies.validate.kinds import CODE_AND_BUFFERS, WAFERLLM_DECODE, WORK_OF_A_PE, kind_of
from wse.studies.validate.measured.measurements import BUNDLED, Measurement, read
from wse.studies.validate.measured.terms import LAST_PLAIN_MONTH, NO_DRAFT, drafts, earliest_month
from wse.studies.validate.predictors.gpus import METHOD as GPU_METHOD
from wse.studies.validate.predictors.gpus import fits, serving_row
from wse.studies.validate.predictors.prediction import unless_declined
from wse.studies.validate.predictors.services import METHODS as SERVICE_METHODS
from wse.studies.validate.predictors.services import service_request

RowT = TypeVar("RowT")
"""A measurement, or an object that a fit derives from it."""

SAMPLING_STEP: Final = 4
"""Only every 4th row of MeshGEMV, MeshGEMM and shifts is fitted, because rows are similar."""

DECODE: Final = "decode"

ROUNDING: Final = 1e-3
"""Largest relative difference of a figure from the same figure rounded in another table."""

_FIRST_TOKEN: Final = "ttft"
_FITTED_REDUCES: Final = re.compile(r"^(chain|two-phase)\b", re.IGNORECASE)
_FITTED_REDUCES_SOURCE: Final = "pr0f3ss/SpMM_Cerebras"
_VECTOR_SOURCE: Final = "luozoupi/FABRICA"


def is_fitted(m: Measurement, method: str) -> bool:
    """Return whether a measurement was used to fit a constant of the models.

    Measurements that repeat a value used in a fit, exactly or rounded, also count as used. If a
    speed or time of a GPU benchmark was used, all other speeds and times per token of the same
    benchmark count as used as well, because they follow from each other.

    Args:
        m: The measurement. A copy of a bundled row in another file counts like the bundled row.
        method: Name of the method that predicts the measurement.
    """
    if method == GPU_METHOD:
        return _is_fitted_run(m)
    if method in SERVICE_METHODS.values():
        return _states_launch_speed(m)
    kind = kind_of(m, method)
    if m.table == "inference":
        fitted_value = _engine_fitted_values().get(m.text("id"))
        is_fitted_row = fitted_value is not None and abs((m.measured or 0) / fitted_value - 1) < ROUNDING
        return kind.name == CODE_AND_BUFFERS or is_fitted_row
    if kind.name == WAFERLLM_DECODE:
        return any(abs((m.measured or 0) / speed - 1) < ROUNDING for speed in _fitted_decode_speeds())
    if academic_group(m):
        return frozenset(m.input.items()) in _fitted_kernel_rows()
    kernel = m.kernel.lower()
    if kernel == "reduce":
        return _FITTED_REDUCES_SOURCE in m.source and bool(_FITTED_REDUCES.match(m.text("algorithm")))
    if kernel == "point-to-point":
        return "turn" not in m.text("metric")
    return kind.name == WORK_OF_A_PE and _VECTOR_SOURCE in m.source


def academic_group(m: Measurement) -> str:
    """Return the name of a measurement's group of similar measurements, such as "MeshGEMV".

    The constants of the software profile `academic` are fitted separately for each group. The
    result is "" if the measurement is not used in this fit.
    """
    system = m.text("system")
    if m.text("evidence") == "hardware-log" and m.text("metric") == "mean_cycles":
        return system.split(" ")[0]
    is_table = system == "WaferLLM" and m.text("evidence") == "paper-table" and "repeat" not in m.text("note")
    return m.text("phase") if is_table else ""


def academic_sample(rows: Sequence[RowT], group: str) -> Sequence[RowT]:
    """Select the measurements of a group to which constants are fitted.

    All rows of the decode group are selected, and every fourth row of any other group.

    Args:
        rows: All measurements of the group.
        group: Name of the group, from `academic_group`.
    """
    return rows if group == DECODE else rows[::SAMPLING_STEP]


def launch_rows(rows: Iterable[Measurement]) -> list[tuple[Measurement, EstimateRequest]]:
    """Select the published speeds to which the software profile `production` is fitted.

    For each model, the result has the first speed that was published without speculative decoding
    and with a number of wafers. It must not be later than `LAST_PLAIN_MONTH`, because the service
    used speculative decoding after this month.

    Returns:
        The measurement of each model, with the request that estimates it.
    """
    row_of_model: dict[str, tuple[Measurement, EstimateRequest]] = {}
    for m in rows:
        service = unless_declined(service_request, m)
        if service is None or service.request.wafers is None or drafts(m) != NO_DRAFT:
            continue
        name = str(service.request.model)
        if earliest_month(m, name) <= LAST_PLAIN_MONTH:
            row_of_model.setdefault(name, (m, service.request))
    return list(row_of_model.values())


def _is_fitted_run(m: Measurement) -> bool:
    """Return whether a measurement is from a GPU benchmark that is used to fit constants."""
    conditions = unless_declined(serving_row, m)
    if conditions is None or conditions.stack not in CALIBRATIONS or m.text("metric").startswith(_FIRST_TOKEN):
        return False
    row = FitRow(measurement=m, conditions=conditions)
    return bool(calibration_rows(conditions.stack, [row])) and fits(conditions)


def _states_launch_speed(m: Measurement) -> bool:
    """Return whether the profile `production` is fitted to the speed stated by a measurement."""
    service = unless_declined(service_request, m)
    if service is None:
        return False
    return (str(service.request.model), service.request.wafers, m.measured) in _launch_speeds()


@cache
def _engine_fitted_values() -> dict[str, float]:
    """Return the measured values of the rows that `compute_engine/epcc.toml` was fitted on, by id.

    The rows are those that `tools/fit_compute_engine.py` selects from EPCC's 2026 working notes.
    Other rows of the same groups are not fitted.
    """
    with (BUNDLED.parent / "engine_fitted_rows.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: float(row["value"]) for row in csv.DictReader(file)}


@cache
def _launch_speeds() -> frozenset[tuple[str, int | None, float | None]]:
    rows = launch_rows(read(BUNDLED / "public_tokens_per_s.csv"))
    return frozenset((str(request.model), request.wafers, m.measured) for m, request in rows)


@cache
def _academic_rows() -> dict[str, Sequence[Measurement]]:
    """Return the bundled measurements to which the profile `academic` is fitted.

    The keys are groups of similar measurements, such as "MeshGEMV". Each group is fitted
    separately.
    """
    groups: dict[str, list[Measurement]] = {}
    for m in read(BUNDLED / "waferllm_measured.csv"):
        group = academic_group(m)
        if group == DECODE or m.text("evidence") == "hardware-log":
            groups.setdefault(group, []).append(m)
    return {group: academic_sample(rows, group) for group, rows in groups.items() if group}


@cache
def _fitted_kernel_rows() -> frozenset[frozenset[tuple[str, str]]]:
    return frozenset(frozenset(m.input.items()) for rows in _academic_rows().values() for m in rows)


@cache
def _fitted_decode_speeds() -> tuple[float, ...]:
    return tuple(m.measured for m in _academic_rows()[DECODE] if m.measured)
