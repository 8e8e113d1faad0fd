"""Reader of a sweep's table, as rows for a plot or as a pandas DataFrame."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.row import Cell, JournalEntry, Row, column
from wse.studies.sweep.table import ERROR, PARQUET

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
        message = f"a frame of {table} needs pandas, which is not installed: pip install pandas, or read the file"
        raise BadInput(message)
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
        message = f"{table}: is no longer the table of this sweep, which has {settings:,} rows; sweep again"
        raise BadInput(message)
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
    """In this context, convert errors about an unreadable table to BadInput with a remedy."""
    try:
        yield
    except (OSError, ValueError, csv.Error) as error:  # errors of pandas and pyarrow are ValueErrors
        message = f"{table}: cannot read the table: {error}; sweep again, or put the file back"
        raise BadInput(message) from error
