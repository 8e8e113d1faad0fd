"""The study behind ``wse explore TABLE.csv``: reads a table and writes its page."""

from __future__ import annotations

from pathlib import Path

from wse.reports.output_file import page_path, write_output
from wse.studies.explore.csv_table import read_csv
from wse.studies.explore.page import as_html
from wse.studies.explore.result import ExploreResult


def explore(table: Path, output: Path | None = None) -> ExploreResult:
    """Write an HTML page that plots any two columns of a table, with filters and the Pareto front.

    Args:
        table: A CSV file, such as one written by ``wse sweep`` or ``wse compare --csv``.
        output: Path of the page. None for the table's path with the suffix ``.html``.

    Raises:
        BadInput: The table cannot be read or shown, or the page cannot be written.
    """
    path = page_path("-o", str(output or table.with_suffix(".html")), inputs=[table])
    columns = read_csv(table)
    page = as_html(table, columns)
    write_output("-o", path, page)
    return ExploreResult(
        table=str(table), page=str(path), rows=len(columns[0].words), columns=len(columns), page_bytes=len(page)
    )
