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
    """Return the display name of a timeline process: a wafer, the host, or the whole run.

    >>> process_name(0), process_name(HOST), process_name(RUN)
    ('wafer 0', 'host', 'run')
    """
    return {RUN: "run", HOST: "host"}.get(process, f"wafer {process}")


@dataclass(frozen=True, slots=True)
class Track:
    """Horizontal row of a timeline, on which slices (events with a duration) are drawn.

    Attributes:
        process: Process that the track belongs to: a wafer index, ``HOST`` or ``RUN``.
        name: Display name.
        order: Sort key of the track within its process. The track with the lowest key is drawn at
            the top.
    """

    process: int
    name: str
    order: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Timeline event with a start and a duration. Slices on the same track never overlap.

    Attributes:
        track: Track on which the slice is drawn.
        name: Display name.
        kind: Category of the event, such as "pass", "token" or "compute".
        start_cycle: Start, in cycles since the start of the run.
        cycles: Duration in cycles.
        attributes: Additional facts, which viewers show when the slice is selected.
    """

    track: Track
    name: str
    kind: str
    start_cycle: int
    cycles: int
    attributes: Report = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """Value of a process counter, which applies from a given cycle until the counter's next value.

    Attributes:
        process: Process that the counter belongs to: a wafer index, ``HOST`` or ``RUN``.
        name: Display name of the counter.
        unit: Unit of the value.
        cycle: Cycle from which the value applies, counted from the start of the run.
        value: New value of the counter.
    """

    process: int
    name: str
    unit: str
    cycle: int
    value: float


Event = Slice | Count


class Lanes:
    """Assignment of overlapping slices (events with a duration) to lanes, drawn as separate rows.

    Slices in the same lane do not overlap. Slices must be placed in order of their start, and each
    gets the lowest lane that is free at that time.

    >>> lanes = Lanes()
    >>> [lanes.place(*slice_) for slice_ in ((0, 10), (2, 5), (5, 7), (10, 11))]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # (end, lane), a heap
        self._free: list[int] = []  # a heap
        self._count = 0

    def place(self, start: int, end: int) -> int:
        """Assign an event to a lane (row of a timeline) in which it overlaps no other event.

        Args:
            start: First cycle of the event.
            end: Cycle after its last one.

        Returns:
            Index of the lane.
        """
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            lane, self._count = self._count, self._count + 1
        heapq.heappush(self._busy, (end, lane))
        return lane
