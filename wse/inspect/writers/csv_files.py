"""Tables as CSV files in a folder, with ``columns.csv``, which says what each column is, and ``run.json``."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from wse.inspect.export.tables import FlatTable
from wse.report.as_json import as_json
from wse.report.csv_text import csv_text

COLUMNS: Final = ("file", "column", "unit", "dtype", "labels", "refers", "dataset", "meaning")
RUN_FILE: Final = "run.json"


def write_csv(
    tables: Sequence[FlatTable], run: dict[str, Any], folder: Path, heard: Callable[[int, int, str], None]
) -> list[str]:
    """Write each table to a file of its own; the names of all files.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, which spreadsheets take for the sign
    of a text; control characters, line ends among them, are written as escapes.
    """
    total, done = sum(table.rows for table in tables), 0
    for table in tables:
        with (folder / f"{table.name}.csv").open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([column.name for column in table.columns])
            for piece in table.pieces():
                heard(done, total, table.name)
                writer.writerows(zip(*map(_cells, piece), strict=True))
                done += len(piece[0])
    (folder / "columns.csv").write_text(_columns(tables), encoding="utf-8")
    (folder / RUN_FILE).write_text(as_json(run), encoding="utf-8")
    return [f"{table.name}.csv" for table in tables] + ["columns.csv", RUN_FILE]


def _cells(values: Any) -> list[Any]:
    return [csv_text(value) for value in values] if isinstance(values, list) else values.tolist()


def _columns(tables: Sequence[FlatTable]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in tables:
        for column in table.columns:
            dtype = "text" if column.is_text else column.dtype
            names = (" ".join(column.labels), column.refers, column.path, column.doc)
            writer.writerow([f"{table.name}.csv", column.name, column.unit, dtype, *map(csv_text, names)])
    return text.getvalue()
