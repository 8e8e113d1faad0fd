"""Predictor of prefill: the cycles of a prompt that is computed in chunks."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.kernel_work import chunk_tokens
from wse.studies.validate.predictors.wafer_inference.prefill_time import PrefillRun, PrefillTime
from wse.studies.validate.predictors.wafer_inference.profile import duration, step_time_of

_START_CHUNK: Final = re.compile(r"start chunk ([0-9]+)", re.IGNORECASE)
_PROMPT: Final = re.compile(r"prompt of ([0-9,]+)", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycles of a prefill. Return None for other rows."""
    if m.text("phase") != "prefill":
        return None
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    run = described_run(m)
    if isinstance(run, str):
        return decline(run)
    stated_prompt = _PROMPT.search(m.text("metric"))
    prompt = m.sizes.get("prompt_len") or (int(stated_prompt[1].replace(",", "")) if stated_prompt else 0)
    if not prompt:
        return decline("the row does not state the length of the prompt")
    start = _START_CHUNK.search(m.text("metric"))
    prefill = PrefillRun(
        model=run.shard.model,
        rows=run.shard.rows,
        cols=run.shard.cols,
        layers=run.layers,
        one_block_per_layer=run.shard.one_block_per_layer,
        chunk=chunk_tokens(m) or run.shard.cols,
        prompt=prompt,
        first_chunk=int(start[1]) if start else 0,
    )
    if prefill.first_chunk >= prefill.chunks:
        return decline("all chunks of the prompt are reused")
    return duration(m, PrefillTime(steps.layer).cycles(prefill))
