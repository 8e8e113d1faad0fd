"""Predictors of layers, of the output head, and of prefill."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.kernel_model.described_run import (
    BLOCKS_PER_ROW,
    UNREADABLE,
    DescribedRun,
    Shard,
    shares_blocks,
    stated_dimensions,
    stated_number,
    top_k_of,
)
from wse.studies.validate.kernel_model.kernel_work import chunk_tokens
from wse.studies.validate.kernel_model.layer_steps import BEFORE_CONTEXT, FROM_CONTEXT
from wse.studies.validate.kernel_model.prefill_time import PrefillTime
from wse.studies.validate.kernel_model.profile import duration, step_time_of, timed_run
from wse.studies.validate.kernel_model.step_time import TAIL_COLS, TAIL_ROWS, StepTime
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_number, read_whole, whole_in
from wse.studies.validate.predictors.prediction import Declined, Prediction, decline_words, require

_PHASES: Final = frozenset({"layer-attention", "layer-ffn", "layer"})
_WITH_BOUNDARY: Final = re.compile(r"\bboundary\b", re.IGNORECASE)
_WAITS: Final = re.compile(r"\b(ATTN|FFN) block waits on (ATTN|FFN)\b", re.IGNORECASE)
_ONE_LAYER: Final = re.compile(r"per layer|one layer|\bstage \(", re.IGNORECASE)
_LAYERS: Final = re.compile(r"\(?([0-9]+) layers", re.IGNORECASE)


def predict_layer(m: Measurement) -> Prediction | None:
    """Predict how many cycles are spent in attention or feed-forward, or waiting between them.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    waits = _WAITS.search(m.text("metric"))
    if m.text("phase") not in _PHASES and not waits:
        return None
    decline_words("declined_layers", m)
    steps, run = timed_run(m)
    if waits:
        return _predict_wait(m, steps, run, waits[2].upper())
    return _predict_part(m, steps, run)


def _predict_wait(m: Measurement, steps: StepTime, run: DescribedRun, awaited_part: str) -> Prediction:
    """Predict how long the attention block waits for the feed-forward block, or vice versa.

    Each of the two blocks (rectangles of PEs) computes its part of every layer. It waits for the
    other part after each of its layers except the last.

    Args:
        m: The measurement.
        steps: Timing model.
        run: The measured run.
        awaited_part: Part of a layer for which the block waits: ``ATTN`` or ``FFN``.
    """
    if not run.states_context:
        raise Declined("the row does not state the context")
    cycles = steps.attention_cycles(run.shard) if awaited_part == "ATTN" else steps.ffn_cycles(run.shard)
    return duration(m, (run.layers - 1) * cycles)


def _predict_part(m: Measurement, steps: StepTime, run: DescribedRun) -> Prediction:
    """Predict how many cycles attention, feed-forward or both take in one or several layers."""
    metric, texts = m.text("metric"), f"{m.text('metric')} {m.text('remark_trust')}"
    is_timed_part = re.search(r"\bT_(attn|ffn)\b", metric) is not None
    if _WITH_BOUNDARY.search(texts) and not is_timed_part:
        raise Declined("includes the boundary of a test harness, which is not modelled")
    decline_words("declined_parts_of_layers", m)
    if re.search(r"\bserial\b", metric) and run.blocks > BLOCKS_PER_ROW:
        raise Declined("a layer on blocks of several shapes, of which the row states one")
    if "A1" not in metric and "ffn" not in m.text("phase") and not run.states_context:
        raise Declined("the row does not state the context")
    return duration(m, _layers(m, run) * _part_cycles(metric, m.text("phase"), steps, run.shard))


def _part_cycles(metric: str, phase: str, steps: StepTime, shard: Shard) -> float:
    """Return the cycle count of the part of a layer that a measurement timed.

    If neither metric nor phase names a part, it is the cycle count of the whole layer.

    Args:
        metric: Metric of the measurement.
        phase: Phase of the measurement, which may be ``layer-attention`` or ``layer-ffn``.
        steps: Timing model.
        shard: Sizes of the tensors on a PE.
    """
    if re.search(r"\bA1\b", metric):
        return steps.cycles(BEFORE_CONTEXT, shard)
    if re.search(r"\bA2\b", metric):
        return steps.cycles(FROM_CONTEXT, shard)
    if phase == "layer-attention" or re.search(r"T_attn|^ATTN", metric):
        return steps.attention_cycles(shard)
    if phase == "layer-ffn" or re.search(r"T_ffn|^FFN", metric):
        return steps.ffn_cycles(shard)
    return steps.attention_cycles(shard) + steps.ffn_cycles(shard)


def _layers(m: Measurement, run: DescribedRun) -> int:
    """Return the number of layers that a measured time includes.

    The metric may state this number. Otherwise, the time is for all layers on the block (rectangle
    of PEs) with the most layers.
    """
    metric = m.text("metric")
    if _ONE_LAYER.search(metric):
        return 1
    return whole_in(_LAYERS, metric) or run.layers


_CHANGE: Final = re.compile(r"TOP_K ([0-9]+) (?:->|→|to) ([0-9]+)", re.IGNORECASE)
_TAIL: Final = re.compile(r"\bHT tail\b|\btail\b", re.IGNORECASE)


def predict_head(m: Measurement) -> Prediction | None:
    """Predict the time of the output head, which computes logits and samples the next token.

    A metric can also be the change of this time between two values of top k (the number of
    candidates for sampling). In this case, the difference of the two times is predicted.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.text("phase") != "head":
        return None
    change = _CHANGE.search(m.text("metric"))
    if change is None and not _TAIL.search(m.text("metric")):
        raise Declined("the metric names no part of the head that is described")
    steps = step_time_of(m)
    shard = Shard(model=stated_dimensions(m), rows=TAIL_ROWS, cols=TAIL_COLS, batch=m.sizes.get("batch") or 1)
    if change:
        first_cycles, second_cycles = (steps.tail_cycles(shard, read_whole(top_k) or 1) for top_k in change.groups())
        return duration(m, second_cycles - first_cycles)
    return duration(m, steps.tail_cycles(shard, top_k_of(m, is_shared_block=shares_blocks(m))))


_START_CHUNK: Final = re.compile(r"start chunk ([0-9]+)", re.IGNORECASE)
_PROMPT: Final = re.compile(r"prompt of ([0-9,]+)|([0-9,]+)-token prompt", re.IGNORECASE)
_REUSED_PERCENT: Final = re.compile(r"([0-9.]+) ?% (?:of the )?(?:prefix|prompt)?\s*(?:is )?reused", re.IGNORECASE)
_REUSED_TOKENS: Final = re.compile(r"([0-9,]+) tokens (?:of the prefix )?(?:are )?reused", re.IGNORECASE)


def predict_prefill(m: Measurement) -> Prediction | None:
    """Predict how long the prefill of a prompt takes, without the part that is already cached.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.text("phase") != "prefill":
        return None
    steps, run = timed_run(m)
    prompt = m.sizes.get("prompt_len") or whole_in(_PROMPT, m.text("metric"))
    if not prompt:
        raise Declined("the row does not state the length of the prompt")
    chunk = chunk_tokens(m) or run.shard.cols
    first_chunk = _first_chunk(m.text("metric"), prompt, chunk)
    prefill = PrefillTime(layer=steps, run=run, chunk=chunk, prompt=prompt, first_chunk=first_chunk)
    if first_chunk >= prefill.chunks:
        raise Declined("all chunks of the prompt are reused")
    return duration(m, prefill.cycles())


def _first_chunk(metric: str, prompt: int, chunk: int) -> int:
    """Return how many chunks of a prompt are not computed, because they are in a cache.

    A metric can state the first computed chunk, the percentage of the prompt that was reused, or
    the number of reused tokens. Partially reused chunks do not count. If the metric states none of
    these numbers, the result is 0.

    Args:
        metric: Metric of the measurement.
        prompt: Number of tokens in the prompt.
        chunk: Number of tokens in a chunk.

    Raises:
        Declined: The metric has a number that cannot be read.
    """
    start = _START_CHUNK.search(metric)
    if start:
        return stated_number(start[1])
    percent = _REUSED_PERCENT.search(metric)
    if percent:
        part = require(read_number(percent[1]), UNREADABLE)
        return int(prompt * part / 100) // chunk
    tokens = _REUSED_TOKENS.search(metric)
    return stated_number(tokens[1]) // chunk if tokens else 0
