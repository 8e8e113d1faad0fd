"""Prediction of one row of the table `inference` with the first predictor that applies to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference import layer_rows, phase_rows, step_rows

SCORED_KINDS: Final = re.compile(r"measured|sum of measured|compiled", re.IGNORECASE)
"""Kinds of values that a model is compared with. Fits and differences of other rows are not."""

_PREDICTORS: Final[tuple[Callable[[Measurement], Prediction | None], ...]] = (
    phase_rows.predict,
    layer_rows.predict,
    step_rows.predict,
)
"""Predictors in the order in which they are tried."""


def predict(m: Measurement) -> Prediction | None:
    """Predict a row of the table `inference`.

    Returns:
        A prediction with a value or a reason. None if the row belongs to another table.
    """
    if m.table != "inference":
        return None
    kind = m.text("kind").strip().lower()
    if not SCORED_KINDS.match(kind):
        return decline(f"of the kind {kind.split(' (')[0]!r}, which is not a measurement to compare with")
    for predictor in _PREDICTORS:
        prediction = predictor(m)
        if prediction is not None:
            return prediction
    return decline(f"not modelled: {m.text('phase')}")
