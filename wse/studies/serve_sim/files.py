"""Simulation of ``wse serve-sim``, with the requested page and timeline for Perfetto.

Times on the timeline are in simulated microseconds. Counters show how many requests are waiting,
being prefilled, and being answered. The first requests are also shown individually, each in a lane
that is free at its arrival.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.errors import BadInput
from wse.reports.output_file import output_path, page_path, write_output
from wse.reports.progress import OnProgress
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.statistics import levels
from wse.studies.serve_sim.page.page import as_html
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.result import ServeResult
from wse.studies.serve_sim.study import serve
from wse.tracing.export.perfetto import Lanes


def serve_to_files(
    request: ServeRequest, on_progress: OnProgress, *, timeline: str | Path | None, html: str | Path | None
) -> ServeResult:
    """Simulate a service and write the requested output files: a timeline and an HTML page.

    Paths are checked before the simulation starts.

    Args:
        request: The simulation options.
        on_progress: Called with (requests served, total, current activity).
        timeline: Path of the timeline, which can be viewed in Perfetto. None writes no timeline.
        html: Path of the page. None writes no page.

    Raises:
        BadInput: An option is invalid, as for `wse.studies.serve_sim.study.serve`. Or a path cannot be
            used, or a timeline is requested although the queue would grow without limit, so that no
            requests are served.
    """
    inputs = [Path(request.arrivals)]
    timeline_path = None if timeline is None else output_path("--timeline", str(timeline), inputs=inputs)
    html_path = None if html is None else page_path("--html", str(html), inputs=inputs)
    service = serve(request, on_progress)
    result = service.result
    if timeline_path is not None:
        if service.outcome is None:
            raise BadInput(
                f"--timeline {timeline}: the queue would grow for ever, so no request was served; give a lower --load"
            )
        write_output("--timeline", timeline_path, timeline_of(service.outcome, result.title))
        result = replace(result, timeline=str(timeline_path))
    if html_path is not None:
        write_output("--html", html_path, as_html(service))
        result = replace(result, page=str(html_path))
    return result


COUNTER_POINTS: Final = 2_000
MAX_REQUESTS: Final = 5_000
"""Maximum number of requests shown individually."""
MICRO: Final = 1e6
MACHINE, REQUESTS = 1, 2
COUNTERS: Final = ("waiting", "reading", "answering", "kv_tokens")


def timeline_of(outcome: SimulationOutcome, title: str) -> bytes:
    """Build the timeline of a serving simulation, in the JSON format of Perfetto and Chrome.

    Args:
        outcome: The finished simulation.
        title: Name of the model and machine.
    """
    shown_requests = min(MAX_REQUESTS, len(outcome.workload))
    metadata = {"model": title, "requests": len(outcome.workload), "requests shown one by one": shown_requests}
    events = [*_names(), *_counters(outcome), *_requests(outcome, shown_requests)]
    lines = ",\n".join(json.dumps(event, allow_nan=False) for event in events)
    head = json.dumps({"displayTimeUnit": "ms", "otherData": metadata})[:-1]
    return f'{head}, "traceEvents": [\n{lines}\n]}}\n'.encode()


def _names() -> Iterator[dict[str, Any]]:
    for process, name in ((MACHINE, "machine"), (REQUESTS, "requests")):
        yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}


def _counters(outcome: SimulationOutcome) -> Iterator[dict[str, Any]]:
    over_time = levels(outcome, COUNTER_POINTS)
    for name in COUNTERS:
        values = getattr(over_time, name).tolist()
        previous_value = None
        for time, value in zip(over_time.time_s.tolist(), values, strict=True):
            if value != previous_value:
                yield {"ph": "C", "pid": MACHINE, "ts": time * MICRO, "name": name, "args": {name: value}}
            previous_value = value


def _requests(outcome: SimulationOutcome, request_count: int) -> Iterator[dict[str, Any]]:
    """Yield the timeline events of the first requests: waiting, prompt and answer.

    Requests that overlap in time are drawn in different lanes.

    Args:
        outcome: The finished simulation.
        request_count: Number of requests for which events are yielded.
    """
    work = outcome.workload
    first_requests = np.argsort(work.arrival_s, kind="stable")[:request_count]
    begin = float(work.arrival_s.min())
    columns = (work.arrival_s, outcome.start_s, outcome.first_s, outcome.end_s)
    times = [(column[first_requests] - begin).tolist() for column in columns]
    lanes = Lanes()
    for request, arrival, start, first, end in zip(first_requests.tolist(), *times, strict=True):
        lane = lanes.place(arrival, end)
        prompt, answer = int(work.prompt_tokens[request]), int(work.new_tokens[request])
        details = {"request": request, "prompt_tokens": prompt, "new_tokens": answer}
        for name, start_s, end_s in (("waits", arrival, start), ("prompt", start, first), ("answer", first, end)):
            if end_s > start_s:
                place = {"pid": REQUESTS, "tid": lane + 1, "ts": start_s * MICRO, "dur": (end_s - start_s) * MICRO}
                yield {"ph": "X", **place, "cat": "request", "name": name, "args": details}
