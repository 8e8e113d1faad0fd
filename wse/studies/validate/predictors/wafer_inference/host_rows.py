"""Predictor of messages through hosts, and of models on two wafers that hosts connect.

Up to some size, a message from a host through a wafer and back takes a constant time. On several
wafers, a token needs one such message per wafer, and the hosts exchange its data over the network.
"""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_whole
from wse.studies.validate.predictors.prediction import OWN_CONSTANT, Prediction, decline
from wse.studies.validate.predictors.wafer_inference.kernel_model.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.kernel_model.profile import duration, step_time_of
from wse.studies.validate.predictors.wafer_inference.kernel_model.step_time import StepTime
from wse.studies.validate.predictors.wafer_inference.lines import ring_bytes

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


def predict(m: Measurement) -> Prediction | None:
    """Predict messages between hosts, messages through a wafer, and decode on two wafers.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    metric, phase = m.text("metric"), m.text("phase")
    is_ring = phase == "hop" and _RING.search(metric) is not None
    if phase in ("hop", "decode", "decode-pipelined") and _HOST_WORK.search(metric):
        return decline("time of software on the host, which is not modelled")
    network = _NETWORK.search(metric) if phase == "hop" and not _HOP_PRICE.search(metric) else None
    is_two_wafers = (m.sizes.get("wafers") or 1) > 1 and phase in ("hop", "decode", "decode-pipelined")
    if not (is_ring or network or is_two_wafers):
        return None
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    if network:
        size = _NETWORK_SIZE.search(metric)
        if size and "round trip" in metric and (size[1] is None or read_whole(size[1]) == NETWORK_BYTES):
            return OWN_CONSTANT
        return decline("an exchange between hosts of another size or kind, whose time is not modelled")
    return _predict_ring(m, steps) if is_ring else _predict_two_wafers(m, steps)


def _predict_ring(m: Measurement, steps: StepTime) -> Prediction:
    """Predict the time of a message from the host through a wafer and back, or its time in PEs."""
    costs, metric = steps.layer.costs, m.text("metric")
    shape = _COLUMN_SHAPE.search(metric) or _COLUMN_SHAPE.search(m.text("settings"))
    columns, pes = RING_COLUMNS, RING_COLUMN_PES
    if shape:
        stated_columns = _COLUMN_NUMBERS.get(shape[1].lower()) or read_whole(shape[1])
        stated_pes = read_whole(shape[2])
        if not stated_columns or not stated_pes:
            return decline("the number or the length of the columns of the ring cannot be read")
        columns, pes = stated_columns, stated_pes
    if _PART.search(metric):
        if not _COLUMN_SHAPE.search(metric):
            return decline("a part of the message through the wafer that is not described")
        return duration(m, columns * pes * costs.operation_cycles)
    if _QUANTILE.search(metric):
        return decline("a slow quantile of messages, whose waiting is not modelled")
    size = ring_bytes(m)
    if size is None and "payload" in metric.lower():
        return decline("the size of the message cannot be read")
    us = costs.ring_us + costs.ring_us_per_byte * max(0.0, (size or 0) - costs.ring_free_bytes)
    other_columns = columns * pes - RING_COLUMNS * RING_COLUMN_PES
    return duration(m, us * 1e-6 * costs.clock_hz + other_columns * costs.operation_cycles)


def _predict_two_wafers(m: Measurement, steps: StepTime) -> Prediction:
    """Predict the time per token on several wafers, or only the time of a token's messages."""
    metric, costs = m.text("metric"), steps.layer.costs
    wafers = m.sizes["wafers"]
    network_us = costs.tcp_us if re.search(r"\bTCP\b", f"{metric} {m.text('settings')}") else costs.rdma_us
    messages_cycles = (wafers * costs.ring_us + network_us) * 1e-6 * costs.clock_hz
    if m.text("phase") == "hop" or _HOP_PRICE.search(metric):
        return duration(m, messages_cycles)
    run = described_run(m)
    if isinstance(run, str):
        return decline(run)
    if not run.states_context:
        return decline("the row does not state the context")
    free_cycles = steps.free_cycles(run)
    tokens_in_flight = _IN_FLIGHT.search(metric)
    is_pipelined = m.text("phase") == "decode-pipelined" or _FRAMES.search(metric) is not None
    if is_pipelined and not run.states_stages:
        return decline("the row does not state into how many stages the model is divided")
    if tokens_in_flight:
        loop_cycles = (free_cycles + messages_cycles) / (read_whole(tokens_in_flight[1]) or 1)
        return duration(m, max(loop_cycles, steps.forced_cycles(run)))
    if is_pipelined:
        return duration(m, steps.forced_cycles(run))
    if _ONE_WAFER_PART.search(metric) and not _WHOLE_LOOP.search(metric):
        return duration(m, free_cycles / wafers)
    return duration(m, free_cycles + messages_cycles)
