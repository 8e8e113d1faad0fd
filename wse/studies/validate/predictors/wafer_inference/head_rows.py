"""Predictor of the output head: its time, or how the time depends on the sampler's top-k."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.profile import duration, step_time_of

_CHANGE: Final = re.compile(r"TOP_K ([0-9]+) -> ([0-9]+)", re.IGNORECASE)
_TAIL: Final = re.compile(r"\bHT tail\b|\btail\b", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the time of the output head. Return None for other rows."""
    if m.text("phase") != "head":
        return None
    change = _CHANGE.search(m.text("metric"))
    if change is None and not _TAIL.search(m.text("metric")):
        return decline("the metric names no part of the head that is described")
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    run = described_run(m)
    if isinstance(run, str):
        return decline(run)
    if change:
        first_cycles, second_cycles = (steps.tail_cycles(run.shard, int(top_k)) for top_k in change.groups())
        return duration(m, second_cycles - first_cycles)
    return duration(m, steps.tail_cycles(run.shard, run.top_k))
