"""Rows as CSV: a line of names with their units, a line a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

from wse.reports.terminal import printable

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of formulas in a spreadsheet (owasp.org/www-community/attacks/CSV_Injection)."""


def csv_text(value: str) -> str:
    """Return a text as one cell; an apostrophe, which spreadsheets take for the sign of a text, goes before a formula.

    >>> csv_text("=1+1"), csv_text("once"), csv_text("a\\n")
    ("'=1+1", 'once', 'a\\\\n')
    """
    return printable(f"'{value}" if value.startswith(_FORMULA) else value)


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return the rows under those of ``columns`` that any of them has; a cell without a value is empty.

    Numbers are written so that they read back the same; texts are written by `csv_text`.
    """
    filled_columns = [name for name in columns if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(filled_columns)
    for row in rows:
        writer.writerow([_cell(row.get(name, "")) for name in filled_columns])
    return text.getvalue()


def nested_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows under all of their keys; a value inside of another has both keys, joined by an underscore."""
    flat = [dict(_flat(row)) for row in rows]
    return as_csv(flat, list(dict.fromkeys(name for row in flat for name in row)))


def _flat(row: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}_")
        elif isinstance(value, list):
            yield f"{before}{name}", " ".join(_element(element) for element in value)
        else:
            yield f"{before}{name}", value


def _element(value: Any) -> str:
    """Return an element of a list within a cell: numbers with a colon between where it has several."""
    numbers = list(value.values()) if isinstance(value, dict) else value
    return ":".join(map(str, numbers)) if isinstance(numbers, list) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return csv_text(value)
    return repr(value) if isinstance(value, float) else printable(value)
