"""Predictors of messages between two PEs, their parts, and a multicast down a line on silicon.

They use the costs of hops and ramps, and the rate of a stream. The constants below state what the
sources timed in addition to the message, one constant for each kind of window, with its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.part_time import part_time
from wse.hardware.generations import RECORDS
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_simulator, software, wafer_of, words_per_cycle
from wse.studies.validate.measured.text_numbers import is_cycles
from wse.studies.validate.predictors.prediction import NO_GENERATION, OWN_CONSTANT, Declined, Prediction, require
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def line_costs(m: Measurement, wafer: WaferSpec, software: SoftwareProfile) -> LineCosts:
    """Return the costs of moving words along a line of PEs on a measurement's platform.

    Args:
        m: The measurement. Its platform, simulator or silicon, determines the words per cycle.
        wafer: The wafer generation.
        software: Software costs of a PE, such as cycles for relaying a message or between two
            operations.
    """
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return replace(costs, words_per_cycle=words_per_cycle(m, wafer))


def sequence_cycles(costs: LineCosts, words: int, *patterns: LineSchedule) -> float:
    """Return how many cycles several communication patterns take in sequence.

    Between two patterns, a PE needs some cycles (the gap) to start its next operation.

    Args:
        costs: Costs of moving words along a line of PEs.
        words: Number of 32-bit words on each PE.
        patterns: The patterns, in order. All lines of a pattern run concurrently.
    """
    return (len(patterns) - 1) * costs.gap + sum(_cycles(costs, words, pattern) for pattern in patterns)


def _cycles(costs: LineCosts, words: int, pattern: LineSchedule) -> float:
    """Return how many cycles a communication pattern takes on one line of PEs.

    Args:
        costs: Costs of moving words along a line of PEs.
        words: Number of 32-bit words on each PE.
        pattern: Messages of the pattern.
    """
    if pattern.part is not None:
        return part_time(pattern, 0, words, costs).total
    return line_cycles(pattern.messages, words, costs, pattern.message_colours).total


WINDOW: Final = "constant of the window"

LINK_FIT_CYCLES: Final = 33
"""Cycles of a message between two PEs on WSE-3 silicon, in addition to its hops and words.

The source timed 2,100 straight paths with cycle counters and fitted this constant:
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

UNSTATED_PAYLOAD_CYCLES: Final = 7
"""Cycles spent on the words of a message whose size the same source does not state.

The median of these messages is 40 + 2 h cycles over h hops, so their words take 40 -
`LINK_FIT_CYCLES`."""

COUNTER_READ_CYCLES: Final = 18
"""Cycles taken by two consecutive reads of a PE's cycle counter on WSE-3 silicon. Source: EPCC 2026
working notes, unreviewed."""

ALIGNED_CYCLES_PER_HOP: Final = 1
"""Cycles per hop by which times appear too short because of the SDK's alignment of the PE counters.

The alignment spreads from a corner of the mesh (github.com/Cerebras/csl-examples)."""

_RECORRECTED: Final = re.compile(r"re-?corrected|global clock", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """A measured message between two PEs, with the wafer and software costs to predict its time.

    The message travels from one corner of the measured rectangle of PEs to the opposite corner.
    """

    row: Measurement
    wafer: WaferSpec
    software: SoftwareProfile

    @property
    def rate(self) -> float:
        """Words per cycle of a stream on the measured platform: the simulator or silicon."""
        return words_per_cycle(self.row, self.wafer)

    @property
    def hops(self) -> int:
        """Number of hops from one corner of the measured PEs to the opposite corner."""
        return (self.row.rows or 1) + (self.row.cols or 1) - 2

    @property
    def receive_cycles(self) -> int:
        """Cycles from a word's arrival at the router until the operation awaiting it can use it."""
        return self.wafer.ramp_cycles + 1

    @property
    def send_cycles(self) -> int:
        """Cycles from the dispatch of a send until its first word has reached the router."""
        return self.software.vector_issue_cycles + self.wafer.ramp_cycles + 1

    def message(self) -> float | None:
        """Return the cycles from the dispatch of a send to the end of the receive at the other PE.

        Return None if the measurement does not specify the path or the message size.
        """
        if self.row.words is None or not self.hops:
            return None
        costs = line_costs(self.row, self.wafer, self.software)
        schedule = uniform_schedule("message", self.hops + 1, 1, [(self.hops, 0, Arrival.REPLACE)], colours=1)
        return self.software.vector_issue_cycles + sequence_cycles(costs, self.row.words, schedule)

    def message_with_counter_reads(self) -> float | None:
        """Return the result of `message` plus the cycles for reading the cycle counter twice.

        Return None if the measurement does not specify the path or the message size.
        """
        time = self.message()
        return None if time is None else time + COUNTER_READ_CYCLES

    def silicon_message(self) -> float | None:
        """Return how many cycles a message takes on silicon, measured by the counters of both PEs.

        Return None if the measurement does not specify the path.
        """
        if not self.hops:
            return None
        words = self.row.words
        payload = UNSTATED_PAYLOAD_CYCLES if words is None else words / self.rate
        return LINK_FIT_CYCLES + self.hops * self.wafer.hop_cycles + payload


_PARTS: Final[tuple[tuple[str, str, Callable[[_Path], float | None]], ...]] = (
    (r"cycles per hop\b.*", "wafer preset", lambda p: p.wafer.hop_cycles),
    (r"cycles per (wavelet|word)", "wafer preset", lambda p: 1 / p.rate),
    (r"(wavelets|words)( per |/)cycle( on link)?", "wafer preset", lambda p: p.rate),
    (r"cycles per turn", "fabric model", lambda p: 0.0),
    (r"cycles send dispatch to first wavelet\b.*", "fabric model", lambda p: p.send_cycles),
    (r"cycles router arrival to receive execute", "fabric model", lambda p: p.receive_cycles),
    (r"cycles last wavelet to completion task", "fabric model", lambda p: p.receive_cycles),
    (r"cycles send dispatch to receive-complete task\b.*", "fabric model", _Path.message),
    (r"cycles by time-?stamp counter\b.*", "fabric model", _Path.message_with_counter_reads),
)
"""Metric patterns, the method, and the function that computes the value. No model charges for turns
in a path."""


def predict(m: Measurement) -> Prediction | None:
    """Predict how long a message between two PEs, or a part of it, takes.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    kernel, metric = m.text("kernel").lower(), m.text("metric").strip().lower()
    if kernel == "ramp" and is_cycles(metric) and wafer_of(m) is not None:
        raise Declined(OWN_CONSTANT)  # the latency of the link between a PE and its router
    if kernel != "point-to-point":
        return None
    wafer = require(wafer_of(m), NO_GENERATION)
    if metric == "fixed cycles":
        raise Declined(OWN_CONSTANT)
    path = _Path(row=m, wafer=wafer, software=software("tuned", wafer.generation))
    for pattern, method, value in _PARTS:
        if re.fullmatch(pattern, metric):
            return _answer(path, method, value)
    if is_cycles(metric):
        if on_simulator(m):
            return _answer(path, "fabric model", _Path.message)
        return _answer(path, WINDOW, _Path.silicon_message)
    raise Declined("relays in software from PE to PE are not modelled")


def _answer(path: _Path, method: str, value: Callable[[_Path], float | None]) -> Prediction:
    """Return the computed value as a Prediction, or the reason why it cannot be computed.

    Args:
        path: The path.
        method: Name of the prediction method.
        value: Function that computes the value, or returns None if information about the path is
            missing.
    """
    answer = require(value(path), "the row does not state the grid of the path and the bytes of the message")
    uses_software = method == "fabric model"
    return Prediction(value=answer, method=method, software=path.software.name if uses_software else "")


def multicast_line(m: Measurement) -> Prediction | None:
    """Predict how long a multicast down a line of PEs takes on silicon.

    The PE clocks are assumed to be aligned by the SDK's method, unless the measurement states that
    its times were corrected.

    Returns:
        The prediction. None if something else was measured, or if the start-up time of the wafer
        generation is unknown.
    """
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
