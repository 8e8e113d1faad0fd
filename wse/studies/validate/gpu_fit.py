"""Fit of GPU serving-stack constants to measurements.

A fit minimises the sum of |log(predicted / measured)|. It varies the logarithms of the constants,
each within its bounds, by Gauss-Newton steps with weights 1 / |error| (iteratively reweighted least
squares). A small penalty for the distance from the starting point (`PULL`) determines constants on
which the measurements do not depend, such as the cost of an all-reduce if all runs used one GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from wse.errors import BadInput
from wse.files import read_toml
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
