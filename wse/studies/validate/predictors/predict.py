"""Prediction of any measurement with the first predictor that applies."""

from __future__ import annotations

from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors import (
    collectives,
    formulas,
    gpus,
    mesh_kernels,
    paths,
    pe_core,
    prediction,
    services,
    waferllm,
)
from wse.studies.validate.predictors.prediction import Prediction, Predictor
from wse.studies.validate.predictors.wafer_inference import predict as wafer_inference

PREDICTORS: Final[tuple[Predictor, ...]] = (
    prediction.decline_wrong_rows,
    prediction.decline_ranges,
    wafer_inference.predict,
    services.predict,
    gpus.predict,
    waferllm.best_rate,
    prediction.decline_services,
    prediction.decline_other_systems,
    formulas.predict,
    prediction.decline_untimed,
    paths.predict,
    paths.ramp,
    paths.multicast_line,
    waferllm.predict,
    mesh_kernels.predict,
    mesh_kernels.shift,
    collectives.predict,
    pe_core.predict,
    pe_core.local_product,
    pe_core.predict_stencil,
    prediction.decline_sparse,
    prediction.decline_rest,
)
"""Predictors in the order in which they are tried. The last one declines every measurement."""


def predict(m: Measurement) -> Prediction:
    """Predict a published measurement with the first predictor that applies to it.

    Returns:
        A Prediction with the value, or with the reason why there is none.
    """
    return next(answer for predictor in PREDICTORS if (answer := predictor(m)) is not None)
