"""Predictors of microbenchmarks on the mesh, and of messages through hosts.

Up to some size, a message from a host through a wafer and back takes a constant time. On several
wafers, a token needs one such message per wafer, and the hosts exchange its data over the network.
"""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.inference.lines import StoredWords, collective_of, multicast_of, ring_bytes, stored_words
from wse.studies.validate.kernel_model.described_run import described_run, stated_number
from wse.studies.validate.kernel_model.kernel_work import kernel_work, probe_cycles
from wse.studies.validate.kernel_model.profile import duration, in_row_unit, step_time_of
from wse.studies.validate.kernel_model.reduce_time import all_reduce_cycles, multicast_cycles
from wse.studies.validate.kernel_model.step_time import StepTime
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import words_per_cycle
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import OWN_CONSTANT, Declined, Prediction

_HOP_PAIR: Final = re.compile(r"hop pair", re.IGNORECASE)
_STAGED_HOP: Final = re.compile(r"store-and-forward.*hop.*\(([0-9,]+) (?:f32|words)", re.IGNORECASE)
_CAST: Final = re.compile(r"softmax pass: .*\bcast of ([0-9,]+) elements", re.IGNORECASE)
_RECEIVED_WORDS: Final = re.compile(r"^([0-9,]+) words received by one DSD", re.IGNORECASE)
_LINK: Final = re.compile(r"fabric link", re.IGNORECASE)


def predict_message(m: Measurement) -> Prediction | None:
    """Predict the time of single vector operations and messages.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
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
    costs = steps.costs
    if message:
        cycles = multicast_cycles(costs, message.receivers, message.words)
        return duration(m, cycles + (costs.task_cycles if message.has_slow_task else 0))
    if stored_message:
        return duration(m, _stored_cycles(stored_message, steps))
    if work:
        count = sum(getattr(costs, name) for name in work.sequences) if work.sequences else 1
        operation_cycles = costs.operation_cycles + (costs.element_cycles * work.length if work.sequences else 0)
        macs_cycles = work.macs / steps.wafer.mac_fp16_fp32_per_cycle
        return duration(m, work.repeats * count * operation_cycles + macs_cycles + probe_cycles(m))
    if line:
        max_pes = max(steps.wafer.mesh_rows, steps.wafer.mesh_cols)
        if line.pes > max_pes:
            raise Declined(f"the line is longer than the {max_pes} PEs of the mesh")
        local = line.operations * steps.work_cycles(line.work, line.length) + line.tasks * costs.task_cycles
        reduce = all_reduce_cycles(steps.wafer, costs, line.pes, line.words, line.group)
        return duration(m, local + reduce + probe_cycles(m))
    if one_operation:
        return _predict_words(m, steps, is_cast=cast is not None, stated_words=one_operation[1])
    return duration(m, steps.hop_pair_cycles(described_run(m).shard))


def _predict_words(m: Measurement, steps: StepTime, *, is_cast: bool, stated_words: str) -> Prediction:
    """Predict the time of a vector operation that receives words or converts (casts) elements.

    Args:
        m: The measurement.
        steps: Timing model.
        is_cast: True if the operation casts elements, False if it receives words.
        stated_words: Number of words or elements as written in the measurement, such as "1,024".
    """
    words = stated_number(stated_words)
    if is_cast:
        return duration(m, steps.work_cycles("conversion", words) + probe_cycles(m))
    return duration(m, steps.costs.operation_cycles + words * steps.costs.multicast_word_cycles)


def _stored_cycles(message: StoredWords, steps: StepTime) -> float:
    """Return the cycles in which the PEs of a column store words at other PEs and reload them.

    One PE after another stores and reloads its words.
    """
    costs = steps.costs
    word_cycles = costs.vector_stored_word_cycles if message.by_vector_operation else costs.stored_word_cycles
    hops = 2 * (message.distance - 1) * steps.wafer.hop_cycles
    return message.pes * max(0.0, message.words * word_cycles - costs.stored_overlap_cycles + hops)


def _predict_link(m: Measurement) -> Prediction:
    """Predict the rate of a link between two PEs, a constant of the wafer in words per cycle."""
    steps = step_time_of(m)
    if not m.text("unit").startswith("wavelets/cycle"):
        raise Declined(OWN_CONSTANT)
    return in_row_unit(words_per_cycle(m, steps.wafer))


NETWORK_BYTES: Final = 5_120
"""Bytes that two hosts exchange per token in the measurements from which the network times of the
profile were taken."""

RING_COLUMNS: Final = 2
RING_COLUMN_PES: Final = 256
"""Number and length of the PE columns that store and forward a message from the host, in the
measurements to which its time was fitted."""

_RING: Final = re.compile(r"\bring\b", re.IGNORECASE)
_COLUMN_SHAPE: Final = re.compile(r"\b([a-z]+|[0-9]+) 1x([0-9]+) store-and-forward", re.IGNORECASE)
_COLUMN_NUMBERS: Final = {"one": 1, "two": 2, "three": 3, "four": 4, "six": 6, "eight": 8}
_PART: Final = re.compile(r"\bpart\b|\bwithout\b|\bexcluding\b|\blatency\b", re.IGNORECASE)
_QUANTILE: Final = re.compile(r"\bp(?!50\b)[0-9]{1,2}\b|\bslowest\b|\bworst\b", re.IGNORECASE)
_NETWORK: Final = re.compile(r"\b(RDMA|TCP)\b", re.IGNORECASE)
_NETWORK_SIZE: Final = re.compile(r"([0-9,]+) B down, 8 B back|same payload", re.IGNORECASE)
_HOST_WORK: Final = re.compile(r"^host [A-Z]:|handler|host included|\b(H2D|D2H|enqueue)\b", re.IGNORECASE)
_HOP_PRICE: Final = re.compile(r"\bhop price|cost of the hop|\badded\b|\boverhead\b|second wafer", re.IGNORECASE)
_ONE_WAFER_PART: Final = re.compile(r"\bwafer ([AB12])\b|per wafer|per-wafer", re.IGNORECASE)
_WHOLE_LOOP: Final = re.compile(r"\bperiod\b|\bloop\b", re.IGNORECASE)
_IN_FLIGHT: Final = re.compile(r"\b([0-9]+) (?:tokens|frames|users) in flight", re.IGNORECASE)
_FRAMES: Final = re.compile(r"frames|queued|saturated|pipelined|in flight", re.IGNORECASE)


def predict_host(m: Measurement) -> Prediction | None:
    """Predict the time of messages between host and wafers, or of decode steps on two wafers.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    metric, phase = m.text("metric"), m.text("phase")
    is_ring = phase == "hop" and _RING.search(metric) is not None
    if phase in ("hop", "decode", "decode-pipelined") and _HOST_WORK.search(metric):
        raise Declined("time of software on the host, which is not modelled")
    network = _NETWORK.search(metric) if phase == "hop" and not _HOP_PRICE.search(metric) else None
    is_two_wafers = (m.sizes.get("wafers") or 1) > 1 and phase in ("hop", "decode", "decode-pipelined")
    if not (is_ring or network or is_two_wafers):
        return None
    steps = step_time_of(m)
    if network:
        size = _NETWORK_SIZE.search(metric)
        if size and "round trip" in metric and (size[1] is None or read_whole(size[1]) == NETWORK_BYTES):
            raise Declined(OWN_CONSTANT)
        raise Declined("an exchange between hosts of another size or kind, whose time is not modelled")
    return _predict_ring(m, steps) if is_ring else _predict_two_wafers(m, steps)


def _predict_ring(m: Measurement, steps: StepTime) -> Prediction:
    """Predict how long a message takes from the host through the PEs of a wafer and back.

    Some metrics are only about the time that the message spends in the PEs. In this case, only this
    time is predicted.
    """
    costs, metric = steps.costs, m.text("metric")
    shape = _COLUMN_SHAPE.search(metric) or _COLUMN_SHAPE.search(m.text("settings"))
    columns, pes = RING_COLUMNS, RING_COLUMN_PES
    if shape:
        stated_columns = _COLUMN_NUMBERS.get(shape[1].lower()) or read_whole(shape[1])
        stated_pes = read_whole(shape[2])
        if not stated_columns or not stated_pes:
            raise Declined("the number or the length of the columns of the ring cannot be read")
        columns, pes = stated_columns, stated_pes
    if _PART.search(metric):
        if not _COLUMN_SHAPE.search(metric):
            raise Declined("a part of the message through the wafer that is not described")
        return duration(m, columns * pes * costs.operation_cycles)
    if _QUANTILE.search(metric):
        raise Declined("a slow quantile of messages, whose waiting is not modelled")
    size = ring_bytes(m)
    if size is None and "payload" in metric.lower():
        raise Declined("the size of the message cannot be read")
    us = costs.ring_us + costs.ring_us_per_byte * max(0.0, (size or 0) - costs.ring_free_bytes)
    other_columns = columns * pes - RING_COLUMNS * RING_COLUMN_PES
    return duration(m, us * 1e-6 * costs.clock_hz + other_columns * costs.operation_cycles)


def _predict_two_wafers(m: Measurement, steps: StepTime) -> Prediction:
    """Predict the time per token of a model that is distributed over several wafers.

    If the metric is only about the time between the wafers, only the messages are timed.
    """
    metric, costs = m.text("metric"), steps.costs
    wafers = m.sizes["wafers"]
    network_us = costs.tcp_us if re.search(r"\bTCP\b", f"{metric} {m.text('settings')}") else costs.rdma_us
    messages_cycles = (wafers * costs.ring_us + network_us) * 1e-6 * costs.clock_hz
    if m.text("phase") == "hop" or _HOP_PRICE.search(metric):
        return duration(m, messages_cycles)
    run = described_run(m)
    if not run.states_context:
        raise Declined("the row does not state the context")
    free_cycles = steps.free_cycles(run)
    tokens_in_flight = _IN_FLIGHT.search(metric)
    is_pipelined = m.text("phase") == "decode-pipelined" or _FRAMES.search(metric) is not None
    if is_pipelined and not run.states_stages:
        raise Declined("the row does not state into how many stages the model is divided")
    if tokens_in_flight:
        loop_cycles = (free_cycles + messages_cycles) / (read_whole(tokens_in_flight[1]) or 1)
        return duration(m, max(loop_cycles, steps.forced_cycles(run)))
    if is_pipelined:
        return duration(m, steps.forced_cycles(run))
    if _ONE_WAFER_PART.search(metric) and not _WHOLE_LOOP.search(metric):
        return duration(m, free_cycles / wafers)
    return duration(m, free_cycles + messages_cycles)
