"""Predictor of decode steps, of generated (free) tokens and of given (forced) tokens."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import DescribedRun, described_run
from wse.studies.validate.predictors.wafer_inference.profile import duration, step_time_of
from wse.studies.validate.predictors.wafer_inference.reduce_time import all_reduce_cycles
from wse.studies.validate.predictors.wafer_inference.step_time import StepTime

_PHASES: Final = frozenset({"decode", "decode-pipelined", "allreduce"})
UNTIMED_STEPS: Final = 17
"""Steps at the start of a run that its timed part leaves out, if the row does not state them.

Sixteen steps warm the machine up, and the first time stamp follows the next step."""

_OTHER_SOFTWARE: Final = (
    (re.compile(r"KV farm", re.IGNORECASE), "keeps the cache in other PEs, whose kernels are not described"),
    (re.compile(r"stalling|\bstall\b", re.IGNORECASE), "contains a stall that its authors call a defect"),
    (re.compile(r"draft batch", re.IGNORECASE), "a verification pass over drafts, which is not described"),
    (
        re.compile(r"first forced|after KV load|segment of (1|[1-9][0-9]{1,2}) tokens", re.IGNORECASE),
        "contains the start of the machine or the load of the cache, which are not modelled",
    ),
)
_SPAN_OF_COLUMN: Final = re.compile(r"\bKV retained\b", re.IGNORECASE)
_UNSTATED_FREE: Final = re.compile(r"\bF=[0-9]+")
_FORCED_AND_FREE: Final = re.compile(r"([0-9,]+) forced \+ ([0-9,]+) free tokens", re.IGNORECASE)
_SPAN: Final = re.compile(
    r"\b(?:span|segment) of (?:the timed part of )?([0-9,]+) (?:free |decode |forced )*(?:steps|tokens)", re.IGNORECASE
)
_FRAMES: Final = re.compile(r"frames queued|period with frames", re.IGNORECASE)
_WITH_TAIL: Final = re.compile(r"\bverify\b|\bwith tail\b|top-k computed", re.IGNORECASE)
_END_TO_END: Final = re.compile(r"end to end incl\. fill", re.IGNORECASE)
_PADDED: Final = re.compile(r"lengthened by ([0-9]+)(?: and ([0-9]+))? f32 words", re.IGNORECASE)
_PERIOD_OF_STAGES: Final = re.compile(r"period on the steps", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycles of decode steps. Return None for other rows."""
    metric, phase = m.text("metric"), m.text("phase")
    if phase not in _PHASES or (phase == "allreduce" and not _PADDED.search(m.text("settings"))):
        return None
    for pattern, reason in _OTHER_SOFTWARE:
        if pattern.search(metric):
            return decline(reason)
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    run = described_run(m)
    if isinstance(run, str):
        return decline(run)
    if _PERIOD_OF_STAGES.search(metric):
        return decline("the row does not state how the layer is divided into stages")
    if _UNSTATED_FREE.search(metric):
        return decline("a mix of forced and free steps, of which the row states only the forced ones")
    both_parts = _FORCED_AND_FREE.search(metric)
    if both_parts:
        return _predict_request(m, steps, run, _whole(both_parts[1]), _whole(both_parts[2]))
    span = _SPAN.search(metric)
    if span or _SPAN_OF_COLUMN.search(metric):
        return _predict_span(m, steps, run, span)
    if not run.states_context:
        return decline("the row does not state the context")
    return duration(m, _token_cycles(m, steps, run) + _padding_cycles(m, steps, run))


def _token_cycles(m: Measurement, steps: StepTime, run: DescribedRun) -> float:
    """Return the cycles per generated (free) or given (forced) token, as the row says.

    If logits are computed for every forced token, the output head is one of the stages.
    """
    if m.text("phase") == "decode-pipelined" or _FRAMES.search(m.text("metric")):
        cycles = steps.forced_cycles(run)
        if _WITH_TAIL.search(f"{m.text('metric')} {m.text('settings')}"):
            cycles = max(cycles, steps.tail_cycles(run.shard, run.top_k))
        tokens = m.sizes.get("gen_tokens")
        if _END_TO_END.search(m.text("metric")) and tokens:
            cycles += steps.free_cycles(run) / tokens
        return cycles
    return steps.free_cycles(run)


def _padding_cycles(m: Measurement, steps: StepTime, run: DescribedRun) -> float:
    """Return the additional cycles of a step in which all-reduces were padded with extra words.

    Of the two numbers in the settings, the first is for the all-reduce of the output projection
    along rows, the second for the all-reduce of P.V along columns.
    """
    match = _PADDED.search(m.text("settings"))
    if match is None or m.text("phase") != "allreduce":
        return 0.0
    layer, shard = steps.layer, run.shard
    lines = ((shard.cols, shard.hidden, match[1]), (shard.rows, shard.queries, match[2] or "0"))
    extra = sum(
        all_reduce_cycles(layer.wafer, layer.costs, pes, words + int(padding_words))
        - all_reduce_cycles(layer.wafer, layer.costs, pes, words)
        for pes, words, padding_words in lines
    )
    return shard.model.layers * extra


def _predict_request(m: Measurement, steps: StepTime, run: DescribedRun, forced_tokens: int, free: int) -> Prediction:
    """Predict a request: given tokens (forced) are pipelined, then tokens are generated (free).

    Args:
        m: The row.
        steps: Timing model.
        run: The run.
        forced_tokens: Tokens that are known.
        free: Tokens that are generated.
    """
    match = re.search(r"after ([0-9,]+) resident", m.text("metric"))
    resident = _whole(match[1]) if match else 0
    forced_run = _with_context(run, resident + forced_tokens / 2)
    free_run = _with_context(run, resident + forced_tokens + free / 2)
    fill = steps.free_cycles(forced_run)
    return duration(m, forced_tokens * steps.forced_cycles(forced_run) + fill + free * steps.free_cycles(free_run))


def _predict_span(m: Measurement, steps: StepTime, run: DescribedRun, span: re.Match[str] | None) -> Prediction:
    """Predict the total cycles of several consecutive decode steps.

    Args:
        m: The row.
        steps: Timing model.
        run: The run.
        span: Text in the metric that states the number of steps; None if a column states it.
    """
    generated_tokens = _whole(span[1]) if span else m.sizes.get("gen_tokens")
    if generated_tokens is None:
        return decline("the row does not state how many steps it covers")
    stated_tokens = m.sizes.get("gen_tokens")
    is_window = (
        span is not None and "free" in span[0] and stated_tokens is not None and generated_tokens < stated_tokens
    )
    count = generated_tokens if is_window or "segment" in m.text("metric") else max(1, generated_tokens - UNTIMED_STEPS)
    prefix = m.sizes.get("prompt_len") or 0
    run = _with_context(run, prefix + generated_tokens / 2)
    per_token = steps.forced_cycles(run) if m.text("phase") == "decode-pipelined" else steps.free_cycles(run)
    return duration(m, count * per_token)


def _with_context(run: DescribedRun, context: float) -> DescribedRun:
    """Return a run with another number of cached positions."""
    return replace(run, shard=run.shard.with_context(context), states_context=True)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
