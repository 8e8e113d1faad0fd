"""Prediction of a measurement: a value in the row's own metric, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The answer to one row: either ``value`` and ``method``, or ``reason``.

    Attributes:
        value: In the row's own metric.
        plain: The value without speculative decoding, where ``value`` is with it; else None.
        other_schedule: The value by the other schedule, ``released`` or ``fused``, of rows by ``estimate``.
        free_drafts: The rate of tokens where drafts cost nothing and a pass over several tokens takes as long as one
            over one, where ``value`` is with drafts; else None.
        bound: The rate of tokens that no software beats, of rates by ``estimate``: the same, with passes that take the
            bound of a token.
        method: Which model says so: ``fast model``, ``closed form``, ``PE core model``, ``estimate`` (``estimate,
            fused`` with that schedule); or ``wafer preset`` and ``constant of the window``, for what is calibrated
            rather than predicted.
        software: The software profile whose costs are in it; empty where software plays no part.
        reason: Why the row cannot be predicted, in one line.
        sram_fits: Whether all layers of the model fit the SRAM of the PEs that one of them was timed on; None where
            the row is not of a model.
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


NO_GENERATION: Final = Prediction(reason="the row does not name the one wafer generation that it was measured on")
NO_GRID: Final = Prediction(reason="the row does not give the grid of PEs")
NO_DTYPE: Final = Prediction(reason="the element type of the row is not one that the released kernels have")
OWN_CONSTANT: Final = Prediction(reason="a constant that the model takes from this source: no prediction of it")
NO_SIZE: Final = Prediction(reason="the row does not give the grid and the bytes of the vector on each PE")

Predictor = Callable[[Measurement], Prediction | None]
"""Answers the rows that it knows; None for those of others."""


def decline(reason: str) -> Prediction:
    """Return the answer without a value, for a reason."""
    return Prediction(reason=reason)
