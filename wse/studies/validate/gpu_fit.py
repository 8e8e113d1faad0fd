"""The constants of serving stacks, fitted on measured rows, and what they predict of rows that were left out.

A fit makes the sum of absolute logarithms of predicted over measured small, by Gauss-Newton steps
on the logarithms of the constants with weights 1 / |error| (iteratively reweighted least squares),
each constant within its bounds. A weak pull towards where it starts (`PULL`) settles constants that
the rows say nothing of, as all-reduces of one GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.spec import StackSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.gpus import ServingRow, fits, serving_row, value_of

Constants = Mapping[str, float]
"""Values by field of StackSpec, of some by field, a point and the generation."""

ROUNDS: Final = 80
PULL: Final = 1e-3
SMALLEST_ERROR: Final = 0.02
"""Errors below that weigh no more: else one row that is met exactly would hold all constants."""
STEP: Final = 1e-4
LONGEST_STEP: Final = 0.5

STARTS: Final[dict[str, tuple[float, float, float]]] = {
    **dict.fromkeys(("bandwidth_ratio", "expert_ratio", "cache_ratio"), (0.4, 0.8, 0.92)),
    "four_bit_ratio": (0.2, 0.6, 0.92),
    **dict.fromkeys(("compute_ratio", "link_ratio"), (0.05, 0.5, 0.9)),
    "attention_ratio": (0.01, 0.1, 0.9),
    **dict.fromkeys(("layer_s", "expert_layer_s"), (1e-7, 3e-5, 1e-3)),
    "all_reduce_s": (1e-7, 7e-6, 1e-3),
    "step_s": (1e-6, 1e-3, 1e-2),
    "user_s": (1e-8, 1e-5, 1e-3),
    "cache_token_s": (1e-10, 3e-9, 1e-7),
}
"""The least that a fit may make of a constant, where it starts, and the most. No kernel was seen to
read faster than 0.92 of what is stated for HBM, or to multiply faster than 0.9 of what is stated
for tensor cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """A measured row that constants are fitted on or tried on."""

    measurement: Measurement
    conditions: ServingRow

    @property
    def metric(self) -> str:
        """The measured value."""
        return self.measurement.text("metric").strip()

    @property
    def gpu(self) -> str:
        """The preset of the GPU."""
        return self.conditions.gpu


def fit_rows(measurements: Iterable[Measurement]) -> list[FitRow]:
    """Return the rows that fits may use: a load that fits the memory, in a metric that is measured and not derived."""
    rows = []
    for m in measurements:
        conditions = serving_row(m)
        if not isinstance(conditions, ServingRow) or not m.measured:
            continue
        wanted = "system_output_tok_s" if conditions.begin_together else "tpot_ms"
        if m.text("metric").strip() == wanted and fits(conditions):
            rows.append(FitRow(measurement=m, conditions=conditions))
    return rows


def stack_with(name: str, generation: str, constants: Constants) -> StackSpec:
    """Return the bundled stack of a name with other constants instead of some."""
    values = {key.partition(".")[0]: v for key, v in constants.items() if key.partition(".")[2] in ("", generation)}
    return replace(load_stack(name, generation), **values)  # type: ignore[arg-type]


def log_errors(rows: Sequence[FitRow], constants: Constants) -> np.ndarray:
    """Logarithms of predicted over measured of rows of one stack."""
    stacks = {
        gpu: stack_with(rows[0].conditions.stack, load_gpu(gpu).generation, constants)
        for gpu in dict.fromkeys(row.gpu for row in rows)
    }
    return np.array(
        [math.log(value_of(r.conditions, r.metric, stacks[r.gpu]) / (r.measurement.measured or 1)) for r in rows]
    )


def fit(rows: Sequence[FitRow], keys: Sequence[str]) -> dict[str, float]:
    """Return the values of constants that fit rows of one stack best, beside the other constants of the bundled one."""
    logs = np.log([STARTS[key.partition(".")[0]] for key in keys])
    bounds = logs[:, ::2]
    logs = _descend(lambda p: log_errors(rows, dict(zip(keys, np.exp(p), strict=True))), logs[:, 1], bounds)
    return {key: float(value) for key, value in zip(keys, np.exp(logs), strict=True)}


def _descend(errors_at: Callable[[np.ndarray], np.ndarray], start: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the point near ``start`` with the least sum of absolute errors, by damped Gauss-Newton steps."""
    point, errors, damping = start, errors_at(start), 1e-2

    def cost(p: np.ndarray, e: np.ndarray) -> float:
        return float(np.abs(e).sum() + PULL * ((p - start) ** 2).sum())

    for _ in range(ROUNDS):
        weights = 1 / np.maximum(np.abs(errors), SMALLEST_ERROR)
        slopes = [(errors_at(point + STEP * unit) - errors) / STEP for unit in np.eye(len(point))]
        jacobian = np.stack(slopes, axis=1)
        curvature = jacobian.T @ (weights[:, None] * jacobian) + 2 * PULL * np.eye(len(point))
        gradient = jacobian.T @ (weights * errors) + 2 * PULL * (point - start)
        while damping < 1e8:
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            tried = np.clip(point - np.clip(step, -LONGEST_STEP, LONGEST_STEP), bounds[:, 0], bounds[:, 1])
            tried_errors = errors_at(tried)
            if cost(tried, tried_errors) < cost(point, errors) - 1e-9:
                point, errors, damping = tried, tried_errors, max(damping / 3, 1e-6)
                break
            damping *= 4
        else:
            break
    return point
