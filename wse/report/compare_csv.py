"""Rows as CSV: a line of names with their units, a line a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from wse.report.terminal import shown

FORMULA: Final = ("=", "+", "-", "@")
"""What begins a formula in a spreadsheet."""


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """The rows under those of ``columns`` that any of them has; a cell without a value is empty.

    Numbers are written so that they read back the same; texts are on one line, and an apostrophe goes before one that
    a spreadsheet would take for a formula (owasp.org/www-community/attacks/CSV_Injection).
    """
    used = [name for name in columns if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(used)
    for row in rows:
        writer.writerow([_cell(row.get(name, "")) for name in used])
    return text.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        text = shown(value)
        return f"'{text}" if text.startswith(FORMULA) else text
    return repr(value) if isinstance(value, float) else shown(value)
