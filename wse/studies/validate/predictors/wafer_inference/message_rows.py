"""Predictor of microbenchmarks: multicasts, all-reduces, stored words and single kernels."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import words_per_cycle
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import OWN_CONSTANT, Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.kernel_model.kernel_work import kernel_work, probe_cycles
from wse.studies.validate.predictors.wafer_inference.kernel_model.layer_time import LayerTime
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import duration, in_row_unit, step_time_of
from wse.studies.validate.predictors.wafer_inference.kernel_model.reduce_time import all_reduce_cycles, multicast_cycles
from wse.studies.validate.predictors.wafer_inference.kernel_model.step_time import StepTime
from wse.studies.validate.predictors.wafer_inference.lines import (
    StoredWords,
    collective_of,
    multicast_of,
    stored_words,
)

_HOP_PAIR: Final = re.compile(r"hop pair", re.IGNORECASE)
_STAGED_HOP: Final = re.compile(r"store-and-forward.*hop.*\(([0-9,]+) (?:f32|words)", re.IGNORECASE)
_CAST: Final = re.compile(r"softmax pass: .*\bcast of ([0-9,]+) elements", re.IGNORECASE)
_RECEIVED_WORDS: Final = re.compile(r"^([0-9,]+) words received by one DSD", re.IGNORECASE)
_LINK: Final = re.compile(r"fabric link", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict the time of single vector operations and messages.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    if _LINK.search(m.text("metric")):
        return _predict_link(m)
    message, stored_message, work, line = multicast_of(m), stored_words(m), kernel_work(m), collective_of(m)
    cast = _CAST.search(m.text("metric"))
    one_operation = cast or _STAGED_HOP.search(m.text("metric")) or _RECEIVED_WORDS.search(m.text("metric"))
    is_hop_pair = _HOP_PAIR.search(m.text("metric")) is not None
    if not (message or stored_message or work or line or one_operation or is_hop_pair):
        return None
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    costs, layer = steps.layer.costs, steps.layer
    if message:
        cycles = multicast_cycles(costs, message.receivers, message.words)
        return duration(m, cycles + (costs.task_cycles if message.has_slow_task else 0))
    if stored_message:
        return duration(m, _stored_cycles(stored_message, layer))
    if work:
        count = sum(getattr(costs, name) for name in work.sequences) if work.sequences else 1
        operation_cycles = costs.operation_cycles + (costs.element_cycles * work.length if work.sequences else 0)
        macs_cycles = work.macs / layer.wafer.mac_fp16_fp32_per_cycle
        return duration(m, work.repeats * count * operation_cycles + macs_cycles + probe_cycles(m))
    if line:
        max_pes = max(layer.wafer.mesh_rows, layer.wafer.mesh_cols)
        if line.pes > max_pes:
            return decline(f"the line is longer than the {max_pes} PEs of the mesh")
        local = line.operations * layer.work_cycles(line.work, line.length) + line.tasks * costs.task_cycles
        reduce = all_reduce_cycles(layer.wafer, costs, line.pes, line.words, line.group)
        return duration(m, local + reduce + probe_cycles(m))
    if one_operation:
        return _predict_words(m, layer, is_cast=cast is not None, stated_words=one_operation[1])
    return _predict_hop_pair(m, steps)


def _predict_words(m: Measurement, layer: LayerTime, *, is_cast: bool, stated_words: str) -> Prediction:
    """Predict one vector operation that receives words of a message, or that casts elements.

    Args:
        m: The measurement.
        layer: Timing model.
        is_cast: Whether elements are cast.
        stated_words: Number of words or elements, as the metric states it.
    """
    words = read_whole(stated_words)
    if words is None:
        return decline("the metric has a number that cannot be read")
    if is_cast:
        return duration(m, layer.work_cycles("conversion", words) + probe_cycles(m))
    return duration(m, layer.costs.operation_cycles + words * layer.costs.multicast_word_cycles)


def _stored_cycles(message: StoredWords, layer: LayerTime) -> float:
    """Return the cycles in which the PEs of a column, one after another, store and reload words."""
    costs = layer.costs
    word_cycles = costs.vector_stored_word_cycles if message.by_vector_operation else costs.stored_word_cycles
    hops = 2 * (message.distance - 1) * layer.wafer.hop_cycles
    return message.pes * max(0.0, message.words * word_cycles - costs.stored_overlap_cycles + hops)


def _predict_hop_pair(m: Measurement, steps: StepTime) -> Prediction:
    """Predict the time to send the hidden vector to the neighbouring block and back."""
    run = described_run(m)
    return decline(run) if isinstance(run, str) else duration(m, steps.hop_pair_cycles(run.shard))


def _predict_link(m: Measurement) -> Prediction:
    """Predict the rate of one link, which the wafer preset states in words per cycle."""
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    if not m.text("unit").startswith("wavelets/cycle"):
        return OWN_CONSTANT
    return in_row_unit(words_per_cycle(m, steps.layer.wafer))
