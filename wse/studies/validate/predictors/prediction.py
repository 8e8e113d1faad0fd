"""Result of a predictor: a value in the measurement's metric, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Prediction of one measurement: either ``value`` and ``method``, or ``reason``.

    Attributes:
        value: Predicted value, in the metric of the measurement.
        plain: Value without speculative decoding if ``value`` assumes it; otherwise None.
        other_schedule: Value with the other schedule (``baseline`` or ``optimized``). Only for
            services on wafers.
        free_drafts: Tokens per second if drafts cost nothing and a verification pass took as long
            as a pass over one token. None if ``value`` assumes no drafts.
        bound: Tokens per second that no software can exceed: like ``free_drafts``, but with passes
            at the lower bound of the cycles per token. Only for rates of services on wafers.
        method: Model that computed the value: ``fabric model``, ``closed form``, ``PE core model``,
            ``GPU model``, ``compute-engine model``, ``estimate``, or ``estimate, optimized``.
            ``wafer preset``, ``constant of the window`` and ``constant of the profile`` mark values
            that are calibrated to such rows rather than predicted.
        software: Software profile whose costs are part of the value. Empty if the value does not
            depend on software.
        reason: Why there is no prediction, in one line.
        sram_fits: Whether all layers of the model fit in the SRAM of the PEs on which one layer was
            timed. None if the measurement is not of a whole model.
    """

    value: float | None = None
    plain: float | None = None
    other_schedule: float | None = None
    free_drafts: float | None = None
    bound: float | None = None
    method: str = ""
    software: str = ""
    reason: str = ""
    sram_fits: bool | None = None


NO_GENERATION: Final = Prediction(reason="the row does not state a single wafer generation")
NO_GRID: Final = Prediction(reason="the row does not state the grid of PEs")
NO_DTYPE: Final = Prediction(reason="the element type of the row is not one that the released kernels have")
OWN_CONSTANT: Final = Prediction(reason="the model uses this value as a constant, so it is not a prediction")
NO_SIZE: Final = Prediction(reason="the row does not state the grid and the bytes of the vector on each PE")

Predictor = Callable[[Measurement], Prediction | None]
"""Function that predicts or declines measurements of its kind, and returns None for all others."""


def decline(reason: str) -> Prediction:
    """Build a Prediction without a value, which states why the measurement is not predicted."""
    return Prediction(reason=reason)
