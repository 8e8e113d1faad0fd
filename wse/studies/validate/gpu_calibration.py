"""Calibration of GPU serving stacks: which constants are fitted to which rows, and how well.

A fit minimises the sum of |log(predicted / measured)|. It varies the logarithms of the constants,
each within its bounds, by Gauss-Newton steps with weights 1 / |error| (iteratively reweighted least
squares). A small penalty for the distance from the starting point (`PULL`) determines constants on
which the measurements do not depend, such as the cost of an all-reduce if all runs used one GPU.

All other constants, with their sources, are in `wse/serving/gpus/stacks`. Some models and GPUs are
excluded from a fit because their conditions are unclear. They are predicted nevertheless:

- DeepSeek-R1 (TensorRT-LLM): the source does not distinguish runs with speculative decoding from
  runs without.
- Qwen3-32B (TensorRT-LLM): the source does not state the KV-cache precision.
- Mixtral (TensorRT-LLM of 2024): 16 users are served faster than the experts for 16 different
  prompts could be read at the stated bandwidth. The prompts were therefore equal and used the same
  experts.
- GH200 (stacks of 2024): it has a different host, and these measurements depend on host speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np

from wse.errors import BadInput
from wse.files import read_toml
from wse.reports.progress import OnProgress, ignore
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.spec import StackSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.gpus import ServingRow, fits, serving_row, value_of
from wse.studies.validate.predictors.prediction import unless_declined

Constants = Mapping[str, float]
"""Constant values, keyed by StackSpec field, or by ``field.generation`` for a GPU generation."""

ROUNDS: Final = 80
PULL: Final = 1e-3
SMALLEST_ERROR: Final = 0.02
"""Lower bound on the error in the weights. Without it, a single exactly predicted row would
dominate the fit."""
STEP: Final = 1e-4
LONGEST_STEP: Final = 0.5

FITS_FILE: Final = Path(__file__).parents[2] / "data" / "gpu_calibrations.toml"
STARTS: Final[dict[str, tuple[float, float, float]]] = read_toml(FITS_FILE, BadInput)["starts"]
"""Minimum, start and maximum of each constant in a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """A GPU measurement with its conditions, such as the model and the number of users."""

    measurement: Measurement
    conditions: ServingRow

    @property
    def metric(self) -> str:
        """Name of the measured metric."""
        return self.measurement.text("metric").strip()

    @property
    def gpu(self) -> str:
        """Name of the GPU preset."""
        return self.conditions.gpu


def fit_rows(measurements: Iterable[Measurement]) -> list[FitRow]:
    """Select the GPU measurements to which constants can be fitted.

    All users of the benchmark must fit in memory. If all users start together, only the total
    output rate in tokens/s is selected. Otherwise, only the time per output token is selected.
    """
    rows = []
    for m in measurements:
        conditions = unless_declined(serving_row, m)
        if conditions is None or not m.measured:
            continue
        fitted_metric = "system_output_tok_s" if conditions.begin_together else "tpot_ms"
        if m.text("metric").strip() == fitted_metric and fits(conditions):
            rows.append(FitRow(measurement=m, conditions=conditions))
    return rows


def stack_with(name: str, generation: str, constants: Constants) -> StackSpec:
    """Return a bundled serving stack with some of its constants replaced.

    Args:
        name: Name of the stack.
        generation: GPU generation. Constants of other generations are ignored.
        constants: The new values.
    """
    values = {key.partition(".")[0]: v for key, v in constants.items() if key.partition(".")[2] in ("", generation)}
    return replace(load_stack(name, generation), **values)  # type: ignore[arg-type]


def log_errors(rows: Sequence[FitRow], constants: Constants) -> np.ndarray:
    """Return log(predicted / measured) for each measurement, float64 [rows].

    Args:
        rows: Measurements of one serving stack.
        constants: Values that override the constants of the bundled stack.
    """
    stacks = {
        gpu: stack_with(rows[0].conditions.stack, load_gpu(gpu).generation, constants)
        for gpu in dict.fromkeys(row.gpu for row in rows)
    }
    return np.array(
        [math.log(value_of(r.conditions, r.metric, stacks[r.gpu]) / (r.measurement.measured or 1)) for r in rows]
    )


def fit(rows: Sequence[FitRow], keys: Sequence[str]) -> dict[str, float]:
    """Return the constants for which the predictions fit the measurements best.

    Args:
        rows: Measurements of one serving stack.
        keys: Names of the constants to fit. All other constants keep the values of the bundled
            stack.
    """
    logs = np.log([STARTS[key.partition(".")[0]] for key in keys])
    bounds = logs[:, ::2]
    logs = _descend(lambda p: log_errors(rows, dict(zip(keys, np.exp(p), strict=True))), logs[:, 1], bounds)
    return {key: float(value) for key, value in zip(keys, np.exp(logs), strict=True)}


def _descend(errors_at: Callable[[np.ndarray], np.ndarray], start: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Minimise the sum of absolute errors by damped Gauss-Newton steps (Levenberg-Marquardt).

    In each iteration:

    1. Linearise the errors at the current point, using numerical derivatives and a weight for each
       error.
    2. Increase the damping until a step reduces the cost. If no step does, return the point.

    Args:
        errors_at: Function that returns the errors, [rows], at a point.
        start: Starting point, [constants]. A small penalty keeps the result near it.
        bounds: Minimum and maximum of each coordinate, [constants, 2].
    """
    point, errors, damping = start, errors_at(start), 1e-2

    def cost(p: np.ndarray, e: np.ndarray) -> float:
        """Return the sum of absolute errors plus the penalty for the distance from the start point.

        Args:
            p: Values of the fitted constants, [constants].
            e: Errors of the predictions with these values, [measurements].
        """
        return float(np.abs(e).sum() + PULL * ((p - start) ** 2).sum())

    for _ in range(ROUNDS):
        # 1. Linearise.
        weights = 1 / np.maximum(np.abs(errors), SMALLEST_ERROR)
        slopes = [(errors_at(point + STEP * unit) - errors) / STEP for unit in np.eye(len(point))]
        jacobian = np.stack(slopes, axis=1)
        curvature = jacobian.T @ (weights[:, None] * jacobian) + 2 * PULL * np.eye(len(point))
        gradient = jacobian.T @ (weights * errors) + 2 * PULL * (point - start)
        # 2. Find a step that reduces the cost.
        while damping < 1e8:
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            new_point = np.clip(point - np.clip(step, -LONGEST_STEP, LONGEST_STEP), bounds[:, 0], bounds[:, 1])
            new_errors = errors_at(new_point)
            if cost(new_point, new_errors) < cost(point, errors) - 1e-9:
                point, errors, damping = new_point, new_errors, max(damping / 3, 1e-6)
                break
            damping *= 4
        else:
            break
    return point


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Settings for fitting a serving stack's constants to measurements.

    Attributes:
        keys: Names of the fitted constants. ``name.generation`` fits a separate value per GPU
            generation.
        without_models: Models whose measurements are excluded.
        without_gpus: GPUs whose measurements are excluded.
    """

    keys: tuple[str, ...]
    without_models: tuple[str, ...] = ()
    without_gpus: tuple[str, ...] = ()


CALIBRATIONS: Final[dict[str, Calibration]] = {
    name: Calibration(**{key: tuple(names) for key, names in table.items()})
    for name, table in read_toml(FITS_FILE, BadInput)["stacks"].items()
}

SOURCES: Final = ("silicon_sample.csv", "LLM-Inference-Bench")
"""Parts of the web addresses of the sources used for fits.

These sources provide a curve over the number of users. Single runs of other benchmarks are only
predicted."""


def calibration_rows(stack: str, rows: Sequence[FitRow]) -> list[FitRow]:
    """Return the measurements to which the constants of a serving stack are fitted.

    These are measurements of the stack from `SOURCES`, except for the models and GPUs that its
    settings exclude.

    Args:
        stack: Name of the stack.
        rows: Measurements of any stack.
    """
    calibration = CALIBRATIONS[stack]
    return [
        row
        for row in rows
        if row.conditions.stack == stack
        and row.conditions.model not in calibration.without_models
        and row.gpu not in calibration.without_gpus
        and any(source in row.measurement.source for source in SOURCES)
    ]


class LeftOut(Result):
    """Prediction errors of one cross-validation test of a serving stack's timing model.

    The constants of the stack are fitted to some measurements, and the errors are those of the
    predictions for other measurements.
    """

    stack: Annotated[str, Doc("Name of the serving stack.")]
    what: Annotated[str, Doc("Name of the test: which measurements were excluded, or which predict which.")]
    fitted: Annotated[int, Doc("Number of measurements on which the constants were fitted.")]
    predicted: Annotated[int, Doc("Number of predicted measurements.")]
    mean_abs_error_pct: Annotated[float, Doc("Mean absolute error of the predictions.", "%")]
    bias_pct: Annotated[float, Doc("Mean signed error of the predictions.", "%")]


Test = tuple[str, list[FitRow], list[FitRow]]
"""A test: its name, the measurements used in the fit, and the predicted measurements."""


def left_out(rows: Sequence[FitRow], on_progress: OnProgress = ignore) -> tuple[LeftOut, ...]:
    """Cross-validate the fits of all serving stacks, and return each test's errors.

    A test fits the constants of a stack to some of its measurements and predicts other ones. Each
    stack with enough measurements has these tests:

    - For each model, predict its measurements from those of all other models.
    - For each GPU, predict its measurements from those of all other GPUs.
    - Predict the measurements of 70B models from those of 7B and 8B models.
    - Predict the measurements on H200 from those on H100.

    Args:
        rows: Measurements of any stack.
        on_progress: Called with (finished tests, total, name of the next test).
    """
    tests = [(stack, *test) for stack in CALIBRATIONS for test in _tests(calibration_rows(stack, rows))]
    results = []
    for i, (stack, test_name, fitted_rows, predicted_rows) in enumerate(tests):
        on_progress(i, len(tests), f"{stack}: {test_name}")
        constants = fit(fitted_rows, CALIBRATIONS[stack].keys)
        errors_pct = 100 * (np.exp(log_errors(predicted_rows, constants)) - 1)
        results.append(
            LeftOut(
                stack=stack,
                what=test_name,
                fitted=len(fitted_rows),
                predicted=len(predicted_rows),
                mean_abs_error_pct=float(np.abs(errors_pct).mean()),
                bias_pct=float(errors_pct.mean()),
            )
        )
    on_progress(len(tests), len(tests), "")
    return tuple(results)


def _tests(rows: Sequence[FitRow]) -> list[Test]:
    """Return the cross-validation tests for which a stack has enough measurements."""
    tests: list[Test] = []
    for key in ("model", "gpu"):
        names = sorted({getattr(row.conditions, key) for row in rows})
        for name in names if len(names) > 1 else ():
            predicted_rows = [row for row in rows if getattr(row.conditions, key) == name]
            other_rows = [row for row in rows if getattr(row.conditions, key) != name]
            tests.append((f"without {name}", other_rows, predicted_rows))
    small_models = [row for row in rows if row.conditions.model.endswith(("-8b", "-7b"))]
    large_models = [row for row in rows if row.conditions.model.endswith("-70b")]
    h100_rows, h200_rows = ([row for row in rows if row.gpu == gpu] for gpu in ("h100", "h200"))
    pairs = (("7B and 8B predict 70B", small_models, large_models), ("H100 predicts H200", h100_rows, h200_rows))
    return [*tests, *(test for test in pairs if test[1] and test[2])]


class LeaveOut(Result):
    """Result of ``wse validate --leave-out``: cross-validation of the GPU stack fits."""

    tests: Annotated[tuple[LeftOut, ...], Doc("Every test with its errors.")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build a table with one row per cross-validation test."""
        columns = (
            Column(key="stack", title="stack"),
            Column(key="what", title="test", wraps=True),
            number("fitted", "fitted on"),
            number("predicted", "predicted"),
            number("mean_abs_error_pct", "mean error", "{:.1f} %".format),
            number("bias_pct", "bias", "{:+.1f} %".format),
        )
        return (Table(columns=columns, rows=self.tests, title="Rows that constants of stacks were not fitted on"),)
