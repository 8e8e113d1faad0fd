"""Predictor of messages through hosts, and of models on two wafers that hosts connect.

Up to some size, a message from a host through a wafer and back takes a constant time. On several
wafers, a token needs one such message per wafer, and the hosts exchange its data over the network.
"""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import OWN_CONSTANT, Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import described_run
from wse.studies.validate.predictors.wafer_inference.lines import ring_bytes
from wse.studies.validate.predictors.wafer_inference.profile import duration, step_time_of
from wse.studies.validate.predictors.wafer_inference.step_time import StepTime

_RING: Final = re.compile(r"\bring\b", re.IGNORECASE)
_COLUMNS_OF_RING: Final = re.compile(r"store-and-forward columns?", re.IGNORECASE)
_COLUMN_SHAPE: Final = re.compile(r"\b(two|[0-9]+) 1x([0-9]+) store-and-forward", re.IGNORECASE)
_NETWORK: Final = re.compile(r"\b(RDMA|TCP)\b.*round trip", re.IGNORECASE)
_HOST_WORK: Final = re.compile(r"^host [A-Z]:|handler|host included", re.IGNORECASE)
_HOP_PRICE: Final = re.compile(r"\bhop price|cost of the hop|\badded\b|\boverhead\b|second wafer", re.IGNORECASE)
_ONE_WAFER_PART: Final = re.compile(r"\bwafer ([AB12])\b|per wafer|per-wafer", re.IGNORECASE)
_WHOLE_LOOP: Final = re.compile(r"\bperiod\b|\bloop\b", re.IGNORECASE)
_FRAMES: Final = re.compile(r"frames|queued|saturated|pipelined|in flight", re.IGNORECASE)


def predict(m: Measurement) -> Prediction | None:
    """Predict messages through hosts and decode on two wafers. Return None for other rows."""
    metric, phase = m.text("metric"), m.text("phase")
    if phase in ("hop", "decode", "decode-pipelined") and _HOST_WORK.search(metric):
        return decline("time of software on the host, which is not modelled")
    is_ring = phase == "hop" and _RING.search(metric) is not None
    network = _NETWORK.search(metric) if phase == "hop" else None
    is_two_wafers = (m.sizes.get("wafers") or 1) > 1 and phase in ("hop", "decode", "decode-pipelined")
    if not (is_ring or network or is_two_wafers):
        return None
    steps = step_time_of(m)
    if isinstance(steps, Prediction):
        return steps
    if network:
        return OWN_CONSTANT
    return _predict_ring(m, steps) if is_ring else _predict_two_wafers(m, steps)


def _predict_ring(m: Measurement, steps: StepTime) -> Prediction:
    """Predict a message from the host through a wafer and back, or only its time in columns."""
    costs = steps.layer.costs
    shape = _COLUMN_SHAPE.search(m.text("metric"))
    if shape and re.search(r"\bpart\b", m.text("metric")):
        columns = 2 if shape[1].lower() == "two" else int(shape[1])
        return duration(m, columns * int(shape[2]) * costs.operation_cycles)
    size = ring_bytes(m) or 0
    us = costs.ring_us + costs.ring_us_per_byte * max(0.0, size - costs.ring_free_bytes)
    return duration(m, us * 1e-6 * costs.clock_hz)


def _predict_two_wafers(m: Measurement, steps: StepTime) -> Prediction:
    """Predict the time per token on several wafers, or only the time of its messages."""
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
    if m.text("phase") == "decode-pipelined" or _FRAMES.search(metric):
        return duration(m, steps.forced_cycles(run))
    free_cycles = steps.free_cycles(run)
    if _ONE_WAFER_PART.search(metric) and not _WHOLE_LOOP.search(metric):
        return duration(m, free_cycles / wafers)
    return duration(m, free_cycles + messages_cycles)
