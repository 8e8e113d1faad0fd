"""The comparison of patterns, with the requested page or plot."""

from __future__ import annotations

from pathlib import Path

from wse.reports.output_file import page_path, picture_path, write_output
from wse.reports.progress import OnProgress, ignore
from wse.studies.pattern.request import PatternRequest
from wse.studies.pattern.result import PatternResult
from wse.studies.pattern.study import compare_patterns, pattern_setup


def compare_to_files(
    request: PatternRequest,
    on_progress: OnProgress = ignore,
    *,
    html: str | Path | None = None,
    png: str | Path | None = None,
) -> PatternResult:
    """Compare communication patterns, and write a page or a plot of the result if requested.

    Args:
        request: The patterns, line lengths and word counts to compare.
        on_progress: Called with (cases done, total, name of the next case).
        html: Path of the page; None for no page.
        png: Path of the plot; None for no plot.

    Raises:
        BadInput: An option is invalid (see `compare_patterns`), or a file cannot be written.
    """
    page = None if html is None else page_path("--html", str(html))
    plot = None if png is None else picture_path("--png", str(png))
    result = compare_patterns(request, on_progress)
    if page is not None:
        from wse.studies.pattern.page import animations_of, as_html

        setup = pattern_setup(request)
        animations = animations_of(request, result.cases, setup)
        write_output("--html", page, as_html(result, animations, setup.wafer))
    if plot is not None:
        from wse.reports.figure import png_of

        write_output("--png", plot, png_of(result.plot()))
    return result
