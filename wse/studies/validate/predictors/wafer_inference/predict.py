"""Predict a measurement of the table `inference` with the first predictor that applies."""

from __future__ import annotations

import math
import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator
from wse.studies.validate.predictors.prediction import Prediction, Predictor, decline
from wse.studies.validate.predictors.wafer_inference import (
    layer_rows,
    memory_rows,
    message_rows,
    phase_rows,
    step_rows,
)
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import SIMULATOR

SCORED_KINDS: Final = re.compile(r"measured|sum of measured|compiled", re.IGNORECASE)
"""Kinds of values that a model is compared with. Fits and differences of other rows are not."""

_SIXTEEN_BITS: Final = re.compile(r"$|(bf|fp|f)16|bfloat16|float16|none", re.IGNORECASE)
"""Element types of weights of the described kernels; the cell may be empty."""

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

_NOT_MODELLED: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"^attention-kernel:", "a test kernel whose harness adds a boundary that is not modelled"),
        (r"^kv-transfer:", "a transfer of a cache that software of hosts or adaptors limits, which is not modelled"),
        (r"^clock:", "a ratio of clocks, from which the profile takes its clock"),
        (r"softmax pass:", "a pass whose operations are not described one by one"),
        (r"^allreduce:", "the metric states no all-reduce along a line whose PEs and words are known"),
        (r"^hop:", "a message or an operation that is not described"),
    )
)
"""Rows that no predictor covers, by phase and metric, and the reasons."""


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
    if not _SIXTEEN_BITS.match(m.text("dtype_weights").strip()):
        return decline("the element type of the weights is not one of the described kernels")
    for predictor in _PREDICTORS:
        prediction = _contained(predictor, m)
        if prediction is not None:
            return prediction
    if on_simulator(m):
        return decline(SIMULATOR)
    for pattern, reason in _NOT_MODELLED:
        if pattern.search(f"{m.text('phase')}: {m.text('metric')}"):
            return decline(reason)
    return decline(f"not modelled: {m.text('phase')}")


def _contained(predictor: Predictor, m: Measurement) -> Prediction | None:
    """Return the prediction of a predictor; an error in its arithmetic declines."""
    try:
        prediction = predictor(m)
    except (ArithmeticError, ValueError, MemoryError) as error:
        return decline(f"cannot be predicted: {error}"[:120])
    if prediction is not None and prediction.value is not None and not math.isfinite(prediction.value):
        return decline("cannot be predicted: the sizes of the row are too large")
    return prediction
