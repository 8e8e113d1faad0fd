"""Predictor of the cycles of attention and feed-forward, in one layer or in a block of layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.described_run import (
    BLOCKS_PER_ROW,
    DescribedRun,
)
from wse.studies.validate.predictors.wafer_inference.kernel_model.layer_steps import BEFORE_CONTEXT, FROM_CONTEXT
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import duration, timed_run
from wse.studies.validate.predictors.wafer_inference.kernel_model.step_time import StepTime

_PHASES: Final = frozenset({"layer-attention", "layer-ffn", "layer"})
_WITH_BOUNDARY: Final = re.compile(r"\bboundary\b", re.IGNORECASE)
_WAITING: Final = re.compile(r"\bwait|contains waiting|back-pressure", re.IGNORECASE)
_WAITS: Final = re.compile(r"\b(ATTN|FFN) block waits on (ATTN|FFN)\b", re.IGNORECASE)
_OTHER_QUANTITY: Final = re.compile(r"\b(idle|share|growth|slope|less|without|first token)\b|[0-9] ?%", re.IGNORECASE)
_ONE_LAYER: Final = re.compile(r"per layer|one layer|\bstage \(", re.IGNORECASE)
_LAYERS: Final = re.compile(r"\(?([0-9]+) layers", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the cycles of attention, of feed-forward, or of the waits between them.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    waits = _WAITS.search(m.text("metric"))
    if m.text("phase") not in _PHASES and not waits:
        return None
    if "meshrt" in m.text("model").lower():
        return decline("other kernels, whose layers are not described")
    if re.search(r"\bboundary of\b", m.text("metric"), re.IGNORECASE):
        return decline("the boundary of a test harness, which is not modelled")
    outcome = timed_run(m)
    if isinstance(outcome, Prediction):
        return outcome
    steps, run = outcome
    if waits:
        return _predict_wait(m, steps, run, waits[2].upper())
    return _predict_part(m, steps, run)


def _predict_wait(m: Measurement, steps: StepTime, run: DescribedRun, awaited_part: str) -> Prediction:
    """Predict how long the attention block waits for the feed-forward block, or vice versa.

    A block of PEs waits between its layers, which is one time fewer than it has layers.

    Args:
        m: The measurement.
        steps: Timing model.
        run: The run.
        awaited_part: Part for which the block waits, ``ATTN`` or ``FFN``.
    """
    if not run.states_context:
        return decline("the row does not state the context")
    cycles = steps.layer.attention_cycles(run.shard) if awaited_part == "ATTN" else steps.layer.ffn_cycles(run.shard)
    return duration(m, (run.layers - 1) * cycles)


def _predict_part(m: Measurement, steps: StepTime, run: DescribedRun) -> Prediction:
    """Predict the cycles of attention, feed-forward or both, in one layer or in several layers."""
    metric, texts = m.text("metric"), f"{m.text('metric')} {m.text('remark_trust')}"
    is_timed_part = re.search(r"\bT_(attn|ffn)\b", metric) is not None
    if _WITH_BOUNDARY.search(texts) and not is_timed_part:
        return decline("includes the boundary of a test harness, which is not modelled")
    if _WAITING.search(metric) or re.search(r"contains (back-pressure )?wait", texts, re.IGNORECASE):
        return decline("contains waiting for another stage, so it is only an upper bound")
    if _OTHER_QUANTITY.search(metric):
        return decline("the metric names no part of a layer that is described")
    if re.search(r"\bserial\b", metric) and run.blocks > BLOCKS_PER_ROW:
        return decline("a layer on blocks of several shapes, of which the row states one")
    compute = _part(metric, m.text("phase"))
    if "A1" not in metric and "ffn" not in m.text("phase") and not run.states_context:
        return decline("the row does not state the context")
    return duration(m, _layers(m, run) * compute(steps, run))


def _part(metric: str, phase: str) -> Callable[[StepTime, DescribedRun], float]:
    """Return the function that computes the cycles of the part of a layer named by a metric.

    If the metric names no part, this is the whole layer.

    Args:
        metric: Metric of the measurement.
        phase: Phase of the measurement, which may be ``layer-attention`` or ``layer-ffn``.
    """
    if re.search(r"\bA1\b", metric):
        return lambda steps, run: steps.layer.cycles(BEFORE_CONTEXT, run.shard)
    if re.search(r"\bA2\b", metric):
        return lambda steps, run: steps.layer.cycles(FROM_CONTEXT, run.shard)
    if phase == "layer-attention" or re.search(r"T_attn|^ATTN", metric):
        return lambda steps, run: steps.layer.attention_cycles(run.shard)
    if phase == "layer-ffn" or re.search(r"T_ffn|^FFN", metric):
        return lambda steps, run: steps.layer.ffn_cycles(run.shard)
    return lambda steps, run: steps.layer.attention_cycles(run.shard) + steps.layer.ffn_cycles(run.shard)


def _layers(m: Measurement, run: DescribedRun) -> int:
    """Return the number of layers that a measured time includes."""
    metric = m.text("metric")
    if _ONE_LAYER.search(metric):
        return 1
    stated_layers = _LAYERS.search(metric)
    return (read_whole(stated_layers[1]) or run.layers) if stated_layers else run.layers
