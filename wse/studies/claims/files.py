"""``wse claims`` with the files that it writes: paths checked first, content written last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wse.reports.output_file import output_path, picture_path
from wse.reports.progress import OnProgress
from wse.studies.claims.page import write_page
from wse.studies.claims.plot import write_plot
from wse.studies.claims.result import ClaimsResult
from wse.studies.claims.study import check_drawn, decide


def decide_to_files(
    numbers: Sequence[int], on_progress: OnProgress, *, page: str | Path | None, png: str | Path | None
) -> ClaimsResult:
    """Decide the claims with these numbers, all where none is given, and write their page and the plot of one.

    Raises:
        BadInput: there is no claim of a number, nothing to draw of one, or a path cannot be written.
    """
    page_path = None if page is None else output_path("--page", str(page), suffix=".md", kind="a Markdown file")
    png_path = None if png is None else picture_path("--png", str(png))
    if png_path is not None:
        check_drawn(numbers)
    decided = decide(numbers, on_progress)
    if page_path is not None:
        write_page(decided, page_path)
    if png_path is not None:
        write_plot(decided.curves[numbers[0]], numbers[0], png_path)
    return decided.result
