"""A timeline in the Trace Event Format, JSON that Perfetto's and Chrome's viewers open.

The format counts in microseconds. Here a microsecond stands for a cycle, so that all times are whole numbers and none
is rounded; the file says so in ``otherData``. Format: "Trace Event Format", Google, the object with ``traceEvents``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import IO, Any, Final

from wse.tracing.export.events import RUN, Event, Slice, Track, process_name

_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_EVERY: Final = 1000  # events between two calls of `on_progress`


def write_perfetto(
    events: Iterable[Event], attributes: dict[str, Any], file: IO[bytes], on_progress: Callable[[int], None]
) -> int:
    """Write a timeline; return its number of slices.

    Args:
        events: What to show, in any order.
        attributes: Attributes of the trace as a whole.
        file: Written to piece by piece.
        on_progress: Called now and then with the number of events so far.
    """
    out = _EventFile(file, attributes)
    slices = 0
    for number, event in enumerate(events):
        if number % _EVERY == 0:
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
    """A file with an array of events. Processes and threads get an index and a name at their first event."""

    def __init__(self, file: IO[bytes], attributes: dict[str, Any]) -> None:
        self._file = file
        self._processes: set[int] = set()
        self._threads: dict[Track, int] = {}
        head = _json({"displayTimeUnit": "ns", "otherData": attributes})
        file.write(head[:-1] + b',"traceEvents":[\n')
        self._separator = b""

    def write(self, event: dict[str, Any]) -> None:
        self._file.write(self._separator + _json(event))
        self._separator = b",\n"

    def end(self) -> None:
        self._file.write(b"\n]}\n")

    def place(self, track: Track) -> dict[str, int]:
        """Process and thread of a track."""
        process = self.process(track.process)
        if track not in self._threads:
            self._threads[track] = len(self._threads) + 1
            self._write_metadata(process, self._threads[track], "thread_name", {"name": track.name})
            self._write_metadata(process, self._threads[track], "thread_sort_index", {"sort_index": track.order})
        return {"pid": process, "tid": self._threads[track]}

    def process(self, process: int) -> int:
        """Return the index of a process in the file: the run, the host, then the wafers."""
        number = process - RUN + 1
        if process not in self._processes:
            self._processes.add(process)
            self._write_metadata(number, 0, "process_name", {"name": process_name(process)})
            self._write_metadata(number, 0, "process_sort_index", {"sort_index": number})
        return number

    def _write_metadata(self, process: int, thread: int, name: str, attributes: dict[str, Any]) -> None:
        self.write({"ph": "M", "pid": process, "tid": thread, "name": name, "args": attributes})


def _json(value: dict[str, Any]) -> bytes:
    """Return strict JSON in ASCII; a number that is not finite is replaced by its name."""
    try:
        return _ENCODER.encode(value).encode()
    except ValueError:
        return _ENCODER.encode(_finite(value)).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
