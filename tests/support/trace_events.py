"""A strict reader of the Trace Event Format, as far as timelines of runs use it.

From "Trace Event Format" (Google, the public description of Chromium's JSON traces): the object form holds
``traceEvents``; an event has a phase ``ph``; complete events ``X`` have ``ts`` and ``dur`` in microseconds, counters
``C`` numbers as arguments, metadata ``M`` names and places of processes and threads. Slices of one thread must not
overlap in part; here they must not overlap at all.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

Event = dict[str, Any]
KEYS = {
    "X": {"ph", "ts", "dur", "pid", "tid", "cat", "name", "args"},
    "C": {"ph", "ts", "pid", "name", "args"},
    "M": {"ph", "pid", "tid", "name", "args"},
}
METADATA = {
    "process_name": {"name": str},
    "thread_name": {"name": str},
    "process_sort_index": {"sort_index": int},
    "thread_sort_index": {"sort_index": int},
}


def read_trace_events(data: bytes) -> dict[str, Any]:
    """The object in a file, after everything in it was checked."""
    whole = json.loads(data.decode("ascii"), parse_constant=_no_constant)
    assert whole.keys() == {"displayTimeUnit", "otherData", "traceEvents"}
    assert whole["displayTimeUnit"] in ("ms", "ns")
    named: dict[str, set[Any]] = {"process_name": set(), "thread_name": set()}
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in whole["traceEvents"]:
        assert event.keys() == KEYS[event["ph"]], event
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["args"], dict)
        place = (event["pid"], event.get("tid", 0))
        assert all(type(number) is int and number >= 0 for number in place)
        if event["ph"] == "M":
            kinds = METADATA[event["name"]]
            assert {name: type(value) for name, value in event["args"].items()} == kinds
            if event["name"] in named:
                key = place[0] if event["name"] == "process_name" else place
                assert key not in named[event["name"]], "named twice"
                named[event["name"]].add(key)
            continue
        assert type(event["ts"]) is int, "cycles are exact"
        assert place[0] in named["process_name"], "named before its first event"
        if event["ph"] == "C":
            assert all(type(value) in (int, float) for value in event["args"].values())
            continue
        assert place in named["thread_name"]
        assert type(event["dur"]) is int
        assert event["dur"] >= 0
        slices[place].append((event["ts"], event["ts"] + event["dur"]))
    for track in slices.values():
        track.sort()
        for (_, end), (start, _) in itertools.pairwise(track):
            assert end <= start, "slices of one thread overlap"
    return whole


def names_of(whole: dict[str, Any], what: str) -> dict[Any, str]:
    """``process_name`` by process, or ``thread_name`` by process and thread."""
    found = [event for event in whole["traceEvents"] if event["ph"] == "M" and event["name"] == what]
    key = (lambda e: e["pid"]) if what == "process_name" else (lambda e: (e["pid"], e["tid"]))
    return {key(event): event["args"]["name"] for event in found}


def _no_constant(name: str) -> None:
    raise AssertionError(name)
