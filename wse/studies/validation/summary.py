"""Predictions beside measurements, and how far off they are by source and kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from wse.studies.validation.measurements import Measurement
from wse.studies.validation.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Compared:
    """One row and its answer."""

    measurement: Measurement
    prediction: Prediction

    @property
    def error_pct(self) -> float | None:
        """100 (predicted - measured) / measured; None without a prediction, or where nothing was measured."""
        predicted, measured = self.prediction.value, self.measurement.measured
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
            "reason": p.reason or None,
            "method": p.method or None,
            "software": p.software or None,
            **({} if p.sram_fits is None else {"sram": {"fits": p.sram_fits}}),
        }


def summarise(rows: Iterable[Compared]) -> dict[str, Any]:
    """Counts and errors of all rows, of each source and kernel, and how often each reason was given."""
    every = list(rows)
    groups: dict[tuple[str, str], list[Compared]] = {}
    reasons: dict[str, int] = {}
    for row in every:
        groups.setdefault((row.measurement.source, row.measurement.kernel), []).append(row)
        if row.prediction.reason:
            reasons[row.prediction.reason] = reasons.get(row.prediction.reason, 0) + 1
    return {
        **_errors(every),
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
