"""Export of tables to CSV or Parquet files, with units, descriptions and the facts of the run."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.reports.result import as_json
from wse.reports.rows_csv import csv_text
from wse.tracing.export.tables import FlatTable
from wse_traces.field import TEXT, Field

CSV_COLUMNS: Final = ("file", "column", "unit", "dtype", "labels", "refers", "dataset", "meaning")
RUN_FILE: Final = "run.json"


def write_csv(tables: Sequence[FlatTable], run: dict[str, Any], folder: Path) -> list[str]:
    """Write each table to a CSV file, plus ``columns.csv`` and ``run.json``; return all file names.

    ``columns.csv`` describes each column of each table. Text that a spreadsheet would interpret as
    a formula is preceded by an apostrophe, so that it is read as text. Control characters,
    including line ends, are written as escape sequences.

    Args:
        tables: Tables to write.
        run: Facts about the run, written to ``run.json``.
        folder: Folder for the files.
    """
    for table in tables:
        with (folder / f"{table.name}.csv").open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            for batch in table.batches():
                writer.writerows(zip(*map(_cells, batch), strict=True))
    (folder / "columns.csv").write_text(_columns_csv(tables), encoding="utf-8")
    (folder / RUN_FILE).write_text(as_json(run), encoding="utf-8")
    return [f"{table.name}.csv" for table in tables] + ["columns.csv", RUN_FILE]


def check_parquet() -> None:
    """Raise BadInput if pyarrow, the library that writes Parquet, is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise BadInput("--to parquet: needs pyarrow: pip install 'wse[parquet]', or take --to csv")


def write_parquet(tables: Sequence[FlatTable], run: dict[str, Any], folder: Path) -> list[str]:
    """Write each table to a Parquet file, and return the file names.

    A column of integer codes that stand for names becomes a dictionary-encoded column of these
    names. The metadata of each field contains its unit and description; the metadata of the schema
    contains the facts about the run.

    Args:
        tables: Tables to write.
        run: Facts about the run.
        folder: Folder for the files.
    """
    import pyarrow
    import pyarrow.parquet

    for table in tables:
        schema = pyarrow.schema(
            [_field(*column) for column in table.columns.items()], metadata={"run": as_json(run).strip()}
        )
        with pyarrow.parquet.ParquetWriter(folder / f"{table.name}.parquet", schema) as writer:
            for batch in table.batches():
                arrays = [pyarrow.array(values, field.type) for values, field in zip(batch, schema, strict=True)]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
    return [f"{table.name}.parquet" for table in tables]


def _cells(values: Any) -> list[Any]:
    """Return a column as CSV cells, with text escaped for spreadsheets and numbers unchanged."""
    return [csv_text(value) for value in values] if isinstance(values, list) else values.tolist()


def _columns_csv(tables: Sequence[FlatTable]) -> str:
    """Return the content of ``columns.csv``: a row for each column of each table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in tables:
        for name, field in table.columns.items():
            dtype = "text" if _is_text(field) else field.dtype.lstrip("<")
            texts = (" ".join(field.labels), field.refers, field.path, field.doc)
            writer.writerow([f"{table.name}.csv", name, field.unit, dtype, *map(csv_text, texts)])
    return text.getvalue()


def _is_text(field: Field) -> bool:
    """Return whether the values of a field are exported as text.

    This applies to text, and to integer codes that stand for names.
    """
    return field.dtype == TEXT or bool(field.labels)


def _field(name: str, field: Field) -> Any:
    """Return the Arrow field of a column: its name, type and metadata."""
    import pyarrow

    if field.labels:
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    elif _is_text(field):
        kind = pyarrow.string()
    else:
        kind = {
            "<i4": pyarrow.int32(),
            "<i8": pyarrow.int64(),
            "u1": pyarrow.uint8(),
            "<f8": pyarrow.float64(),
        }[field.dtype]
    texts = {"unit": field.unit, "doc": field.doc, "dataset": field.path, "refers": field.refers}
    return pyarrow.field(name, kind, metadata={key: text for key, text in texts.items() if text})
