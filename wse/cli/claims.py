"""``wse claims``: what people say about fast inference, decided by computations."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.request.option import Option, whole_number


def claims(
    number: Annotated[
        list[str] | None,
        Option(positional=True, repeats=True, metavar="N", doc="Claims to explain, by their numbers. Default: all."),
    ] = None,
    page: Annotated[
        str | None,
        Option(panel="Output", metavar="FILE.md", doc="Also write a page of the claims, and their plots beside it."),
    ] = None,
    png: Annotated[
        str | None, Option(panel="Output", metavar="FILE.png", doc="Also draw the plot of one claim.")
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Decide claims about fast inference, on wafers and on GPUs.

    Each with the numbers that decide it, a verdict, and how sure it is.

    Examples:

    \b
      wse claims
      wse claims 7
      wse claims 2 --png chain.png
    """
    from wse.claims.claims import check_drawn, decide
    from wse.claims.page import write_page
    from wse.claims.plot import write_plot
    from wse.report.output_file import output_path, picture_path
    from wse.report.progress import CLAIMING, progress_on

    page_path = None if page is None else output_path("--page", page, suffix=".md", kind="a Markdown file")
    png_path = None if png is None else picture_path("--png", png)
    wanted = tuple(map(_number, number or ()))
    if png_path is not None:
        check_drawn(wanted)
    with progress_on(sys.stderr, CLAIMING) as on_progress:
        decided = decide(wanted, on_progress)
    if page_path is not None:
        write_page(decided, page_path)
    if png_path is not None:
        write_plot(decided.curves[wanted[0]], wanted[0], png_path)
    opt.print_result(decided.result, json=json, detail=bool(number))


def _number(text: str) -> int:
    """The number of a claim. Raises BadInput where the text is no number."""
    from wse.errors import BadInput

    number = whole_number(text)
    if number is None:
        message = f"N {text!r}: give the number of a claim; wse claims lists them"
        raise BadInput(message)
    return number
