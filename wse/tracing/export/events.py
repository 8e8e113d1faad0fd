"""The parts of a timeline: slices on tracks and lanes, and counters, all in cycles from the start of the run."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from wse.reports.as_json import Report
from wse_traces.schema import HOST

RUN: Final = HOST - 1
"""Processes are numbers: of a wafer its own, of the host that which it has in a trace, of the run as a whole this."""


def process_name(process: int) -> str:
    """Return the name of a process of a timeline.

    >>> process_name(0), process_name(HOST), process_name(RUN)
    ('wafer 0', 'host', 'run')
    """
    return {RUN: "run", HOST: "host"}.get(process, f"wafer {process}")


@dataclass(frozen=True, slots=True)
class Track:
    """A line of a timeline: its process, its name, and its position."""

    process: int
    name: str
    order: int


@dataclass(frozen=True, slots=True)
class Slice:
    """An event with a duration. Slices of one track never overlap."""

    track: Track
    name: str
    kind: str
    start_cycle: int
    cycles: int
    attributes: Report = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """The value of a counter of a process from a cycle on, with its unit."""

    process: int
    name: str
    unit: str
    cycle: int
    value: float


Event = Slice | Count


class Lanes:
    """The lanes of one track. Slices come in order of their start; each gets the lowest free lane.

    >>> lanes = Lanes()
    >>> [lanes.place(*slice_) for slice_ in ((0, 10), (2, 5), (5, 7), (10, 11))]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # (end, lane), a heap
        self._free: list[int] = []  # a heap
        self._count = 0

    def place(self, start: int, end: int) -> int:
        """Return the lane of a slice from cycle ``start`` to before ``end``."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            lane, self._count = self._count, self._count + 1
        heapq.heappush(self._busy, (end, lane))
        return lane
