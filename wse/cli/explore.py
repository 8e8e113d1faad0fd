"""``wse explore``: writes a table as an interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from wse.cli import options as opt
from wse.option import Option


def explore(
    table: Annotated[str, Option(positional=True, metavar="TABLE.csv")],
    output: Annotated[str | None, Option(short="-o", metavar="FILE.html")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Write a page that plots any two columns of a table.

    The page is one file that needs no network. It has sliders as filters, colours for a third
    column, and the Pareto front. At first it plots tokens/s per user against tokens/s per wafer.
    The address of the page contains the view.

    Examples:

    \b
      wse explore wse-sweep.csv
      wse explore compare.csv -o compare-explored.html

    Args:
        table: A table of wse sweep, or another CSV file.
        output: The page. Default: the name of the table, with .html, in the same folder.
    """
    from wse.studies.explore.study import explore as study

    opt.print_result(study(Path(table), None if output is None else Path(output)), json=json)
