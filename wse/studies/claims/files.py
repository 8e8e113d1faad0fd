"""Entry point of ``wse claims``: checks the output paths, decides the claims, writes the files."""

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
    """Decide which claims about fast inference are true, and write the requested files.

    Args:
        numbers: Numbers of the claims; all claims if empty.
        on_progress: Called with (number of finished claims, total number of claims, current work).
        page: Where to write a Markdown page with all verdicts and plots; None for no page.
        png: Where to write the plot, if a single claim is requested; None for no plot.

    Raises:
        BadInput: A claim does not exist, a file cannot be written, or a plot is requested for
            several claims or for a claim without one.
    """
    page_path = None if page is None else output_path("--page", str(page), suffix=".md", kind="a Markdown file")
    png_path = None if png is None else picture_path("--png", str(png))
    if png_path is not None:
        check_drawn(numbers)
    findings = decide(numbers, on_progress)
    if page_path is not None:
        write_page(findings, page_path)
    if png_path is not None:
        write_plot(findings.curves[numbers[0]], numbers[0], png_path)
    return findings.result
