"""Predictor of prefill: the cycles of a prompt that is computed in chunks."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_number, read_whole
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.kernel_work import chunk_tokens
from wse.studies.validate.predictors.wafer_inference.kernel_model.prefill_time import PrefillRun, PrefillTime
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import duration, timed_run

_START_CHUNK: Final = re.compile(r"start chunk ([0-9]+)", re.IGNORECASE)
_PROMPT: Final = re.compile(r"prompt of ([0-9,]+)|([0-9,]+)-token prompt", re.IGNORECASE)
_REUSED_PERCENT: Final = re.compile(r"([0-9.]+) ?% (?:of the )?(?:prefix|prompt)?\s*(?:is )?reused", re.IGNORECASE)
_REUSED_TOKENS: Final = re.compile(r"([0-9,]+) tokens (?:of the prefix )?(?:are )?reused", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycles of a prefill.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    if m.text("phase") != "prefill":
        return None
    outcome = timed_run(m)
    if isinstance(outcome, Prediction):
        return outcome
    steps, run = outcome
    stated_prompt = _PROMPT.search(m.text("metric"))
    prompt = m.sizes.get("prompt_len") or (read_whole(stated_prompt[1] or stated_prompt[2]) if stated_prompt else 0)
    if not prompt:
        return decline("the row does not state the length of the prompt")
    chunk = chunk_tokens(m) or run.shard.cols
    first_chunk = _first_chunk(m.text("metric"), prompt, chunk)
    if first_chunk is None:
        return decline("the metric has a number that cannot be read")
    prefill = PrefillRun(
        model=run.shard.model,
        rows=run.shard.rows,
        cols=run.shard.cols,
        layers=run.layers,
        one_block_per_layer=run.shard.one_block_per_layer,
        chunk=chunk,
        prompt=prompt,
        first_chunk=first_chunk,
    )
    if prefill.first_chunk >= prefill.chunks:
        return decline("all chunks of the prompt are reused")
    return duration(m, PrefillTime(steps.layer).cycles(prefill))


def _first_chunk(metric: str, prompt: int, chunk: int) -> int | None:
    """Return how many chunks of a prompt are reused, or None if the number cannot be read.

    The metric may state the first computed chunk, or the reused part in percent or in tokens. Only
    whole chunks count.

    Args:
        metric: Metric of the measurement.
        prompt: Number of tokens in the prompt.
        chunk: Number of tokens in a chunk.
    """
    start = _START_CHUNK.search(metric)
    if start:
        return read_whole(start[1])
    percent = _REUSED_PERCENT.search(metric)
    if percent:
        part = read_number(percent[1])
        return None if part is None else int(prompt * part / 100) // chunk
    tokens = _REUSED_TOKENS.search(metric)
    reused_tokens = read_whole(tokens[1]) if tokens else 0
    return None if reused_tokens is None else reused_tokens // chunk
