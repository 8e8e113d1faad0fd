"""Every row gets one answer: the first predictor that knows it gives it."""

from __future__ import annotations

from typing import Final

from wse.studies.validation import (
    collectives,
    elsewhere,
    formulas,
    mesh_kernels,
    paths,
    pe_core,
    services,
    stencils,
    waferllm,
)
from wse.studies.validation.measurements import Measurement
from wse.studies.validation.prediction import Prediction, Predictor

PREDICTORS: Final[tuple[Predictor, ...]] = (
    elsewhere.not_one_number,
    services.predict,
    waferllm.best_rate,
    elsewhere.serving,
    elsewhere.other_systems,
    formulas.predict,
    elsewhere.not_a_time,
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
    elsewhere.sparse,
    elsewhere.any_other,
)
"""In order. The last answers what no other one does."""


def predict(m: Measurement) -> Prediction:
    """The answer to one row."""
    return next(answer for predictor in PREDICTORS if (answer := predictor(m)) is not None)
