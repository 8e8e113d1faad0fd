"""Coverage: the fraction of measurements that are inside the interval of their prediction.

Only rows that no constant was fitted on are counted. An interval contains the model error: how far
predictions of the same kind are from measurements of other sources. The residuals of the row's own
source never contribute to it, nor those of its publisher if residuals of any software are used.

- **Models on wafers and on GPUs**: the model error of `wse estimate`
  (`wse.studies.estimate.ranges.model_error`).
- **Everything else**: the errors of rows of the same kind from other sources, each source with the
  same weight. There must be enough sources (`are_enough`). Most kernels were measured by one or two
  sources, so they have no interval.
- **Services** that do not state the number of wafers, the precision or the drafts: the same error,
  for a mixture of the settings that are possible. They are predicted with the first alternative of
  each setting in ``wse/data/undisclosed_settings.toml``. The interval covers the other alternatives
  as well: it belongs to a mixture of distributions, one for each combination of alternatives.

Uncertain constants would make the intervals wider and are left out here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlparse

import numpy as np

from wse.studies.estimate.ranges.model_error import ErrorKind, ModelError, are_enough, error_distribution, model_error
from wse.studies.validate.kinds import SERVICES, WAFERLLM_DECODE, MeasurementKind
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.terms import SILENT, drafts
from wse.studies.validate.predictors.prediction import Prediction
from wse.studies.validate.predictors.services import METHODS, RATES

if TYPE_CHECKING:
    from wse.studies.validate.summary import ComparedRow


FILE: Final = Path(__file__).parents[2] / "data" / "undisclosed_settings.toml"
_COLUMNS: Final = {"wafers": "chips", "precision": "precision"}
"""Column of a measurement that states a setting."""


class Alternative(NamedTuple):
    """One possible combination of the settings that a service does not publish.

    Such settings are the number of wafers, the precision, and the use of speculative decoding.

    Attributes:
        weight: Assumed probability of the combination.
        rate_ratio: Speed with these settings, divided by the predicted speed.
    """

    weight: float
    rate_ratio: float


AS_PREDICTED: Final = (Alternative(weight=1.0, rate_ratio=1.0),)
"""Alternatives of a measurement that states all settings."""


def alternatives_of(m: Measurement, prediction: Prediction) -> tuple[Alternative, ...]:
    """Return all combinations of the settings that a measurement does not state.

    Only measured speeds of services can leave settings open. For other measurements, and if all
    settings are stated, the result is only the predicted combination.

    Args:
        m: The measurement.
        prediction: Prediction of the measurement. If it assumes speculative decoding, it also
            contains the speed without speculative decoding.
    """
    if prediction.method not in METHODS.values() or m.text("metric").strip() not in RATES:
        return AS_PREDICTED
    settings = undisclosed_settings()
    drafting = [(Alternative(1.0, 1.0), prediction.plain is not None)]
    if drafts(m) == SILENT and prediction.plain and prediction.value:
        plain_ratio = prediction.plain / prediction.value
        with_drafts, without_drafts = (row["weight"] for row in settings["drafts"])
        drafting = [(Alternative(with_drafts, 1.0), True), (Alternative(without_drafts, plain_ratio), False)]
    open_settings = [name for name, column in _COLUMNS.items() if not m.text(column).strip()]
    combinations = []
    for drafts_alternative, is_drafted in drafting:
        groups = [_alternatives(settings[name], is_drafted=is_drafted) for name in open_settings]
        for alternatives in product([drafts_alternative], *groups):
            weights, rate_ratios = zip(*alternatives, strict=True)
            combinations.append(Alternative(weight=math.prod(weights), rate_ratio=math.prod(rate_ratios)))
    return tuple(combinations)


def _alternatives(rows: Sequence[Mapping[str, Any]], *, is_drafted: bool) -> list[Alternative]:
    """Return one alternative for each possible value of a setting, such as the precision.

    A value can have several speed ratios, for different models. It then becomes several
    alternatives of equal weight, one per ratio, whose weights add up to that of the value.

    Args:
        rows: Possible values of the setting, from `undisclosed_settings`.
        is_drafted: Whether the service uses speculative decoding, which determines the ratios.
    """
    alternatives = []
    for row in rows:
        rate_ratios = row["rate_ratios"]["drafts" if is_drafted else "no_drafts"] if "rate_ratios" in row else [1.0]
        alternatives += [Alternative(row["weight"] / len(rate_ratios), ratio) for ratio in rate_ratios]
    return alternatives


@cache
def undisclosed_settings() -> dict[str, list[dict[str, Any]]]:
    """Return the possible values of each setting that services do not publish, keyed by setting.

    Each value is a dict with ``choice``, ``weight`` (assumed probability), ``reason`` and, if known
    in advance, ``rate_ratios`` (speeds relative to the first value of the setting).
    """
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


CONFIDENCES: Final = (0.5, 0.9)
_ERROR_KINDS: Final[dict[str, ErrorKind]] = {
    **dict.fromkeys(("decode steps", "forced tokens", WAFERLLM_DECODE), "decode"),
    **dict.fromkeys(("prefill", "prefill of 8B and 72B"), "prefill"),
    "dense models": "gpu_dense",
    "mixtures of experts": "gpu_experts",
}


def error_kind_of(kind: str, metric: str) -> ErrorKind | None:
    """Return the kind of model error that applies to a measurement's prediction.

    Args:
        kind: Name of a kind of measurement, such as ``decode steps``.
        metric: Measured quantity. For services, ``ttft_s`` selects ``prefill`` and all others
            select ``decode``.

    Returns:
        The kind of error; None if the measurement is not about a whole model.
    """
    if kind == SERVICES:
        return "prefill" if metric == "ttft_s" else "decode"
    return _ERROR_KINDS.get(kind)


def publisher_of(source: str, software: str) -> str:
    """Return who published a measurement, such as a research group or the owner of a repository.

    If neither is known, the result is the web site.

    Args:
        source: Publication of the measurement, as a title or web address.
        software: Software profile or serving stack with which the measurement is predicted.
    """
    if software == "epcc":
        return "EPCC"
    if "2502.04563" in source:  # arXiv number of the paper at OSDI 2025
        return "OSDI25"
    address = urlparse(source)
    if "github" in address.netloc:
        return f"{address.netloc}/{address.path.split('/')[1]}"
    return address.netloc or source.split()[0]


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
    fractions: list[float | None] = []
    for confidence in CONFIDENCES:
        pairs = zip(rows, prediction_intervals(kind, rows, confidence), strict=True)
        is_inside = [
            interval[0] <= row.measurement.measured <= interval[1]
            for row, interval in pairs
            if interval is not None and row.measurement.measured is not None
        ]
        fractions.append(float(np.mean(is_inside)) if is_inside else None)
    return tuple(fractions)


def prediction_intervals(
    kind: MeasurementKind, rows: Sequence[ComparedRow], confidence: float
) -> list[tuple[float, float] | None]:
    """Return the uncertainty interval of each prediction.

    An interval is computed from the prediction errors of measurements by other sources.

    Args:
        kind: Kind of all rows.
        rows: Rows that no constant was fitted on, with their predictions.
        confidence: Fraction of measured values that the intervals should contain, such as 0.9.

    Returns:
        For each row, the low and the high end, in the metric of the row; None if there are too few
        rows from other sources, or if the predicted or measured value is missing or zero.
    """
    usable_rows = [row for row in rows if row.prediction.value and row.measurement.measured]
    return [_interval(kind, row, usable_rows, confidence) for row in rows]


def _interval(
    kind: MeasurementKind, row: ComparedRow, usable_rows: Sequence[ComparedRow], confidence: float
) -> tuple[float, float] | None:
    """Return the uncertainty interval of one prediction, or None if there is too little data.

    Args:
        kind: Kind of all rows.
        row: The measurement and its prediction.
        usable_rows: Rows with predicted and measured values, whose errors may be used.
        confidence: Probability that the measured value is in the interval.
    """
    predicted = row.prediction.value
    error = _model_error(kind, row, usable_rows)
    if not predicted or not row.measurement.measured or error is None:
        return None
    low, high = error.interval(confidence, alternatives_of(row.measurement, row.prediction))
    return predicted * low, predicted * high


def _model_error(kind: MeasurementKind, row: ComparedRow, rows: Sequence[ComparedRow]) -> ModelError | None:
    """Return the error distribution from which a row's prediction interval is computed.

    The distribution uses only rows from other sources, so that the row does not affect its own
    interval. The result is None if there are too few such rows.

    Args:
        kind: Group of similar measurements that contains the row.
        row: The row.
        rows: All rows of the group.
    """
    error_kind = error_kind_of(kind.name, row.measurement.text("metric"))
    source = row.measurement.source
    if error_kind is not None:
        software = row.prediction.software
        publisher = publisher_of(source, software)
        return model_error(error_kind, software, without_source=source, without_publisher=publisher)
    other_rows = [other for other in rows if other.measurement.source != source]
    if not are_enough([other.measurement.source for other in other_rows]):
        return None
    return error_distribution(
        [_ratio(other) for other in other_rows], [other.measurement.source for other in other_rows]
    )


def _ratio(row: ComparedRow) -> float:
    """Return the ratio of the predicted to the measured value."""
    return (row.prediction.value or 0) / (row.measurement.measured or 1)
