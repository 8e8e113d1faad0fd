"""Coverage: the share of measurements that are inside the interval of their prediction.

Only rows that no constant was fitted on are counted. An interval contains the model error: how far
predictions of the same kind are from measurements of other sources. The residuals of the row's own
source never contribute to it.

- **Inference on wafers** (decode, prefill and services): the model error of `wse estimate`
  (`wse.studies.estimate.ranges.model_error`).
- **Everything else**: the errors of the other sources with rows of the same kind, at least
  `OTHER_SOURCES` of them, each with equal weight. Most kernels were measured by a single source, so
  they have no interval.

Uncertain constants would make the intervals wider and are left out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from wse.studies.estimate.ranges.model_error import ErrorKind, ModelError, error_distribution, model_error
from wse.studies.validate.kinds import SERVICES, WAFERLLM_DECODE, MeasurementKind

if TYPE_CHECKING:
    from wse.studies.validate.summary import ComparedRow

CONFIDENCES: Final = (0.5, 0.9)
OTHER_SOURCES: Final = 2
"""Smallest number of other sources from whose errors an interval is made."""

EPCC: Final = "EPCC 2026 working notes, unreviewed"
"""Source of all rows with the software profile `epcc`, in the file of model errors."""

_ERROR_KINDS: Final[dict[str, ErrorKind]] = {
    "decode steps": "decode",
    "forced tokens": "decode",
    WAFERLLM_DECODE: "decode",
    "prefill": "prefill",
    "prefill of 8B and 72B": "prefill",
}


def covered_fractions(kind: MeasurementKind, rows: Sequence[ComparedRow]) -> tuple[float | None, ...]:
    """Return how often measured values lie inside the intervals of their predictions.

    There is one interval, and therefore one fraction, for each confidence level in `CONFIDENCES`.
    Rows without an interval are not counted.

    Args:
        kind: Kind of all rows.
        rows: Rows that no constant was fitted on, with their predictions.

    Returns:
        For each confidence level, the fraction of rows inside the interval; None if no row has an
        interval.
    """
    usable = [row for row in rows if row.prediction.value and row.measurement.measured]
    errors = [_model_error(kind, row, usable) for row in usable]
    pairs = [(abs(np.log(_ratio(row))), error) for row, error in zip(usable, errors, strict=True) if error is not None]
    if not pairs:
        return (None,) * len(CONFIDENCES)
    return tuple(
        float(np.mean([size <= error.at(np.array([0.5 + confidence / 2]))[0] for size, error in pairs]))
        for confidence in CONFIDENCES
    )


def _model_error(kind: MeasurementKind, row: ComparedRow, rows: Sequence[ComparedRow]) -> ModelError | None:
    """Return the error distribution from which the interval of a row's prediction is made.

    The distribution uses only rows from other sources, so that the row does not affect its own
    interval. None if there are too few other sources.

    Args:
        kind: Kind of the row.
        row: The row.
        rows: All rows of the kind.
    """
    error_kind = _ERROR_KINDS.get(kind.name)
    if kind.name == SERVICES:
        error_kind = "prefill" if row.measurement.text("metric") == "ttft_s" else "decode"
    if error_kind is not None:
        return model_error(error_kind, without_source=_source(row))
    other_rows = [other for other in rows if _source(other) != _source(row)]
    sources = [_source(other) for other in other_rows]
    if len(set(sources)) < OTHER_SOURCES:
        return None
    return error_distribution([_ratio(other) for other in other_rows], sources)


def _source(row: ComparedRow) -> str:
    """Return the source of a row under the name that the file of model errors uses."""
    return EPCC if row.prediction.software == "epcc" else row.measurement.source


def _ratio(row: ComparedRow) -> float:
    """Return the ratio of the predicted to the measured value."""
    return (row.prediction.value or 0) / (row.measurement.measured or 1)
