"""Files that ``wse validate`` writes: docs/validation.md with its plot, and all rows as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wse.hardware.load import load_software
from wse.reports.number_text import count, plural
from wse.reports.output_file import write_output
from wse.reports.page.markdown_page import markdown_page
from wse.reports.rows_csv import exact_csv
from wse.reports.table import markdown_table
from wse.reports.terminal import printable
from wse.studies.validate.plot import figure_of
from wse.studies.validate.result import Errors, KindErrors, ReasonCount, Validation

LONGEST_CELL: Final = 180
MAX_REASONS: Final = 5
PLOT_DPI: Final = 130


def write_page(validation: Validation, path: Path) -> None:
    """Write the documentation page with all results, and its plot as a PNG image next to it.

    Args:
        validation: Measurements with their predictions, and a summary of the errors.
        path: Path of the page. The plot has the same path with the suffix ``.png``.

    Raises:
        BadInput: One of the two files cannot be written.
    """
    from wse.reports.output_file import png_of

    plot = path.with_suffix(".png")
    write_output("--page", path, _page(validation, plot.name).encode())
    write_output("--page", plot, png_of(figure_of(validation), PLOT_DPI))


def _page(validation: Validation, plot: str) -> str:
    """Render the documentation page by filling tables into the template ``page.md.j2``.

    Args:
        validation: Measurements with their predictions, and a summary of the errors.
        plot: File name of the plot.
    """
    summary = validation.summary
    median, max_error = _errors(summary)
    return markdown_page(
        "wse.studies.validate",
        plot=plot,
        rows=plural(summary.rows, "row"),
        predicted=count(summary.predicted),
        median=median,
        worst=max_error,
        fitted=count(summary.fitted),
        kinds=_table(
            ("what", "measured on", "rows", "fitted", "median", "worst", "in 50 %", "in 90 %"),
            [_kind_cells(kind) for kind in summary.by_kind],
        ),
        other_schedule=[(errors.rows, errors.method, *_errors(errors)) for errors in summary.by_other_schedule],
        load_software=load_software,
        reasons=_reasons(summary.reasons),
    )


def _reasons(reasons: Sequence[ReasonCount]) -> str:
    """Build a table of the most frequent reasons why measurements are not predicted.

    The last row counts the measurements with any other reason.
    """
    rows = [(count(reason.rows), reason.reason) for reason in reasons[:MAX_REASONS]]
    other_rows = sum(reason.rows for reason in reasons[MAX_REASONS:])
    if other_rows:
        rows.append((count(other_rows), "other reasons"))
    return _table(("rows", "reason"), rows)


def _kind_cells(kind: KindErrors) -> tuple[str, ...]:
    """Format one row of the accuracy table, which is for one kind of measurement."""
    coverage = ("" if part is None else f"{100 * part:.0f} %" for part in (kind.coverage_50, kind.coverage_90))
    fitted_count = count(kind.fitted) if kind.fitted else ""
    return kind.kind, kind.where, count(kind.predicted), fitted_count, *_errors(kind), *coverage


def _errors(group: Errors) -> tuple[str, str]:
    """Format a group's median and largest absolute errors. Both are empty without predictions."""
    median, max_error = group.median_abs_error_pct, group.worst_abs_error_pct
    return ("", "") if median is None else (f"{median:.1f} %", f"{max_error:.1f} %")


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return "\n".join(markdown_table(map(_cell, header), ([_cell(str(cell)) for cell in row] for row in rows)))


def _cell(text: str) -> str:
    """Escape markup in the text of a table cell, and shorten it to `LONGEST_CELL` characters."""
    text = printable(text if len(text) <= LONGEST_CELL else text[:LONGEST_CELL] + "…")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")


_MEASUREMENT: Final = "file line source kernel metric fitted measured"
_PREDICTION: Final = "predicted low high error_pct predicted_plain error_plain_pct method software reason"
COLUMNS: Final = (*_MEASUREMENT.split(), *_PREDICTION.split())
"""Columns of the file. Missing values are empty. ``predicted_plain`` excludes speculative
decoding."""


def write_csv(validation: Validation, path: Path) -> None:
    """Write all measurements with their predictions and errors to a CSV file.

    Raises:
        BadInput: The file cannot be written.
    """
    rows = (row.to_dict() | {"metric": row.input["metric"]} for row in validation.rows)
    write_output("--csv", path, exact_csv(rows, COLUMNS).encode())
