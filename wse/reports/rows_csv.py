"""Rows as CSV: a line with the column names, then a line for each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wse.reports.terminal import printable

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""Characters that start a spreadsheet formula (owasp.org/www-community/attacks/CSV_Injection)."""


def csv_text(value: str) -> str:
    r"""Return a string as a CSV cell that spreadsheets do not execute as a formula.

    A possible formula is prefixed with an apostrophe, so that spreadsheets read the cell as text.
    Control characters become visible escape sequences.

    >>> csv_text("=1+1"), csv_text("once"), csv_text("a\n")
    ("'=1+1", 'once', 'a\\n')
    """
    return printable(f"'{value}" if value.startswith(_FORMULA) else value)


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV text, omitting columns that are missing in all rows.

    Missing values become empty cells. Numbers are written without loss of precision. Texts that a
    spreadsheet could execute as a formula are escaped.

    Args:
        rows: Values of each row, keyed by column name.
        columns: Names of the columns, in order.
    """
    filled_columns = [name for name in columns if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(filled_columns)
    for row in rows:
        writer.writerow([_cell(row.get(name, "")) for name in filled_columns])
    return text.getvalue()


def exact_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV text with all columns, without escaping any cell.

    Args:
        rows: Values of each row, keyed by column name. Other keys are ignored.
        columns: Names of the columns, in order. Cells of missing values are empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def nested_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows with nested values as CSV text, with a column for every key that occurs.

    The column of a nested value is named by both keys, joined by an underscore. Lists become text.
    """
    flat = [
        {name: " ".join(map(_element, value)) if isinstance(value, list) else value for name, value in flat_items(row)}
        for row in rows
    ]
    return as_csv(flat, list(dict.fromkeys(name for row in flat for name in row)))


def flat_items(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the column names and values of a row, with the values of nested mappings.

    The column of a nested value is named by all keys, joined by underscores.

    Args:
        row: The row.
        prefix: Text before the column names, from the keys of outer dictionaries.
    """
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from flat_items(value, f"{prefix}{name}_")
        else:
            yield f"{prefix}{name}", value


def _element(value: Any) -> str:
    """Format a list item, with the values of an inner list or mapping joined by colons."""
    numbers = list(value.values()) if isinstance(value, dict) else value
    return ":".join(map(str, numbers)) if isinstance(numbers, list) else str(value)


def _cell(value: Any) -> str:
    """Return a value as a CSV cell, with numbers in full precision."""
    if isinstance(value, str):
        return csv_text(value)
    return repr(value) if isinstance(value, float) else printable(value)
