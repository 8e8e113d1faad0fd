"""Result of a predictor: a value or the reason for its absence. Predictors that always decline."""

from __future__ import annotations

import re
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


class Declined(Exception):
    """Exception raised if a measurement cannot be predicted. Its text is the reason."""


def decline(reason: str) -> Prediction:
    """Build a Prediction without a value, which states why a measurement is not predicted."""
    return Prediction(reason=reason)


WRONG_ROW: Final = "wrong row: "
"""Beginning of the reason for which a row with a fault is not predicted."""

_OTHER_SYSTEMS: Final = re.compile(r"^(T10|Ladder|SGLang|cuBLAS|WSC-LLM|Ouroboros)", re.IGNORECASE)
_NO_TIME: Final = re.compile(
    r"(\b|_)(ratio|speedup|gain|efficiency|fraction|underutilisation|growth|slowdown|error|percent|capacity)(\b|_)|%"
)
_SPECIFICATION: Final = re.compile(r"\bspec\b|\bclock\b|NoC", re.IGNORECASE)
_RATE: Final = re.compile(r"flop|time steps|gb/s", re.IGNORECASE)


def decline_wrong_rows(m: Measurement) -> Prediction | None:
    """Decline to predict rows with wrong or missing cells.

    Returns:
        A prediction without a value, with the fault of the row. None if the row has no fault.
    """
    return decline(f"{WRONG_ROW}{m.fault}") if m.fault else None


def decline_services(m: Measurement) -> Prediction | None:
    """Decline to predict services on machines other than known wafers.

    Returns:
        A prediction without a value, with the reason. None if something else was measured.
    """
    return decline("not measured on a wafer of a known generation") if m.table == "public" else None


def decline_ranges(m: Measurement) -> Prediction | None:
    """Decline to predict measurements whose value is a range or a formula.

    Returns:
        A prediction without a value, with the reason. None if the value is a single number.
    """
    return decline("the value is a range or a formula, not one number") if m.measured is None else None


def decline_other_systems(m: Measurement) -> Prediction | None:
    """Decline to predict systems other than wafers, and results of other performance models.

    Returns:
        A prediction without a value, with the reason. None if something else was measured.
    """
    system = m.text("system")
    if _OTHER_SYSTEMS.match(system):
        return decline(f"no constants were fitted for {system.split()[0]} as measured in a publication about wafers")
    if "simulated hardware" in m.platform.lower():
        return decline("measures another simulated machine, which is not modelled")
    if m.evidence == "third-party-model":
        return decline("a constant of another model, not a measurement")
    return None


def decline_untimed(m: Measurement) -> Prediction | None:
    """Decline to predict metrics other than the time or speed of a modelled run.

    Declined metrics are ratios and fractions, specifications, and rates of whole applications.

    Returns:
        A prediction without a value, with the reason. None if something else was measured.
    """
    metric = m.text("metric").lower()
    if _NO_TIME.search(metric):
        return decline("compares systems or states a fraction, not the cycles of one run")
    if _SPECIFICATION.search(m.text("system")):
        return decline("a specification, not a measurement of a run")
    if _RATE.search(metric):
        return decline("the rate of a whole application, whose program is not modelled")
    return None


def decline_sparse(m: Measurement) -> Prediction | None:
    """Decline to predict products of sparse matrices.

    Returns:
        A prediction without a value, with the reason. None if something else was measured.
    """
    return decline("sparse products are not modelled") if m.text("kernel").lower().startswith("spmm") else None


def decline_rest(m: Measurement) -> Prediction:
    """Decline to predict a measurement because its kernel is not modelled.

    This predictor comes last and handles measurements to which no other predictor applies.
    """
    return decline(f"this kernel is not modelled: {m.kernel[:60] or 'the row names none'}")
