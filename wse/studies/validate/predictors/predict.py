"""Prediction of any measurement with the first predictor that applies.

Rows that tabulate published closed forms were computed rather than measured. They are predicted
here, because the same closed forms must reproduce them.
"""

from __future__ import annotations

from typing import Final

from wse.backends.fabric.line.closed_forms import Grouping, algorithms, closed_form, model_cycles
from wse.studies.validate.inference import predict as inference
from wse.studies.validate.measured.algorithms import collective_of
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.text_numbers import is_cycles
from wse.studies.validate.predictors import collectives, gpus, paths, pe_core, prediction, services, waferllm
from wse.studies.validate.predictors.prediction import NO_SIZE, Declined, Prediction, Predictor
from wse_mappings.patterns import two_phase

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
    inference.predict,
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
