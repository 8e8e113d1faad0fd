"""Result of a predictor: a value or the reason for its absence. Predictors that only decline."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import configuration_of
from wse.studies.validate.measured.text_numbers import rows_of


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


NO_GENERATION: Final = "the row does not state a single wafer generation"
NO_GRID: Final = "the row does not state the grid of PEs"
NO_DTYPE: Final = "the element type of the row is not one that the released kernels have"
OWN_CONSTANT: Final = "the model uses this value as a constant, so it is not a prediction"
NO_SIZE: Final = "the row does not state the grid and the bytes of the vector on each PE"

Predictor = Callable[[Measurement], Prediction | None]
"""Function that predicts measurements of its kind, and returns None for all others.

If a measurement of its kind cannot be predicted, the function raises `Declined`."""

T = TypeVar("T")


class Declined(Exception):
    """Exception raised if a measurement cannot be predicted. Its text is the reason."""


def require(value: T | None, reason: str) -> T:
    """Return a value that a measurement states.

    Args:
        value: The value; None if the measurement does not state it.
        reason: Why the measurement cannot be predicted without the value.

    Raises:
        Declined: The value is None.
    """
    if value is None:
        raise Declined(reason)
    return value


def decline_words(section: str, m: Measurement) -> None:
    """Decline a measurement that matches a pattern in a section of the file of words.

    Args:
        section: Section of `wse.studies.validate.measured.text_numbers.WORDS_FILE` with columns and
            reasons.
        m: The measurement.

    Raises:
        Declined: A column of the measurement matches the pattern of such a row.
    """
    for pattern, row in rows_of(section):
        if pattern.search(m.text(row["column"])):
            raise Declined(row["reason"])


def stated_configuration(m: Measurement) -> str:
    """Return the name of the bundled configuration of the model that a measurement names.

    Raises:
        Declined: There is no such configuration.
    """
    model = m.text("model")
    return require(configuration_of(model), f"no configuration is known for the model {model[:40] or '(none named)'}")


def unless_declined(read: Callable[[Measurement], T | None], m: Measurement) -> T | None:
    """Return what a function reads from a measurement, or None if it declines the measurement."""
    try:
        return read(m)
    except Declined:
        return None


WRONG_ROW: Final = "wrong row: "
"""Beginning of the reason for which a row with a fault is not predicted."""

_OTHER_SYSTEMS: Final = re.compile(r"^(T10|Ladder|SGLang|cuBLAS|WSC-LLM|Ouroboros)", re.IGNORECASE)


def decline_without_value(m: Measurement) -> None:
    """Decline rows with wrong or missing cells, and rows whose value is a range or a formula.

    Raises:
        Declined: The row has no valid single number.
    """
    if m.fault:
        raise Declined(f"{WRONG_ROW}{m.fault}")
    if m.measured is None:
        raise Declined("the value is a range or a formula, not one number")


def decline_other_systems(m: Measurement) -> None:
    """Decline services and systems on other machines than known wafers, and results of other models.

    Raises:
        Declined: The measurement is of one of these kinds.
    """
    system = m.text("system")
    if m.table == "public":
        raise Declined("not measured on a wafer of a known generation")
    if _OTHER_SYSTEMS.match(system):
        raise Declined(f"no constants were fitted for {system.split()[0]} as measured in a publication about wafers")
    if "simulated hardware" in m.platform.lower():
        raise Declined("measures another simulated machine, which is not modelled")
    if m.evidence == "third-party-model":
        raise Declined("a constant of another model, not a measurement")


decline_untimed: Final = partial(decline_words, "declined_untimed")
"""Predictor that declines ratios, fractions, specifications, and rates of whole applications."""


def decline_rest(m: Measurement) -> None:
    """Decline a measurement to which no predictor applies, because its kernel is not modelled.

    Raises:
        Declined: Always.
    """
    if m.text("kernel").lower().startswith("spmm"):
        raise Declined("sparse products are not modelled")
    raise Declined(f"this kernel is not modelled: {m.kernel[:60] or 'the row names none'}")
