"""Predictor of decode steps, whose tokens are generated (free) or known in advance (forced)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from wse.studies.validate.kernel_model.described_run import DescribedRun, stated_number
from wse.studies.validate.kernel_model.profile import duration, timed_run
from wse.studies.validate.kernel_model.reduce_time import all_reduce_cycles
from wse.studies.validate.kernel_model.step_time import StepTime
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import Declined, Prediction, decline_words

_PHASES: Final = frozenset({"decode", "decode-pipelined", "allreduce"})
UNTIMED_STEPS: Final = 17
"""Number of steps at the start of a run that are not timed, if a measurement does not state it.

Sixteen steps warm up the machine, and the first time stamp follows the next step."""

MIN_SEGMENT_TOKENS: Final = 1_000
"""Minimum number of forced tokens for a prediction. The start takes much of the time of fewer
tokens."""

_SAME_SPAN: Final = re.compile(r"^same,", re.IGNORECASE)
_SPAN_WITH_FORCED: Final = re.compile(r"\bspan with F=([0-9,]+)")
_FORCED: Final = re.compile(r"\bforced (tokens?|segment|steps?)\b", re.IGNORECASE)
_ANY_FORCED: Final = re.compile(r"[0-9] forced\b|\bF=", re.IGNORECASE)
_FORCED_AND_FREE: Final = re.compile(r"([0-9,]+) forced \+ ([0-9,]+) free tokens", re.IGNORECASE)
_SPAN: Final = re.compile(
    r"\b(span|segment|cycles|time) (?:of|for) (?:the timed part of )?([0-9,]+) "
    r"(?:free |decode |forced )*(steps|tokens)",
    re.IGNORECASE,
)
_FRAMES: Final = re.compile(r"frames queued|period with frames", re.IGNORECASE)
_WITH_TAIL: Final = re.compile(r"\bverify\b|\bwith tail\b|top-k computed", re.IGNORECASE)
_END_TO_END: Final = re.compile(r"end to end incl\. fill", re.IGNORECASE)
_PADDED: Final = re.compile(r"lengthened by ([0-9]+)(?: and ([0-9]+))? f32 words", re.IGNORECASE)
_WHOLE_STEP: Final = re.compile(
    r"\b(cycles|us|µs|ms|time)(?: per |/)(decode |free |forced |generated )*(step|token)\b|, per (step|token)$"
    r"|\btok(en)?s? ?(per |/)s|\bperiod\b|\bstep time\b",
    re.IGNORECASE,
)
_WITHOUT_TAIL: Final = re.compile(r"\b(without|less) (the )?(HT )?tail\b", re.IGNORECASE)
_PART_OF_STEP: Final = re.compile(
    r"\b(per layer|busy|idle|wait(s|ing)?|share|(HT )?head(?! dim)|strips? per|K-pipe|without|less|only the|handler)\b"
    r"|\btail (per|of|in)\b|\+ tail\b",
    re.IGNORECASE,
)
_PER_SEQUENCE: Final = re.compile(r"\bper (batch element|sequence|user)\b", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycle count of decode steps.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    metric, phase = m.text("metric"), m.text("phase")
    if phase not in _PHASES or (phase == "allreduce" and not _PADDED.search(m.text("settings"))):
        return None
    decline_words("declined_decode_steps", m)
    steps, run = timed_run(m)
    if (_is_forced(m) or _FRAMES.search(metric) or _ANY_FORCED.search(metric)) and not run.states_stages:
        raise Declined("the row does not state into how many stages the model is divided")
    both_parts = _FORCED_AND_FREE.search(metric)
    if both_parts:
        return _predict_request(m, steps, run, *map(stated_number, both_parts.groups()))
    with_forced = _SPAN_WITH_FORCED.search(metric)
    if with_forced:
        return _predict_span_with_forced(m, steps, run, read_whole(with_forced[1]))
    span = _SPAN.search(metric)
    if span or _SAME_SPAN.search(metric):
        return _predict_span(m, steps, run, span)
    if not _is_whole_step(metric):
        raise Declined("the metric names no whole step or token, and no part that is described")
    if not run.states_context:
        raise Declined("the row does not state the context")
    cycles = _token_cycles(m, steps, run) + _padding_cycles(m, steps, run)
    return duration(m, cycles / run.shard.batch if _PER_SEQUENCE.search(metric) else cycles)


def _is_forced(m: Measurement) -> bool:
    """Return whether all tokens of a run are known in advance, so that their passes can overlap."""
    return m.text("phase") == "decode-pipelined" or _FORCED.search(m.text("metric")) is not None


def _is_whole_step(metric: str) -> bool:
    """Return whether a metric is about a whole decode step, not just a part of it."""
    if not _WHOLE_STEP.search(metric):
        return False
    return _WITHOUT_TAIL.search(metric) is not None or not _PART_OF_STEP.search(metric)


def _token_cycles(m: Measurement, steps: StepTime, run: DescribedRun) -> float:
    """Return the cycles per token of a run.

    Tokens that are known in advance (forced) are pipelined through the stages. Free tokens, which
    the model generates, are processed sequentially. If logits are computed for every forced token,
    the output head is one of the pipeline stages.
    """
    metric = m.text("metric")
    if _is_forced(m) or _FRAMES.search(metric):
        cycles = steps.forced_cycles(run)
        if _WITH_TAIL.search(f"{metric} {m.text('settings')}"):
            cycles = max(cycles, steps.tail_cycles(run.shard, run.top_k))
        tokens = m.sizes.get("gen_tokens")
        if _END_TO_END.search(metric) and tokens:
            cycles += steps.free_cycles(run) / tokens
        return cycles
    without_cycles = steps.tail_cycles(run.shard, run.top_k) if _WITHOUT_TAIL.search(metric) else 0.0
    return steps.free_cycles(run) - without_cycles


def _padding_cycles(m: Measurement, steps: StepTime, run: DescribedRun) -> float:
    """Return how many cycles a decode step takes longer because of padding in its all-reduces.

    Some benchmarks add words to the all-reduces to measure the cost of a word. The settings of the
    measurement state two numbers of such words. The first is for the output projection (along
    rows), the second for the attention output (along columns).
    """
    match = _PADDED.search(m.text("settings"))
    if match is None or m.text("phase") != "allreduce":
        return 0.0
    shard = run.shard
    lines = ((shard.cols, shard.hidden, match[1]), (shard.rows, shard.queries, match[2] or "0"))
    extra = sum(
        all_reduce_cycles(steps.wafer, steps.costs, pes, words + (read_whole(padding_words) or 0))
        - all_reduce_cycles(steps.wafer, steps.costs, pes, words)
        for pes, words, padding_words in lines
    )
    return shard.model.layer_count * extra


def _predict_request(m: Measurement, steps: StepTime, run: DescribedRun, forced_tokens: int, free: int) -> Prediction:
    """Predict the time of a request: known tokens are pipelined, then more tokens are generated.

    Args:
        m: The measurement.
        steps: Timing model.
        run: The measured run.
        forced_tokens: Number of known tokens.
        free: Number of generated tokens.
    """
    match = re.search(r"after ([0-9,]+) resident", m.text("metric"))
    resident = stated_number(match[1]) if match else 0
    forced_run = _with_context(run, resident + forced_tokens / 2)
    free_run = _with_context(run, resident + forced_tokens + free / 2)
    fill = steps.free_cycles(forced_run)
    return duration(m, forced_tokens * steps.forced_cycles(forced_run) + fill + free * steps.free_cycles(free_run))


def _predict_span(m: Measurement, steps: StepTime, run: DescribedRun, span: re.Match[str] | None) -> Prediction:
    """Predict the total cycle count of several consecutive decode steps.

    Args:
        m: The measurement.
        steps: Timing model.
        run: The measured run.
        span: Text in the metric that states the number of steps; None if a column states it.
    """
    stated_tokens = m.sizes.get("gen_tokens")
    generated_tokens = read_whole(span[2]) if span else stated_tokens
    if not generated_tokens:
        raise Declined("the row does not state how many steps it covers")
    is_segment = span is not None and span[1].lower() == "segment"
    is_forced = _is_forced(m)
    if is_segment and is_forced and generated_tokens < MIN_SEGMENT_TOKENS:
        raise Declined(f"fewer than {MIN_SEGMENT_TOKENS:,} forced tokens, whose start takes much of the time")
    is_window = span is not None and "free" in span[0] and (stated_tokens or 0) > generated_tokens
    leaves_start_out = not is_window and (span is None or (span[1] + span[3]).lower() == "spansteps")
    count = max(1, generated_tokens - UNTIMED_STEPS) if leaves_start_out else generated_tokens
    if not run.states_mean_context:
        run = _with_context(run, (m.sizes.get("prompt_len") or 0) + generated_tokens / 2)
    per_token = steps.forced_cycles(run) if is_forced else steps.free_cycles(run)
    return duration(m, count * per_token)


def _predict_span_with_forced(
    m: Measurement, steps: StepTime, run: DescribedRun, forced_tokens: int | None
) -> Prediction:
    """Predict the time of a run that first reads known tokens and then generates tokens.

    Args:
        m: The measurement.
        steps: Timing model.
        run: The measured run.
        forced_tokens: Number of known tokens. The first `UNTIMED_STEPS` of them are not part of the
            measured time. None if it is not stated.
    """
    tokens, prefix = m.sizes.get("gen_tokens"), m.sizes.get("prompt_len") or 0
    if forced_tokens is None or tokens is None or not UNTIMED_STEPS <= forced_tokens <= tokens:
        raise Declined("a mix of forced and free steps, whose numbers the row does not state")
    forced_run = _with_context(run, prefix + forced_tokens / 2)
    free_run = _with_context(run, prefix + (forced_tokens + tokens) / 2)
    forced_cycles = (forced_tokens - UNTIMED_STEPS) * steps.forced_cycles(forced_run)
    return duration(m, forced_cycles + (tokens - forced_tokens) * steps.free_cycles(free_run))


def _with_context(run: DescribedRun, context: float) -> DescribedRun:
    """Return a copy of a run with another mean number of tokens in the KV cache."""
    return replace(run, shard=run.shard.with_context(context), states_context=True)
