"""Rows as CSV: a line of names with their units, a line a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from wse.report.csv_text import csv_text
from wse.report.terminal import shown


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """The rows under those of ``columns`` that any of them has; a cell without a value is empty.

    Numbers are written so that they read back the same; texts are what ``csv_text`` makes of them.
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
        return csv_text(value)
    return repr(value) if isinstance(value, float) else shown(value)
