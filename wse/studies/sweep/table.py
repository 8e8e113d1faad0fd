"""Writer and reader of a sweep's table as CSV or Parquet, with setting, error and report in rows.

Because the rows may not fit in memory, the table is written in two passes: first columns and types,
then cells. It is written to a temporary file and renamed, so it is always complete.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.row import Cell, JournalEntry, Row, column

CSV, PARQUET = ".csv", ".parquet"
ERROR = "error"
PROSE_BEGINS: Final = ("grades_", "wafer_replaced_")
PROSE_ENDS: Final = ("_grade", "_source", "_weakest", "_assumptions")
"""Prefixes and suffixes of the optional columns with grades or sources."""
ROWS_PER_GROUP: Final = 10_000
_INT64: Final = range(-(2**63), 2**63)

Entries = Callable[[], Iterable[JournalEntry]]


def check_table_path(table: Path) -> None:
    """Check that the table of a sweep can be written to a path.

    Raises:
        BadInput: The suffix is neither ``.csv`` nor ``.parquet``, the library for Parquet is
            missing, or the folder does not exist.
    """
    if table.suffix not in (CSV, PARQUET):
        raise BadInput(f"-o {str(table)!r}: give the name of a table that ends in {CSV} or {PARQUET}")
    if table.suffix == PARQUET and importlib.util.find_spec("pyarrow") is None:
        raise BadInput(f"-o {str(table)!r}: Parquet needs pyarrow: pip install 'wse[parquet]', or give a {CSV}")
    if not table.parent.is_dir():
        raise BadInput(f"-o {str(table)!r}: there is no folder {str(table.parent)!r}; create it, or give another path")


def write_table(grid: Grid, entries: Entries, table: Path, *, every_column: bool = False) -> None:
    """Write the table of a sweep, with one row per setting, in grid order.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        entries: Function that returns the results of all settings, in grid order. It is called
            twice, because the results may not fit in memory.
        table: Path of the table.
        every_column: True to also write the columns with grades and sources of the numbers.

    Raises:
        BadInput: The file cannot be written.
    """
    kinds: dict[str, set[type]] = {}
    for row in _rows(grid, entries, every_column):
        _merge(kinds, row)
    temporary = table.with_name(f"{table.name}.{os.getpid()}")
    try:
        write = _write_csv if table.suffix == CSV else _write_parquet
        write(_rows(grid, entries, every_column), kinds, temporary)
        temporary.replace(table)
    except OSError as error:
        raise BadInput(
            f"{table}: cannot write the table: {error.strerror or error}; correct that and give the command again"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _rows(grid: Grid, entries: Entries, every_column: bool) -> Iterator[Row]:  # noqa: FBT001
    """Yield a table row for each setting: its axis values, its error, and the estimated numbers.

    Result columns with the same values as an axis are omitted.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        entries: Function that returns the results of all settings.
        every_column: True to also write the columns with grades and sources of the numbers.
    """
    for entry in entries():
        fields = {column(name): value for name, value in grid.setting(entry.setting).items()}
        repeated_columns = fields.keys() | {f"inputs_{name}" for name in fields}
        report = {k: v for k, v in entry.row.items() if k not in repeated_columns}
        if not every_column:
            report = {k: v for k, v in report.items() if not (k.startswith(PROSE_BEGINS) or k.endswith(PROSE_ENDS))}
        yield {**fields, ERROR: entry.error or None, **report}


def _merge(kinds: dict[str, set[type]], row: Row) -> None:
    """Add the columns of a row, and the types of its values, to those seen so far.

    A new column is inserted after the column that precedes it in the row.

    Args:
        kinds: Value types seen so far, keyed by column name; modified in place.
        row: The row.
    """
    if not row.keys() <= kinds.keys():
        order = list(kinds)
        at = 0
        for name in row:
            if name in kinds:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
        ordered = {name: kinds.get(name, set()) for name in order}
        kinds.clear()
        kinds.update(ordered)
    for name, cell in row.items():
        if cell is not None:
            kinds[name].add(str if type(cell) is int and cell not in _INT64 else type(cell))


def _write_csv(rows: Iterable[Row], columns: Iterable[str], path: Path) -> None:
    with path.open("x", encoding="utf-8", newline="") as stream:
        names = list(columns)
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(row.get(name)) for name in names] for row in rows)
        stream.flush()
        os.fsync(stream.fileno())


def _write_parquet(rows: Iterable[Row], kinds: dict[str, set[type]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    converters = {name: _converter(kind) for name, kind in kinds.items()}
    arrow_types = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), _text: pyarrow.string()}
    schema = pyarrow.schema([(name, arrow_types[convert]) for name, convert in converters.items()])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        remaining_rows = iter(rows)
        while group := list(islice(remaining_rows, ROWS_PER_GROUP)):
            cells = [{k: None if cell is None else converters[k](cell) for k, cell in row.items()} for row in group]
            writer.write_table(pyarrow.Table.from_pylist(cells, schema))


def _converter(kinds: set[type]) -> Callable[[Any], Cell]:
    """Return a function that converts the cells of a column to one common type.

    Mixed integers and floats are converted to floats. Other mixtures are converted to text.

    Args:
        kinds: Types of the cells.
    """
    if kinds == {int, float}:
        return float
    return next(iter(kinds)) if kinds in ({int}, {float}, {bool}) else _text


def _text(cell: Cell) -> str:
    """Format a cell as CSV text. Numbers can be read back exactly."""
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


_BOOLS: Final = {"true": True, "false": False}
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?")


Frame = Any  # pandas.DataFrame, which nothing else of a sweep needs


def read_frame(table: Path) -> Frame:
    """Read a sweep's table as a ``pandas.DataFrame``. Empty cells become missing values.

    Raises:
        BadInput: pandas is not installed, or the file cannot be read.
    """
    if importlib.util.find_spec("pandas") is None:
        raise BadInput(f"a frame of {table} needs pandas, which is not installed: pip install pandas, or read the file")
    pandas = importlib.import_module("pandas")
    with _as_bad_input(table):
        if table.suffix == PARQUET:
            return pandas.read_parquet(table)
        return pandas.read_csv(table, keep_default_na=False, na_values=[""])


def read_entries(table: Path, axes: tuple[str, ...], settings: int) -> tuple[Grid, list[JournalEntry]]:
    """Read a sweep's grid and results from the table that it wrote.

    Args:
        table: A table with one row per setting, in grid order.
        axes: Names of the axes with several values, in grid order.
        settings: Number of rows written by the sweep.

    Returns:
        The grid of these axes, and one entry per row.

    Raises:
        BadInput: The file cannot be read, or was modified after the sweep wrote it.
    """
    with _as_bad_input(table):
        rows = _parquet_rows(table) if table.suffix == PARQUET else _csv_rows(table)
    names = [column(name) for name in axes]
    if len(rows) != settings or any(name not in row for row in rows[:1] for name in names):
        raise BadInput(f"{table}: is no longer the table of this sweep, which has {settings:,} rows; sweep again")
    grid = Grid(tuple(Axis(name, tuple(dict.fromkeys(row[column(name)] for row in rows))) for name in axes))  # type: ignore[misc]
    return grid, [JournalEntry(setting=at, row=row, error=str(row.get(ERROR) or "")) for at, row in enumerate(rows)]


def _parquet_rows(table: Path) -> list[Row]:
    import pyarrow.parquet

    read: Callable[[Path], Any] = pyarrow.parquet.read_table
    return list(read(table).to_pylist())


def _csv_rows(table: Path) -> list[Row]:
    with table.open(encoding="utf-8", newline="") as stream:
        return [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(stream, strict=True)]


def _cell(text: str) -> Cell:
    """Convert the text of a CSV cell to a Boolean, a number, a string, or None if it is empty."""
    if not text or text in _BOOLS:
        return _BOOLS.get(text)
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


@contextmanager
def _as_bad_input(table: Path) -> Iterator[None]:
    """Convert errors about an unreadable table, raised inside the ``with`` block, to BadInput.

    The message tells the user how to restore the table.
    """
    try:
        yield
    except (OSError, ValueError, csv.Error) as error:  # errors of pandas and pyarrow are ValueErrors
        raise BadInput(f"{table}: cannot read the table: {error}; sweep again, or put the file back") from error
