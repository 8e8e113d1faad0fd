"""Calibration of GPU serving stacks: which constants are fitted to which rows, and how well.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np

from wse.errors import BadInput
from wse.files import read_toml
from wse.reports.progress import OnProgress, ignore
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST
from wse.studies.validate.gpu_fit import FITS_FILE, FitRow, fit, log_errors


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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
