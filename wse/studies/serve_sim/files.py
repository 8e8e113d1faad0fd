"""Simulation of ``wse serve-sim``, with the requested timeline and page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.reports.output_file import output_path, page_path, write_output
from wse.reports.progress import OnProgress
from wse.studies.serve_sim.page.page import as_html
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.result import ServeResult
from wse.studies.serve_sim.study import serve
from wse.studies.serve_sim.timeline import timeline_of

KEYS: Final = {"--timeline": "timeline", "--html": "page"}
"""Result fields that contain the path of each option's file."""
_CHECKS: Final = {"--timeline": output_path, "--html": page_path}


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
    texts = {"--timeline": timeline, "--html": html}
    paths = {
        option: _CHECKS[option](option, str(text), inputs=inputs) for option, text in texts.items() if text is not None
    }
    service = serve(request, on_progress)
    outcome, result = service.outcome, service.result
    if outcome is None and timeline is not None:
        message = f"--timeline {timeline}: the queue would grow for ever, so no request was served; give a lower --load"
        raise BadInput(message)
    for option, path in paths.items():
        if option == "--html":
            write_output(option, path, as_html(service))
        elif outcome is not None:
            write_output(option, path, timeline_of(outcome, result.title))
    files: dict[str, Any] = {key: str(paths[option]) for option, key in KEYS.items() if option in paths}
    return replace(result, **files)
