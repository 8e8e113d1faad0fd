"""Point-to-point messages and their parts, and a multicast down a line of silicon, from hop, ramp and stream rate.

What the sources timed beside the message itself is a constant of each window, below, with its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator, wafer_of, words_per_cycle
from wse.studies.validate.measured.units import is_cycles
from wse.studies.validate.measured.versions import software
from wse.studies.validate.predictors.fast_model import line_costs, sequence_cycles
from wse.studies.validate.predictors.prediction import NO_GENERATION, OWN_CONSTANT, Prediction, decline
from wse_mappings.schedule import Arrival, uniform_schedule

WINDOW: Final = "constant of the window"

LINK_FIT_CYCLES: Final = 33
"""Cycles of a message between two PEs of WSE-3 silicon, timed by counters, beside its hops and words. Fit over 2,100
straight paths: github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

UNSTATED_PAYLOAD_CYCLES: Final = 7
"""The words of the short messages whose medians are 40 + 2 h cycles, where the same source does not state them: 40 less
`LINK_FIT_CYCLES`."""

COUNTER_READ_CYCLES: Final = 18
"""Two reads of a PE's cycle counter back to back, WSE-3 silicon: EPCC 2026 working notes, unreviewed."""

ALIGNED_CYCLES_PER_HOP: Final = 1
"""Cycles that the SDK's alignment of the PEs' counters takes off each hop away from the corner that it starts from
(github.com/Cerebras/csl-examples)."""

_RECORRECTED: Final = re.compile(r"re-?corrected|global clock", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """A row about messages from one PE to another."""

    row: Measurement
    wafer: WaferSpec
    software: SoftwareProfile

    @property
    def rate(self) -> float:
        return words_per_cycle(self.row, self.wafer)

    @property
    def hops(self) -> int:
        """Hops from one end of the row's PEs to the other."""
        return (self.row.rows or 1) + (self.row.cols or 1) - 2

    @property
    def arrive(self) -> int:
        """Cycles from the router to an operation that waits for the word, and from the last word to the next task."""
        return self.wafer.ramp_cycles + 1

    @property
    def leave(self) -> int:
        """Cycles from the dispatch of a send to its first word at the router."""
        return self.software.vector_issue_cycles + self.wafer.ramp_cycles + 1

    def message(self) -> float | None:
        """Return the cycles from the dispatch of a send to the end of the receive, by the fabric model."""
        if self.row.words is None or not self.hops:
            return None
        costs = line_costs(self.row, self.wafer, self.software)
        one = uniform_schedule("message", self.hops + 1, 1, [(self.hops, 0, Arrival.REPLACE)], colours=1)
        return self.software.vector_issue_cycles + sequence_cycles(costs, self.row.words, one)

    def counted_message(self) -> float | None:
        """Return the message, between two reads of a counter."""
        time = self.message()
        return None if time is None else time + COUNTER_READ_CYCLES

    def silicon_message(self) -> float | None:
        """Return a message on silicon, between the counters of its two PEs."""
        if not self.hops:
            return None
        words = self.row.words
        payload = UNSTATED_PAYLOAD_CYCLES if words is None else words / self.rate
        return LINK_FIT_CYCLES + self.hops * self.wafer.hop_cycles + payload


_PARTS: Final[tuple[tuple[str, str, Callable[[_Path], float | None]], ...]] = (
    (r"cycles per hop\b.*", "wafer preset", lambda p: p.wafer.hop_cycles),
    (r"cycles per (wavelet|word)", "wafer preset", lambda p: 1 / p.rate),
    (r"(wavelets|words)( per |/)cycle( on link)?", "wafer preset", lambda p: p.rate),
    (r"cycles per turn", "fast model", lambda p: 0.0),
    (r"cycles send dispatch to first wavelet\b.*", "fast model", lambda p: p.leave),
    (r"cycles router arrival to receive execute", "fast model", lambda p: p.arrive),
    (r"cycles last wavelet to completion task", "fast model", lambda p: p.arrive),
    (r"cycles send dispatch to receive-complete task\b.*", "fast model", _Path.message),
    (r"cycles by time-?stamp counter\b.*", "fast model", _Path.counted_message),
)
"""A metric, the method, and the value by it. A turn costs nothing in any model here."""


def predict(m: Measurement) -> Prediction | None:
    """Return a message, or a part of it."""
    if m.text("kernel").lower() != "point-to-point":
        return None
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    metric = m.text("metric").strip().lower()
    if metric == "fixed cycles":
        return OWN_CONSTANT
    path = _Path(row=m, wafer=wafer, software=software("tuned", wafer.generation))
    for pattern, method, value in _PARTS:
        if re.fullmatch(pattern, metric):
            return _answer(path, method, value)
    if is_cycles(metric):
        if on_simulator(m):
            return _answer(path, "fast model", _Path.message)
        return _answer(path, WINDOW, _Path.silicon_message)
    return decline("a relay in software from PE to PE, which the fast model has no message for")


def _answer(path: _Path, method: str, value: Callable[[_Path], float | None]) -> Prediction:
    answer = value(path)
    if answer is None:
        return decline("the row does not give the grid of the path and the bytes of the message")
    uses_software = method == "fast model"
    return Prediction(value=answer, method=method, software=path.software.name if uses_software else "")


def ramp(m: Measurement) -> Prediction | None:
    """Return the latency of one ramp."""
    wafer = wafer_of(m)
    if m.text("kernel").lower() != "ramp" or wafer is None or not is_cycles(m.text("metric")):
        return None
    return OWN_CONSTANT


def multicast_line(m: Measurement) -> Prediction | None:
    """A multicast down one line of WSE-3 silicon, counters aligned as the SDK does unless the row says otherwise."""
    wafer = wafer_of(m)
    if m.text("kernel").lower() not in ("broadcast", "multicast") or wafer is None or on_simulator(m):
        return None
    one_line = m.rows == 1 or m.cols == 1
    start_cycles = RECORDS[wafer.generation].multicast_cycles
    if start_cycles is None or not is_cycles(m.text("metric")) or m.words is None or not one_line:
        return None
    hops = (m.rows or 1) + (m.cols or 1) - 2
    per_hop = wafer.hop_cycles
    if not _RECORRECTED.search(f"{m.text('algorithm')} {m.text('note')}"):
        per_hop -= ALIGNED_CYCLES_PER_HOP
    value = start_cycles + m.words / wafer.stream_words_per_cycle + hops * per_hop
    return Prediction(value=value, method=WINDOW)
