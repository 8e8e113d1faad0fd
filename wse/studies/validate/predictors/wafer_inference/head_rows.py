"""Predictor of the output head: its time, or the effect of the sampler's top-k on this time."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.described_run import (
    shares_blocks,
    top_k_of,
    unknown_model,
)
from wse.studies.validate.predictors.wafer_inference.kernel_model.dimensions import dimensions_of
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import duration, step_time_of
from wse.studies.validate.predictors.wafer_inference.kernel_model.shard import Shard
from wse.studies.validate.predictors.wafer_inference.kernel_model.step_time import TAIL_COLS, TAIL_ROWS

_CHANGE: Final = re.compile(r"TOP_K ([0-9]+) (?:->|→|to) ([0-9]+)", re.IGNORECASE)
_TAIL: Final = re.compile(r"\bHT tail\b|\btail\b", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the time of the output head, which computes logits and samples the next token.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    if m.text("phase") != "head":
        return None
    change = _CHANGE.search(m.text("metric"))
    if change is None and not _TAIL.search(m.text("metric")):
        return decline("the metric names no part of the head that is described")
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    model = dimensions_of(m.text("model"))
    if model is None:
        return decline(unknown_model(m))
    shard = Shard(model=model, rows=TAIL_ROWS, cols=TAIL_COLS, batch=m.sizes.get("batch") or 1)
    if change:
        first_cycles, second_cycles = (steps.tail_cycles(shard, read_whole(top_k) or 1) for top_k in change.groups())
        return duration(m, second_cycles - first_cycles)
    return duration(m, steps.tail_cycles(shard, top_k_of(m, is_shared_block=shares_blocks(m))))
