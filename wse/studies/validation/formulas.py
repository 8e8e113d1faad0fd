"""Rows that tabulate the published closed forms: arithmetic on a model, so the same closed forms must give them."""

from __future__ import annotations

from wse.studies.validation.measurements import Measurement
from wse.studies.validation.prediction import Prediction, because


def predict(m: Measurement) -> Prediction | None:
    """Cycles by the closed form that the row names."""
    if m.evidence != "derived-from-published-formula" or not m.platform.startswith("model"):
        return None
    return because("no closed form of this algorithm")
