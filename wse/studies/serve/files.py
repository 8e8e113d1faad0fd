"""``wse serve-sim`` with the files that it writes: paths checked first, content written last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.reports.output_file import output_path, page_path, write_output
from wse.reports.progress import OnProgress
from wse.studies.serve.page.page import as_html
from wse.studies.serve.request import ServeRequest
from wse.studies.serve.result import ServeResult
from wse.studies.serve.study import serve
from wse.studies.serve.timeline import timeline_of

KEYS: Final = {"--timeline": "timeline", "--html": "page"}
"""The keys of a result that have the files of options."""
_CHECKS: Final = {"--timeline": output_path, "--html": page_path}


def serve_to_files(
    request: ServeRequest, on_progress: OnProgress, *, timeline: str | Path | None, html: str | Path | None
) -> ServeResult:
    """Serve a request, and write its files.

    Raises:
        BadInput and its kinds: as of `wse.studies.serve.study.serve`; or a path is empty, a folder or the file of
            arrivals, its folder is missing, or a timeline is requested of requests that were not served.
    """
    inputs = [Path(request.traffic.arrivals)]
    given = {"--timeline": timeline, "--html": html}
    paths = {
        option: _CHECKS[option](option, str(text), inputs=inputs) for option, text in given.items() if text is not None
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
