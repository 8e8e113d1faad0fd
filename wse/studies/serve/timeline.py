"""A simulation as a timeline in the Trace Event Format, JSON that Perfetto's and Chrome's viewers open.

Times are real microseconds. Counters show how many requests wait, are read and are answered; the first requests are
shown one by one, each in a lane that is free when it comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Final

from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.statistics import levels

COUNTER_POINTS: Final = 2_000
MOST_REQUESTS: Final = 5_000
"""Requests that are shown one by one."""
MICRO: Final = 1e6
MACHINE, REQUESTS = 1, 2
COUNTERS: Final = ("waiting", "reading", "answering", "kv_tokens")


def timeline_of(outcome: Outcome, title: str) -> bytes:
    """Return the timeline of an outcome, ASCII."""
    shown = min(MOST_REQUESTS, len(outcome.workload))
    about = {"model": title, "requests": len(outcome.workload), "requests shown one by one": shown}
    events = [*_names(), *_counters(outcome), *_requests(outcome, shown)]
    lines = ",\n".join(json.dumps(event, allow_nan=False) for event in events)
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about})[:-1]
    return f'{head}, "traceEvents": [\n{lines}\n]}}\n'.encode()


def _names() -> Iterator[dict[str, Any]]:
    for process, name in ((MACHINE, "machine"), (REQUESTS, "requests")):
        yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}


def _counters(outcome: Outcome) -> Iterator[dict[str, Any]]:
    over_time = levels(outcome, COUNTER_POINTS)
    for name in COUNTERS:
        values = getattr(over_time, name).tolist()
        before = None
        for time, value in zip(over_time.time_s.tolist(), values, strict=True):
            if value != before:
                yield {"ph": "C", "pid": MACHINE, "ts": time * MICRO, "name": name, "args": {name: value}}
            before = value


def _requests(outcome: Outcome, shown: int) -> Iterator[dict[str, Any]]:
    """Yield the first requests in lanes: the time that each waits, is read and is answered."""
    work = outcome.workload
    begin = float(work.arrival_s[0])
    columns = (work.arrival_s, outcome.start_s, outcome.first_s, outcome.end_s)
    times = [(column[:shown] - begin).tolist() for column in columns]
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for request, (arrival, start, first, end) in enumerate(zip(*times, strict=True)):
        while busy and busy[0][0] <= arrival:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end, lane))
        prompt, answer = int(work.prompt_tokens[request]), int(work.new_tokens[request])
        about = {"request": request, "prompt_tokens": prompt, "new_tokens": answer}
        for name, since, until in (("waits", arrival, start), ("prompt", start, first), ("answer", first, end)):
            if until > since:
                place = {"pid": REQUESTS, "tid": lane + 1, "ts": since * MICRO, "dur": (until - since) * MICRO}
                yield {"ph": "X", **place, "cat": "request", "name": name, "args": about}
