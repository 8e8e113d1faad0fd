"""Predictor of the phases of a layer: steps of attention and feed-forward, and their sums."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.kernel_work import probe_cycles
from wse.studies.validate.predictors.wafer_inference.layer_steps import ATTENTION, FEED_FORWARD
from wse.studies.validate.predictors.wafer_inference.profile import duration, step_time_of

PHASES: Final = ("attention-phase", "ffn-phase")
_STEPS: Final = {step.name: step for step in (*ATTENTION, *FEED_FORWARD)}
_CONTEXT_STEPS: Final = frozenset({"score", "softmax", "pv"})

_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), names.split())
    for pattern, names in (
        (r"\bA1 second half", "qk_norm_rope"),
        (r"\bA1 first half", "qkv"),
        (r"\bA1\b", "qkv qk_norm_rope"),
        (r"\bA2\b|score\s*\.\.\s*residual", "score softmax pv o_proj residual"),
        (r"\bscan\b", "score softmax pv"),
        (r"O-?proj.*\+.*residual", "o_proj residual"),
        (r"\bF1\b|up/gate|up and gate|SiLU", "f1"),
        (r"\bF2\b|\bdown\b", "f2"),
        (r"QK-?norm|\bRoPE\b", "qk_norm_rope"),
        (r"\bQKV\b", "qkv"),
        (r"\bsoftmax\b", "softmax"),
        (r"\bP\.?V\b|score-?V\b", "pv"),
        (r"\bscores?\b", "score"),
        (r"O-?proj", "o_proj"),
        (r"\bresidual\b", "residual"),
    )
)
"""Words of a metric and the steps that they name. The first match is used."""

_OTHER_KERNEL: Final = re.compile(r"\bfused\b|\bvariant\b|fusion", re.IGNORECASE)
_PASS: Final = re.compile(r"\bpass:|\binside softmax\b", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycles of one or several steps of a layer. Return None for other rows."""
    if m.text("phase") not in PHASES or _PASS.search(m.text("metric")):
        return None
    metric = m.text("metric")
    if _OTHER_KERNEL.search(metric):
        return decline("another variant of the kernel, whose operations are not described")
    names = next((names for pattern, names in _PATTERNS if pattern.search(metric)), None)
    if names is None:
        return decline("the metric names no step of a layer that is described")
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    run = described_run(m)
    if isinstance(run, str):
        return decline(run)
    if not run.states_context and not _CONTEXT_STEPS.isdisjoint(names):
        return decline("the row does not state the context")
    return duration(m, steps.layer.cycles([_STEPS[name] for name in names], run.shard) + probe_cycles(m))
