"""Measurements with their predictions, and summaries of errors, by kind or by GPU group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, TypeVar

from wse.studies.validate.coverage import covered_fractions, prediction_intervals
from wse.studies.validate.fitted_rows import is_fitted
from wse.studies.validate.gpu_calibration import SOURCES
from wse.studies.validate.kinds import GPUS, SERVICES, MeasurementKind, kind_of
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.gpus import METHOD, TIMES_MS, ServingRow, bound_ms, serving_row
from wse.studies.validate.predictors.prediction import Prediction
from wse.studies.validate.result import (
    CALIBRATED,
    GpuErrors,
    GroupErrors,
    KindErrors,
    MethodErrors,
    ReasonCount,
    SramFit,
    ValidationRow,
    ValidationSummary,
)

Key = TypeVar("Key")


@dataclass(frozen=True)
class ComparedRow:
    """A measurement with its prediction, from which the errors are computed."""

    measurement: Measurement
    prediction: Prediction

    @property
    def error_pct(self) -> float | None:
        """Signed relative error of the prediction, in percent.

        None if there is no prediction or the measured value is missing or zero.
        """
        return self.error_pct_of(self.prediction.value)

    def error_pct_of(self, predicted: float | None) -> float | None:
        """Return the signed error of a value in percent; None if it is undefined or infinite."""
        measured_value = self.measurement.measured
        if predicted is None or not measured_value:
            return None
        error = 100 * (predicted / measured_value - 1)
        return error if math.isfinite(error) else None

    @cached_property
    def is_fitted(self) -> bool:
        """Whether a constant of the models was fitted on the measurement."""
        return is_fitted(self.measurement, self.prediction.method)

    def as_row(self, interval: tuple[float, float] | None = None) -> ValidationRow:
        """Convert the measurement and its prediction to the record that reports and files use.

        Args:
            interval: Ends of the 90 % interval of the prediction, if it has one.
        """
        m, p = self.measurement, self.prediction
        kind = None if p.value is None else kind_of(m, p.method)
        return ValidationRow.from_parts(
            self,
            m,
            p,
            **({} if kind is None else {"kind": kind.name, "where": kind.where, "fitted": self.is_fitted}),
            predicted=p.value,
            low=None if interval is None else interval[0],
            high=None if interval is None else interval[1],
            predicted_plain=p.plain,
            error_plain_pct=self.error_pct_of(p.plain),
            predicted_other_schedule=p.other_schedule,
            error_other_schedule_pct=self.error_pct_of(p.other_schedule),
            predicted_free_drafts=p.free_drafts,
            reason=p.reason or None,
            method=p.method or None,
            software=p.software or None,
            sram=None if p.sram_fits is None else SramFit(fits=p.sram_fits),
        )


def summarise(rows: Iterable[ComparedRow]) -> ValidationSummary:
    """Summarise prediction errors over all measurements and by group.

    Groups are formed by kind, method, schedule, source and kernel. Two types of measurements are
    counted, but excluded from the errors over all measurements and by kind:

    - measurements to which constants were fitted.
    - measurements that only repeat a formula or constant of the models (methods in `CALIBRATED`).
    """
    all_rows = list(rows)
    by_kernel = _grouped(all_rows, lambda row: (row.measurement.source, row.measurement.kernel))
    by_method = _grouped((row for row in all_rows if row.prediction.method), lambda row: row.prediction.method)
    reasons = Counter(row.prediction.reason for row in all_rows if row.prediction.reason)
    by_kind = _rows_by_kind(all_rows)
    errors_of_all = _unfitted_errors([row for rows_of_kind in by_kind.values() for row in rows_of_kind])
    counts = {"rows": len(all_rows), "predicted": sum(row.prediction.value is not None for row in all_rows)}
    return ValidationSummary(
        **errors_of_all | counts,
        by_kind=tuple(_kind_errors(kind, group) for kind, group in sorted(by_kind.items(), key=_order)),
        by_method=tuple(MethodErrors(method=method, **_errors(group)) for method, group in by_method.items()),
        by_other_schedule=tuple(
            MethodErrors(method=method, **_errors(group, errors_pct))
            for method, group in by_method.items()
            for errors_pct in [[row.error_pct_of(row.prediction.other_schedule) for row in group]]
            if any(error is not None for error in errors_pct)
        ),
        by_source_and_kernel=tuple(
            GroupErrors(source=source, kernel=kernel, **_errors(group)) for (source, kernel), group in by_kernel.items()
        ),
        reasons=tuple(ReasonCount(reason=reason, rows=count) for reason, count in reasons.most_common()),
    )


def intervals_of(rows: Sequence[ComparedRow]) -> list[tuple[float, float] | None]:
    """Return the 90 % interval of each prediction.

    Predictions of measurements to which constants were fitted have no interval.

    Args:
        rows: Measurements with their predictions.

    Returns:
        For each row, the low and the high end of the interval, or None if there is no interval.
    """
    intervals: dict[int, tuple[float, float] | None] = {}  # by identity, because rows can be equal
    for kind, group in _rows_by_kind(rows).items():
        unfitted_rows = [row for row in group if not row.is_fitted]
        ends = prediction_intervals(kind, unfitted_rows, 0.9)
        intervals |= {id(row): interval for row, interval in zip(unfitted_rows, ends, strict=True)}
    return [intervals.get(id(row)) for row in rows]


def _rows_by_kind(rows: Iterable[ComparedRow]) -> dict[MeasurementKind, list[ComparedRow]]:
    """Group the predicted measurements by kind.

    Measurements that only repeat a formula or constant of the models are left out.
    """
    predicted_rows = (
        row for row in rows if row.prediction.value is not None and row.prediction.method not in CALIBRATED
    )
    return _grouped(predicted_rows, lambda row: kind_of(row.measurement, row.prediction.method))


def _grouped(rows: Iterable[ComparedRow], key: Callable[[ComparedRow], Key]) -> dict[Key, list[ComparedRow]]:
    """Group rows by a key, in order of appearance."""
    groups: dict[Key, list[ComparedRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _kind_errors(kind: MeasurementKind, rows: list[ComparedRow]) -> KindErrors:
    """Return the prediction errors for one kind of measurement.

    The result includes the fractions of measured values that lie in their predictions' intervals.
    """
    coverage_50, coverage_90 = covered_fractions(kind, [row for row in rows if not row.is_fitted])
    return KindErrors(
        kind=kind.name, where=kind.where, coverage_50=coverage_50, coverage_90=coverage_90, **_unfitted_errors(rows)
    )


def _unfitted_errors(rows: list[ComparedRow]) -> dict[str, Any]:
    """Count the predicted measurements, and summarise the errors of those not used in any fit.

    The result is keyed by `UnfittedErrors` field name.
    """
    unfitted_rows = [row for row in rows if not row.is_fitted]
    counts = {"rows": len(rows), "predicted": len(rows), "fitted": len(rows) - len(unfitted_rows)}
    return _errors(unfitted_rows) | counts


def _order(kind: tuple[MeasurementKind, list[ComparedRow]]) -> tuple[bool, bool]:
    """Return a sort key that puts kernels first, then services, then GPUs."""
    return kind[0].where == GPUS, kind[0].name == SERVICES


def _errors(rows: list[ComparedRow], errors_pct: Sequence[float | None] | None = None) -> dict[str, Any]:
    """Return the counts and error statistics of rows, keyed by `Errors` field name.

    Args:
        rows: Measurements with predictions.
        errors_pct: Signed errors to summarise; by default, the errors of ``rows``.
    """
    signed = [row.error_pct for row in rows] if errors_pct is None else errors_pct
    errors = [abs(error) for error in signed if error is not None]
    return {
        "rows": len(rows),
        "predicted": sum(row.prediction.value is not None for row in rows),
        "median_abs_error_pct": median(errors) if errors else None,
        "worst_abs_error_pct": max(errors) if errors else None,
    }


def groups_of(row: ServingRow, m: Measurement) -> list[str]:
    """Return the names of the measurement groups to which a GPU measurement belongs.

    Benchmarks that vary the number of users have several groups: by model type, by model size, and
    by serving stack and GPU. A single further group contains all measurements of other benchmarks.
    It also contains the metrics that do not depend on decode passes alone, such as rates, unless
    all users start together.

    Args:
        row: Conditions of the measurement.
        m: The measurement.
    """
    is_curve = any(source in m.source for source in SOURCES)
    if not is_curve or (not row.begin_together and m.text("metric") not in TIMES_MS):
        return ["other benchmarks, rates and first tokens"]
    is_mixture = row.spec.experts is not None
    groups = ["mixtures" if is_mixture else "dense"]
    if row.model.endswith("-70b"):
        groups.append("dense 70B")
    if row.model == "llama-3-8b" and row.parallelism.gpus == 1:
        groups.append("8B on one GPU")
    if not row.begin_together and row.gpu in ("h100", "h200"):
        groups.append("H100 and H200, users that come and go")
    return [*groups, f"{row.stack} on {row.gpu}"]


def gpu_errors(rows: Iterable[ComparedRow]) -> tuple[GpuErrors, ...]:
    """Return the mean absolute and mean signed errors of each group of GPU measurements.

    If a group contains times between tokens, the result also has the mean ratio of roofline to
    measured time. The roofline is the duration of a pass at the rates that the GPU's vendor states.

    Args:
        rows: Measurements with predictions. Measurements on other machines are skipped.
    """
    groups: dict[str, list[float]] = {}
    bounds: dict[str, list[float]] = {}
    for row in rows:
        if row.prediction.method == METHOD and row.error_pct is not None:
            conditions = serving_row(row.measurement)
            assert conditions is not None
            for group in groups_of(conditions, row.measurement):
                groups.setdefault(group, []).append(row.error_pct)
                if row.measurement.text("metric") in TIMES_MS and row.measurement.measured:
                    bounds.setdefault(group, []).append(bound_ms(conditions) / row.measurement.measured)
    return tuple(
        GpuErrors(
            group=group,
            rows=len(errors),
            mean_abs_error_pct=sum(map(abs, errors)) / len(errors),
            bias_pct=sum(errors) / len(errors),
            bare_roofline_ratio=sum(bounds[group]) / len(bounds[group]) if group in bounds else None,
        )
        for group, errors in sorted(groups.items(), key=lambda item: (" on " in item[0], item[0]))
    )
