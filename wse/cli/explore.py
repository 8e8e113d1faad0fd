"""``wse explore``: a table as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from wse.cli import options as opt
from wse.studies.options.option import Option


def explore(
    table: Annotated[
        str, Option(positional=True, metavar="TABLE.csv", doc="A table of wse sweep, or another CSV file.")
    ],
    output: Annotated[
        str | None,
        Option(short="-o", metavar="FILE.html", doc="The page. Default: the table's name with .html, beside it."),
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Look at a table as a page: any two columns against each other.

    One file that needs no network: filters as sliders, colours by a third column, and the Pareto front, at first of
    tokens a second of a user against those of a wafer. The place on the page is in its address.

    Examples:

    \b
      wse explore wse-sweep.csv
      wse explore compare.csv -o compare-explored.html
    """
    from wse.studies.explore.study import explore as study

    opt.print_result(study(Path(table), None if output is None else Path(output)), json=json)
