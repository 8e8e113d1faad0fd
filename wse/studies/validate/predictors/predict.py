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
    services,
    stencils,
    unmodelled_rows,
    waferllm,
)
from wse.studies.validate.predictors.prediction import Prediction, Predictor
from wse.studies.validate.predictors.wafer_inference import predict as wafer_inference

PREDICTORS: Final[tuple[Predictor, ...]] = (
    unmodelled_rows.decline_wrong_rows,
    unmodelled_rows.decline_ranges,
    wafer_inference.predict,
    services.predict,
    gpus.predict,
    waferllm.best_rate,
    unmodelled_rows.decline_services,
    unmodelled_rows.decline_other_systems,
    formulas.predict,
    unmodelled_rows.decline_untimed,
    paths.predict,
    paths.ramp,
    paths.multicast_line,
    waferllm.predict,
    mesh_kernels.predict,
    mesh_kernels.shift,
    collectives.predict,
    pe_core.predict,
    pe_core.local_product,
    stencils.predict,
    unmodelled_rows.decline_sparse,
    unmodelled_rows.decline_rest,
)
"""Predictors in the order in which they are tried. The last one declines every measurement."""


def predict(m: Measurement) -> Prediction:
    """Predict a published measurement with the first predictor that applies to it.

    Returns:
        A Prediction with the value, or with the reason why there is none.
    """
    return next(answer for predictor in PREDICTORS if (answer := predictor(m)) is not None)
