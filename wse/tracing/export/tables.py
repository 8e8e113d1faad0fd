"""The tables of a trace in a flat form, with one value per cell, and their CSV or Parquet files.

A column with a second axis, such as cycles by cause, becomes one column for each position on the
axis. A dataset with one value per PE, such as the words on links, is a *plane*. Its table has a row
for each PE. Datasets of bytes are not exported as tables: tokens have a column ``text``, and the
report is among the facts of the run.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.errors import BadInput, BadTrace, UnknownName
from wse.reports.result import as_json
from wse.reports.rows_csv import csv_text, exact_csv
from wse_traces.field import TEXT, Field, texts_of
from wse_traces.reader.read import Array, Trace
from wse_traces.reader.trace_file import names_at
from wse_traces.schema import AXIS_LABELS, BY_PATH, NAMES, TABLES, flat_names

ROWS_AT_ONCE: Final = 16_384
_BYTES: Final = ("summary_byte", "text_byte", "tensor_byte")
PLANES: Final = {
    path: path.replace("/", "_")
    for path in ("sram/bytes_per_pe", "links/words", "links/patterns/words", "pe/busy_cycles")
}
"""Exported tables of planes, by path of the dataset. They are written on request only."""
_PLACE: Final = {"row": "row of the PE", "col": "column of the PE"}


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """Table to export as a file, with one value per cell.

    Attributes:
        name: Name of the table.
        columns: Fields of the trace schema from which the column values are taken, keyed by column
            name.
        rows: Number of rows.
        batches: Function that yields the values in order, in batches of at most ``ROWS_AT_ONCE``
            rows. Each batch is a list with one item per column.
    """

    name: str
    columns: dict[str, Field]
    rows: int
    batches: Callable[[], Iterator[list[Array | list[str]]]]


def check_tables(names: tuple[str, ...]) -> None:
    """Raise UnknownName if one of the names is not an exportable table."""
    table_names = (*_plain_tables(), *PLANES.values())
    for name in names:
        if name not in table_names:
            raise UnknownName("table", name, table_names, place="--what")


def chosen_tables(trace: Trace, names: tuple[str, ...], *, planes: bool) -> list[FlatTable]:
    """Return the tables to export: the named tables, or all tables that have rows.

    Args:
        trace: Trace to export.
        names: Names of the tables; empty for all.
        planes: True to also return tables with a row for each PE, which are large, if ``names`` is
            empty.

    Raises:
        BadInput: A named table has no rows.
        BadTrace: No table has any rows.
    """
    tables = [_flat(trace, name) for name in _plain_tables()] + [_plane(trace, BY_PATH[path]) for path in PLANES]
    if not names:
        selection = [table for table in tables if table.rows and (planes or table.name not in PLANES.values())]
        if not selection:
            raise BadTrace(f"{trace.path}: nothing is recorded yet; let the run go on, or make the trace again")
        return selection
    selection = [table for table in tables if table.name in names]
    for table in selection:
        if not table.rows:
            raise BadInput(f"--what {table.name}: {trace.path} has no rows of this table; leave it out")
    return selection


def write_tables(
    trace: Trace, tables: Sequence[FlatTable], to: str, folder: Path, on_progress: Callable[[int, int, str], None]
) -> list[str]:
    """Write tables of a trace and the facts about its run, and return the names of the files.

    Args:
        trace: Trace that contains the tables.
        tables: Tables to write.
        to: Format, "csv" or "parquet".
        folder: Folder for the files.
        on_progress: Function called before each batch of rows with the number of rows read so far,
            the total number of rows in all tables, and the name of the table.
    """
    total, rows_read = sum(table.rows for table in tables), 0

    def batches(table: FlatTable) -> Iterator[list[Array | list[str]]]:
        """Yield the batches of a table, and report progress before each batch."""
        nonlocal rows_read
        for batch in table.batches():
            on_progress(rows_read, total, table.name)
            yield batch
            rows_read += len(batch[0])

    ending = {"ending": trace.ending} if trace.ending else {}
    run = {**asdict(trace.header), "complete": trace.complete, **ending, "report": trace.report()}
    write = write_csv if to == "csv" else write_parquet
    return write([replace(table, batches=partial(batches, table)) for table in tables], run, folder)


def _plain_tables() -> list[str]:
    """Return the names of the tables that contain neither bytes nor per-PE values."""
    return [name for name in TABLES if name not in _BYTES and not TABLES[name][0].is_plane]


def _flat(trace: Trace, name: str) -> FlatTable:
    """Return a table of the trace for export, with one value per cell.

    A column that refers to ops or names by row number is followed by a column with the names.
    """
    fields = [field for field in TABLES[name] if not field.is_plane]
    columns: dict[str, Field] = {}
    for field in fields:
        columns |= dict.fromkeys(flat_names(field), field)
        if field.refers in NAMES:
            doc = f"`{field.name}` in words, empty: none"
            columns[f"{field.name}_text"] = Field(NAMES[field.refers], TEXT, field.axes, "text", doc)
    if name == "token":
        doc = "what it says; a part of a character is U+FFFD"
        columns["text"] = Field("tokens/text", TEXT, ("token",), "text", doc)
    rows = trace.rows(name)

    def batches() -> Iterator[list[Array | list[str]]]:
        """Yield the values of the table, at most ``ROWS_AT_ONCE`` rows at a time."""
        words = {of: trace.texts(path) for of, path in NAMES.items() if any(f.refers == of for f in fields)}
        token_texts = trace.token_texts() if name == "token" else []
        for start in range(0, rows, ROWS_AT_ONCE):
            batch: list[Array | list[str]] = []
            for field in fields:
                values = trace.column(field.path, start, start + ROWS_AT_ONCE)
                batch += _values_of(field, values)
                if field.refers in words:
                    batch.append(names_at(values, words[field.refers]))
            yield [*batch, token_texts[start : start + ROWS_AT_ONCE]] if name == "token" else batch

    return FlatTable(name, columns, rows, batches)


def _values_of(field: Field, values: Array) -> list[Array | list[str]]:
    """Return the values of a field as one array or list for each exported column."""
    if field.dtype.startswith("S"):
        return [texts_of(values)]
    if field.labels:
        # A code without a name becomes its number.
        return [[field.labels[code] if code < len(field.labels) else str(code) for code in values.tolist()]]
    return [values] if values.ndim == 1 else list(values.reshape(len(values), -1).T)


def _plane(trace: Trace, field: Field) -> FlatTable:
    """Convert a field with one value per PE to a table that has a row for each PE.

    If the field has a value per PE of each wafer, the rows are the PEs of all wafers. The words
    that layers send over links are recorded in maps (patterns), each for a rectangle of PEs. For
    them, the rows are the PEs of all maps.
    """
    first, *middle_axes, _row, _col = field.axes
    labels = AXIS_LABELS[middle_axes[0]] if middle_axes else ()
    docs = {first: f"{first} that the PE is in, counted from 0", **_PLACE}
    columns = {name: Field(field.path, "<i4", (first,), "index", doc) for name, doc in docs.items()}
    for label in labels or (field.name,):
        columns[f"{label}_{field.name}" if labels else label] = field
    count, header = trace.rows(field.table), trace.header

    def batches() -> Iterator[list[Array | list[str]]]:
        """Yield the values in row-major order, at most ``ROWS_AT_ONCE`` PEs at a time."""
        for index in range(count):
            plane = trace.column(field.path, index, index + 1)[0]
            rows, cols = np.indices(plane.shape[-2:], "i4").reshape(2, -1)
            layers = plane.reshape(-1, plane.shape[-2] * plane.shape[-1])
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                yield [np.full(len(rows[part]), index, "i4"), rows[part], cols[part], *layers[:, part]]

    return FlatTable(PLANES[field.path], columns, count * header.rows * header.cols, batches)


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

    A column of integers with labels (`Field.labels`) becomes a dictionary-encoded column of these
    labels. The metadata of each field contains its unit and description; the metadata of the schema
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
    rows = []
    for table in tables:
        for name, field in table.columns.items():
            dtype = "text" if _is_text(field) else field.dtype.lstrip("<")
            texts = (" ".join(field.labels), field.refers, field.path, field.doc)
            cells = (f"{table.name}.csv", name, field.unit, dtype, *map(csv_text, texts))
            rows.append(dict(zip(CSV_COLUMNS, cells, strict=True)))
    return exact_csv(rows, CSV_COLUMNS)


def _is_text(field: Field) -> bool:
    """Return whether the values of a field are exported as text.

    This applies to text, and to integers with labels.
    """
    return field.dtype == TEXT or bool(field.labels)


def _field(name: str, field: Field) -> Any:
    """Return the Arrow field of a column: its name, type and metadata."""
    import pyarrow

    if field.labels:
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    else:
        kind = pyarrow.string() if _is_text(field) else pyarrow.from_numpy_dtype(np.dtype(field.dtype))
    texts = {"unit": field.unit, "doc": field.doc, "dataset": field.path, "refers": field.refers}
    return pyarrow.field(name, kind, metadata={key: text for key, text in texts.items() if text})
