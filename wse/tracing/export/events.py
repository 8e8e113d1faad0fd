"""Elements of a timeline: slices on tracks, and counters. Times are cycles since the run began."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from wse.reports.as_json import Report
from wse_traces.schema import HOST

RUN: Final = HOST - 1
"""Process of the timeline that stands for the run as a whole.

Processes are numbered: a wafer has its index, and the host has ``HOST``, as in a trace.
"""


def process_name(process: int) -> str:
    """Return the displayed name of a process of the timeline: a wafer, the host, or the whole run.

    >>> process_name(0), process_name(HOST), process_name(RUN)
    ('wafer 0', 'host', 'run')
    """
    return {RUN: "run", HOST: "host"}.get(process, f"wafer {process}")


@dataclass(frozen=True, slots=True)
class Track:
    """Horizontal row of a timeline, on which slices (events with a duration) are drawn.

    Attributes:
        process: Process that the track belongs to: a wafer index, ``HOST`` or ``RUN``.
        name: Displayed name.
        order: Sort key of the track among the tracks of its process; the lowest is drawn at the
            top.
    """

    process: int
    name: str
    order: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Event of a timeline with a start and a duration. Slices of one track never overlap.

    Attributes:
        track: Track that the slice is drawn on.
        name: Displayed name.
        kind: Category of the event, such as "pass", "token" or "compute".
        start_cycle: Start in cycles since the run began.
        cycles: Duration.
        attributes: Further facts, which viewers show when the slice is selected.
    """

    track: Track
    name: str
    kind: str
    start_cycle: int
    cycles: int
    attributes: Report = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """Value that a counter of a process has from a given cycle until the counter's next value.

    Attributes:
        process: Process that the counter belongs to: a wafer index, ``HOST`` or ``RUN``.
        name: Displayed name of the counter.
        unit: Unit of the value.
        cycle: Cycle from which the value applies, since the run began.
        value: New value of the counter.
    """

    process: int
    name: str
    unit: str
    cycle: int
    value: float


Event = Slice | Count


class Lanes:
    """Assignment of overlapping slices (events with a duration) to lanes, which are drawn as rows.

    Slices in the same lane do not overlap. They must be placed in order of their start. Each slice
    gets the lowest lane that is free at its start.

    >>> lanes = Lanes()
    >>> [lanes.place(*slice_) for slice_ in ((0, 10), (2, 5), (5, 7), (10, 11))]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # (end, lane), a heap
        self._free: list[int] = []  # a heap
        self._count = 0

    def place(self, start: int, end: int) -> int:
        """Return the lane for an event from cycle ``start`` up to, but excluding, cycle ``end``."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            lane, self._count = self._count, self._count + 1
        heapq.heappush(self._busy, (end, lane))
        return lane
