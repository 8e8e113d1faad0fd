"""Prediction of any measurement with the first predictor that applies.

Rows that tabulate published closed forms were computed rather than measured. They are predicted
here, because the same closed forms must reproduce them.
"""

from __future__ import annotations

import math
import re
from typing import Final

from wse.backends.fabric.line.closed_forms import Grouping, algorithms, closed_form, model_cycles
from wse.studies.validate.inference import layer_rows, memory_rows, message_rows, phase_rows, step_rows
from wse.studies.validate.kernel_model.profile import SIMULATOR
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import collective_of, on_simulator, wafer_of
from wse.studies.validate.measured.text_numbers import is_cycles
from wse.studies.validate.predictors import collectives, gpus, paths, pe_core, prediction, services, waferllm
from wse.studies.validate.predictors.prediction import NO_SIZE, Declined, Prediction, Predictor, decline_words
from wse_mappings.patterns import two_phase

SCORED_KINDS: Final = re.compile(r"measured|sum of measured|compiled", re.IGNORECASE)
"""Kinds of values with which predictions are compared. Fits, and differences of other values, are
excluded."""

_SIXTEEN_BITS: Final = re.compile(r"$|(bf|fp|f)16|bfloat16|float16|none", re.IGNORECASE)
"""Element types of weights for which kernels are described. The cell may be empty."""

_INFERENCE_PREDICTORS: Final[tuple[Predictor, ...]] = (
    memory_rows.predict,
    layer_rows.predict_prefill,
    message_rows.predict_host,
    message_rows.predict_message,
    phase_rows.predict,
    layer_rows.predict_head,
    layer_rows.predict_layer,
    step_rows.predict,
)
"""Predictors of inference on a wafer, in the order in which they are tried."""


def predict_inference(m: Measurement) -> Prediction | None:
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
        prediction = next((p for predictor in _INFERENCE_PREDICTORS if (p := predictor(m)) is not None), None)
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


METHOD: Final = "closed form"

LONGEST_SEARCH: Final = 1024
"""Maximum number of PEs on a line for auto-gen. The search takes a second for this length."""


def predict_formula(m: Measurement) -> Prediction | None:
    """Predict a cycle count that a publication computed with a formula instead of measuring it.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.evidence != "derived-from-published-formula" or not m.platform.lower().startswith("model"):
        return None
    collective, wafer = collective_of(m), wafer_of(m)
    if collective is None or wafer is None or not is_cycles(m.text("metric")):
        raise Declined("a formula, but not for the cycles of a collective on one wafer generation")
    if m.rows is None or m.cols is None or m.words is None:
        raise Declined(NO_SIZE)
    name, rows, cols = collective.algorithm, m.rows, m.cols
    if min(rows, cols) > 1 and name not in ("snake", "flooding", "ring"):
        name = f"x_y_{name}"
    if name not in algorithms()[collective.kind] or (name == "ring" and min(rows, cols) > 1):
        raise Declined(f"no closed form of this {collective.kind.replace('_', '-')} algorithm is published")
    if name.endswith("auto_gen") and max(rows, cols) > LONGEST_SEARCH:
        raise Declined(f"the search of a tree for a line of more than {LONGEST_SEARCH:,} PEs takes too long")
    if collective.algorithm == "two_phase" and collective.group is not None:
        if collective.kind != "reduce" or min(rows, cols) > 1 or not 1 <= collective.group < rows * cols:
            raise Declined(
                "two-phase algorithms with their own group size have a closed form only for the reduce of a line"
            )
        terms = two_phase.terms(rows * cols, m.words, collective.group)
        return Prediction(value=model_cycles(terms, wafer, Grouping.OVERLAPPED), method=METHOD)
    return Prediction(value=closed_form(collective.kind, name, rows, cols, m.words, wafer), method=METHOD)


PREDICTORS: Final[tuple[Predictor, ...]] = (
    prediction.decline_without_value,
    predict_inference,
    services.predict,
    gpus.predict,
    waferllm.best_rate,
    prediction.decline_other_systems,
    predict_formula,
    prediction.decline_untimed,
    paths.predict,
    paths.multicast_line,
    waferllm.predict,
    waferllm.predict_product,
    waferllm.predict_shift,
    collectives.predict,
    pe_core.predict,
    pe_core.local_product,
    pe_core.predict_stencil,
    prediction.decline_rest,
)
"""Predictors in the order in which they are tried. The last one declines every measurement."""


def predict(m: Measurement) -> Prediction:
    """Predict a published measurement with the first predictor that applies to it.

    Returns:
        A Prediction with the value, or with the reason why there is none.
    """
    try:
        return next(answer for predictor in PREDICTORS if (answer := predictor(m)) is not None)
    except Declined as reason:
        return Prediction(reason=str(reason))
