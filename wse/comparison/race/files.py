"""``wse race`` with the page that it writes: the path checked first, content written last."""

from __future__ import annotations

from pathlib import Path

from wse.comparison.race.page import as_html
from wse.comparison.race.race import race
from wse.comparison.race.result import RaceResult
from wse.comparison.race.text import answer_pieces
from wse.report.output_file import page_path, write_output
from wse.report.progress import OnProgress
from wse.request.race_request import RaceRequest


def race_to_files(request: RaceRequest, on_progress: OnProgress, *, html: str | Path | None) -> RaceResult:
    """Run a race of the request's answer, and write its page.

    Raises:
        BadInput and its kinds: as of `wse.comparison.race.race.race`; or the text cannot be read, or the page written.
    """
    inputs = [] if request.text is None else [Path(request.text)]
    page = None if html is None else page_path("--html", str(html), inputs=inputs)
    pieces = answer_pieces(request.text)
    result = race(request, len(pieces), on_progress)
    if page is not None:
        write_output("--html", page, as_html(result, pieces, request.speed))
    return result
