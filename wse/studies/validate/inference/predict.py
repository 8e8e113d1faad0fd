"""Prediction of inference on a wafer with the first predictor that applies to a measurement."""

from __future__ import annotations

import math
import re
from typing import Final

from wse.studies.validate.inference import layer_rows, memory_rows, message_rows, phase_rows, step_rows
from wse.studies.validate.kernel_model.profile import SIMULATOR
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator
from wse.studies.validate.predictors.prediction import Declined, Prediction, Predictor, decline_words

SCORED_KINDS: Final = re.compile(r"measured|sum of measured|compiled", re.IGNORECASE)
"""Kinds of values with which predictions are compared. Fits, and differences of other values, are
excluded."""

_SIXTEEN_BITS: Final = re.compile(r"$|(bf|fp|f)16|bfloat16|float16|none", re.IGNORECASE)
"""Element types of weights for which kernels are described. The cell may be empty."""

_PREDICTORS: Final[tuple[Predictor, ...]] = (
    memory_rows.predict,
    layer_rows.predict_prefill,
    message_rows.predict_host,
    message_rows.predict_message,
    phase_rows.predict,
    layer_rows.predict_head,
    layer_rows.predict_layer,
    step_rows.predict,
)
"""Predictors in the order in which they are tried."""


def predict(m: Measurement) -> Prediction | None:
    """Predict a measurement of inference on a wafer, i.e. a row of the table type `inference`.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.table != "inference":
        return None
    kind = m.text("kind").strip().lower()
    if not SCORED_KINDS.match(kind):
        raise Declined(f"of the kind {kind.split(' (')[0]!r}, which is not a measurement to compare with")
    if not _SIXTEEN_BITS.match(m.text("dtype_weights").strip()):
        raise Declined("the element type of the weights is not one of the described kernels")
    try:
        prediction = next((p for predictor in _PREDICTORS if (p := predictor(m)) is not None), None)
    except (ArithmeticError, ValueError, MemoryError) as error:  # sizes are too large or contradict each other
        raise Declined(f"cannot be predicted: {error}"[:120]) from error
    if prediction is not None:
        if not math.isfinite(prediction.value or 0):
            raise Declined("cannot be predicted: the sizes of the row are too large")
        return prediction
    if on_simulator(m):
        raise Declined(SIMULATOR)
    decline_words("declined_inference", m)
    raise Declined(f"not modelled: {m.text('phase')}")
