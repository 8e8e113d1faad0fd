"""Elements of a timeline, and their Trace Event Format, which viewers of Perfetto and Chrome open.

The format counts in microseconds. In these files one microsecond stands for one cycle, so all times
are whole numbers and none is rounded. The file says so in ``otherData``. Source: "Trace Event
Format", Google, the JSON object format with ``traceEvents``.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Any, Final

from wse.reports.result import Report
from wse_traces.schema import HOST

RUN: Final = HOST - 1
"""Number of the timeline process that represents the run as a whole.

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

    def in_lane(self, lane: int) -> Track:
        """Return the track for the slices of this one that were assigned to a lane."""
        return Track(self.process, f"{self.name} (at once: {lane + 1})", self.order + lane) if lane else self


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
        self._busy: list[tuple[float, int]] = []  # (end, lane), a heap
        self._free: list[int] = []  # a heap
        self._count = 0

    def place(self, start: float, end: float) -> int:
        """Assign an event to a lane (row of a timeline) in which it overlaps no other event.

        Args:
            start: First cycle of the event.
            end: Cycle after the last cycle of the event.

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


_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_EVENTS_PER_REPORT: Final = 1000  # events between two calls of `on_progress`


def write_perfetto(
    events: Iterable[Event], attributes: dict[str, Any], file: IO[bytes], on_progress: Callable[[int], None]
) -> int:
    """Write a timeline file for Perfetto, and return the number of slices in it.

    Args:
        events: Slices and counter values, in any order.
        attributes: Facts about the run, stored in ``otherData``.
        file: Output file, written event by event.
        on_progress: Function called every ``_EVENTS_PER_REPORT`` events with the number of
            events written so far.
    """
    out = _EventFile(file, attributes)
    slices = 0
    for number, event in enumerate(events):
        if number % _EVENTS_PER_REPORT == 0:
            on_progress(number)
        if isinstance(event, Slice):
            slices += 1
            place = out.place(event.track)
            span = {"ph": "X", "ts": event.start_cycle, "dur": event.cycles}
            out.write({**span, **place, "cat": event.kind, "name": event.name, "args": event.attributes})
        else:
            place = {"pid": out.process(event.process)}
            out.write({"ph": "C", "ts": event.cycle, **place, "name": event.name, "args": {event.unit: event.value}})
    out.end()
    return slices


class _EventFile:
    """JSON file to which the events of a timeline are written.

    Each process and each track gets a number and a name in the file when its first event is
    written.
    """

    def __init__(self, file: IO[bytes], attributes: dict[str, Any]) -> None:
        self._file = file
        self._processes: set[int] = set()
        self._threads: dict[Track, int] = {}
        head = _json({"displayTimeUnit": "ns", "otherData": attributes})
        file.write(head[:-1] + b',"traceEvents":[\n')
        self._separator = b""

    def write(self, event: dict[str, Any]) -> None:
        """Write one event of the timeline to the file, as JSON."""
        self._file.write(self._separator + _json(event))
        self._separator = b",\n"

    def end(self) -> None:
        """Write the end of the JSON document, after which no more events can be written."""
        self._file.write(b"\n]}\n")

    def place(self, track: Track) -> dict[str, int]:
        """Return the identifiers of a track in the file: ``pid`` (process) and ``tid`` (thread).

        A new track gets a new number, and its name and sort key are written to the file.
        """
        process = self.process(track.process)
        if track not in self._threads:
            self._threads[track] = len(self._threads) + 1
            self._write_metadata(process, self._threads[track], "thread_name", {"name": track.name})
            self._write_metadata(process, self._threads[track], "thread_sort_index", {"sort_index": track.order})
        return {"pid": process, "tid": self._threads[track]}

    def process(self, process: int) -> int:
        """Return the number of a process in the file, and write its name if it is new.

        Processes are numbered in this order: the run, the host, the wafers.
        """
        number = process - RUN + 1
        if process not in self._processes:
            self._processes.add(process)
            self._write_metadata(number, 0, "process_name", {"name": process_name(process)})
            self._write_metadata(number, 0, "process_sort_index", {"sort_index": number})
        return number

    def _write_metadata(self, process: int, thread: int, name: str, attributes: dict[str, Any]) -> None:
        """Write a metadata event, such as the name or the position of a process or thread.

        Args:
            process: Number of the process in the file.
            thread: Number of the thread, or 0 for process metadata.
            name: Kind of metadata, such as "thread_name".
            attributes: Content of the event.
        """
        self.write({"ph": "M", "pid": process, "tid": thread, "name": name, "args": attributes})


def _json(value: dict[str, Any]) -> bytes:
    """Return a value as strict ASCII JSON.

    Non-finite numbers are written as strings such as "nan".
    """
    try:
        return _ENCODER.encode(value).encode()
    except ValueError:
        return _ENCODER.encode(_finite(value)).encode()


def _finite(value: Any) -> Any:
    """Return a copy of a JSON value in which infinite and NaN numbers are replaced by strings."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
