"""Rows that no model answers: other systems, specifications, ratios, services; each with its reason."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline

_OTHER_SYSTEMS: Final = re.compile(r"^(T10|Ladder|SGLang|cuBLAS|WSC-LLM|Ouroboros)", re.IGNORECASE)
_NO_TIME: Final = re.compile(
    r"(\b|_)(ratio|speedup|gain|efficiency|fraction|underutilisation|growth|slowdown|error|percent|capacity)(\b|_)|%"
)
_SPECIFICATION: Final = re.compile(r"\bspec\b|\bclock\b|NoC", re.IGNORECASE)
_RATE: Final = re.compile(r"flop|time steps|gb/s", re.IGNORECASE)


def decline_services(m: Measurement) -> Prediction | None:
    """Services on other machines than wafers."""
    return decline("measured on no wafer of a generation that is known") if m.table == "public" else None


def decline_ranges(m: Measurement) -> Prediction | None:
    """Ranges and formulas."""
    return decline("the value is a range or a formula, not one number") if m.measured is None else None


def decline_other_systems(m: Measurement) -> Prediction | None:
    """Systems beside the wafer, or software on it that this emulator has no model of."""
    system = m.text("system")
    if _OTHER_SYSTEMS.match(system):
        return decline(f"measures another system, {system.split()[0]}, which is not modelled")
    if "simulated hardware" in m.platform.lower():
        return decline("measures another simulated machine, which is not modelled")
    if m.evidence == "third-party-model":
        return decline("a constant of somebody's model, not a measurement")
    return None


def decline_untimed(m: Measurement) -> Prediction | None:
    """Ratios of systems, shares, specifications, rates of whole applications."""
    metric = m.text("metric").lower()
    if _NO_TIME.search(metric):
        return decline("compares systems or states a share: no cycles of one run")
    if _SPECIFICATION.search(m.text("system")):
        return decline("a specification, not a measurement of a run")
    if _RATE.search(metric):
        return decline("the rate of a whole application, whose program is not modelled")
    return None


def decline_sparse(m: Measurement) -> Prediction | None:
    """Products of sparse matrices."""
    return decline("sparse products are not modelled") if m.text("kernel").lower().startswith("spmm") else None


def decline_rest(m: Measurement) -> Prediction:
    """Return the refusal of any row that no other predictor answers."""
    return decline(f"no model of this kernel: {m.kernel[:60] or 'the row names none'}")
