"""Predictions beside measurements, and how far off they are by source and kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from wse.validation.measured.measurements import Measurement
from wse.validation.predictors.prediction import Prediction

CALIBRATED: Final = ("closed form", "wafer preset", "constant of the window")
"""Methods that check a transcription of a formula, or state a constant that was taken from such rows."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One row and its answer."""

    measurement: Measurement
    prediction: Prediction

    @property
    def error_pct(self) -> float | None:
        """100 (predicted - measured) / measured; None without a prediction, or where nothing was measured."""
        return self._error_pct(self.prediction.value)

    @property
    def plain_error_pct(self) -> float | None:
        """The same of the prediction without speculative decoding; None where there is none besides."""
        return self._error_pct(self.prediction.plain)

    def _error_pct(self, predicted: float | None) -> float | None:
        measured = self.measurement.measured
        if predicted is None or not measured:
            return None
        error = 100 * (predicted / measured - 1)
        return error if math.isfinite(error) else None

    def as_row(self) -> dict[str, Any]:
        """For JSON."""
        m, p = self.measurement, self.prediction
        return {
            "file": m.file,
            "line": m.line,
            "input": dict(m.input),
            "source": m.source,
            "kernel": m.kernel,
            "measured": m.measured,
            "predicted": p.value,
            "error_pct": self.error_pct,
            **({} if p.plain is None else {"predicted_plain": p.plain, "error_plain_pct": self.plain_error_pct}),
            "reason": p.reason or None,
            "method": p.method or None,
            "software": p.software or None,
            **({} if p.sram_fits is None else {"sram": {"fits": p.sram_fits}}),
        }


def summarise(rows: Iterable[Compared]) -> dict[str, Any]:
    """Counts of all rows and errors of measurements, of each method, of each source and kernel; how often each reason.

    Errors over all leave out what is no prediction of a measurement: see `CALIBRATED`.
    """
    every = list(rows)
    groups: dict[tuple[str, str], list[Compared]] = {}
    reasons: dict[str, int] = {}
    for row in every:
        groups.setdefault((row.measurement.source, row.measurement.kernel), []).append(row)
        if row.prediction.reason:
            reasons[row.prediction.reason] = reasons.get(row.prediction.reason, 0) + 1
    methods = dict.fromkeys(row.prediction.method for row in every if row.prediction.method)
    return {
        **_errors([row for row in every if row.prediction.method not in CALIBRATED]),
        "rows": len(every),
        "predicted": sum(row.prediction.value is not None for row in every),
        "by_method": [
            {"method": method, **_errors([row for row in every if row.prediction.method == method])}
            for method in methods
        ],
        "by_source_and_kernel": [
            {"source": source, "kernel": kernel, **_errors(group)} for (source, kernel), group in groups.items()
        ],
        "reasons": [
            {"reason": reason, "rows": count} for reason, count in sorted(reasons.items(), key=lambda item: -item[1])
        ],
    }


def _errors(rows: list[Compared]) -> dict[str, Any]:
    errors = [abs(row.error_pct) for row in rows if row.error_pct is not None]
    return {
        "rows": len(rows),
        "predicted": sum(row.prediction.value is not None for row in rows),
        "median_abs_error_pct": median(errors) if errors else None,
        "worst_abs_error_pct": max(errors) if errors else None,
    }
