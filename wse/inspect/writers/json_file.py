"""A trace as one JSON object: the facts of the run, then each table with its columns, units and meanings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from wse.errors import BadInput
from wse.inspect.export.tables import FlatTable
from wse.report.as_json import as_json

MOST_VALUES: Final = 50_000_000  # some 300 MB


def check_json_size(tables: Sequence[FlatTable]) -> None:
    """Raise BadInput where the tables have more values than a JSON file is good for."""
    total = sum(table.values for table in tables)
    if total > MOST_VALUES:
        largest = max(tables, key=lambda table: table.values)
        share = f"{largest.values:,} of them in {largest.name}"
        remedy = "take --to parquet, or choose tables with --what"
        message = f"--to json: {total:,} values, {share}, at most {MOST_VALUES:,} are written; {remedy}"
        raise BadInput(message)


def write_json(
    tables: Sequence[FlatTable], run: dict[str, Any], file: IO[bytes], heard: Callable[[int, int, str], None]
) -> None:
    """Write ``{"run": …, "tables": {NAME: {"rows": …, "columns": {NAME: {"unit": …}}, "values": [row, …]}}}``.

    A row is an array with a value for each column, in the order of ``columns``. A number that is none becomes null.
    """
    file.write(b'{"run":' + as_json(run).strip().encode() + b',"tables":{')
    total, done = sum(table.rows for table in tables), 0
    for number, table in enumerate(tables):
        columns = {
            column.name: {name: text for name, text in _told(column).items() if text} for column in table.columns
        }
        head = json.dumps({table.name: {"rows": table.rows, "columns": columns}}, separators=(",", ":"))
        file.write((",\n" if number else "\n").encode() + head[1:-2].encode() + b',"values":[')
        separator = b"\n"
        for piece in table.pieces():
            heard(done, total, table.name)
            values = [each if isinstance(each, list) else each.tolist() for each in piece]
            file.write(separator + _rows(list(zip(*values, strict=True))))
            separator = b",\n"
            done += len(piece[0])
        file.write(b"]}")
    file.write(b"}}\n")


def _told(column: Any) -> dict[str, str]:
    return {"unit": column.unit, "doc": column.doc, "dataset": column.path, "refers": column.refers}


def _rows(rows: list[tuple[Any, ...]]) -> bytes:
    """The rows as the inside of an array."""
    try:
        return json.dumps(rows, allow_nan=False, separators=(",", ":"))[1:-1].encode()
    except ValueError:  # a number that is none
        return as_json({"": rows}).strip()[len('{"": [') : -len("]}")].encode()
