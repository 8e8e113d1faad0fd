"""An open trace file, read lazily: attributes at once, columns on demand, within a size limit.

Every dataset is checked against the schema before it is read. It must be stored in this file, have
the declared type, shape and filters, and be small enough. Texts from a trace are treated as data
and never interpreted.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.field import Field, texts_of
from wse_traces.header import RunHeader
from wse_traces.reader.check import checked_dataset, header_of, row_counts
from wse_traces.reader.chunks import Box, read_box
from wse_traces.reader.column import READ_ERRORS, Column, reason_of
from wse_traces.reader.open_file import open_file
from wse_traces.schema import BY_PATH, FIELDS, NAMES, TABLES

Array = NDArray[Any]
Columns = dict[str, Array]

LIMIT_BYTES = 1 << 30


class TraceFile:
    """An open trace file, with its header and columns.

    Attributes:
        path: Path of the file.
        limit_bytes: Maximum memory that a single read may allocate.
        header: Facts about the run.
        version: Version of the schema.
        complete: Whether the run was completed.
        ending: Error that ended the run, "interrupted", or "".
        file: The open HDF5 file.
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path, self.limit_bytes = path, limit_bytes
        with ExitStack() as stack:
            self.file = stack.enter_context(open_file(path))
            self.header: RunHeader
            self.header, self.version, self.complete, self.ending = header_of(self.file, path)
            self._rows = row_counts(self.file, path)
            self._datasets: dict[str, Any] = {}
            self._stack = stack.pop_all()

    def tables(self) -> list[str]:
        """Return the names of all tables, including those without rows.

        >>> from wse_traces import open_trace
        >>> open_trace("traces/golden/v1/story.h5").tables()[3:6]
        ['edge', 'stage', 'sram/bytes_per_pe']
        """
        return list(TABLES)

    def columns(self, table: str) -> list[str]:
        """Return the paths of the columns of a table.

        Raises:
            TraceError: There is no such table.

        >>> from wse_traces import open_trace
        >>> open_trace("traces/golden/v1/story.h5").columns("edge")
        ['graph/edges/src', 'graph/edges/dst']
        """
        return [field.path for field in self._fields(table)]

    def rows(self, table: str) -> int:
        """Return the number of complete rows of a table; 0 if nothing was recorded."""
        self._fields(table)
        return self._rows[table]

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the paths of all columns."""
        return iter(BY_PATH)

    def __getitem__(self, path: str) -> Column:
        """Return a column without reading its values.

        Raises:
            TraceError: The schema has no column with this path.

        >>> from wse_traces import open_trace
        >>> cycles = open_trace("traces/golden/v1/story.h5")["tokens/cycles"]
        >>> cycles.shape, cycles.unit
        ((18,), 'cycle')
        >>> cycles[:7].tolist()
        [0, 0, 0, 0, 0, 0, 0]
        """
        field = self._field(path)
        shape = (self._rows[field.table], *schema.shape_of(field, self.header))
        return Column(field, shape, lambda box: self._read(field, box))

    def column(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """Return the values of a column as an array.

        Args:
            path: Path of the column.
            start: First row.
            stop: Row after the last. None means all.

        Raises:
            TraceError: The column is missing, deviates from the schema, is damaged, or exceeds the
                size limit.
        """
        values: Array = self[path][start:stop]
        return values

    def table(self, table: str, start: int = 0, stop: int | None = None) -> Columns:
        """Return all columns of a table as arrays, keyed by the name of the column.

        Args:
            table: Name of the table.
            start: First row.
            stop: Row after the last. None means all.

        Raises:
            TraceError: There is no such table, or it is damaged or exceeds the size limit.
        """
        fields = self._fields(table)
        self.check_size(table, fields, len(range(*slice(start, stop).indices(self._rows[table]))))
        return {field.name: self.column(field.path, start, stop) for field in fields}

    def texts(self, path: str) -> list[str]:
        """Return a column of strings, decoded from UTF-8. Invalid bytes are replaced by U+FFFD."""
        return texts_of(self.column(path))

    def records(self, table: str, rows: Array | None = None) -> list[dict[str, Any]]:
        """Return rows of a table as dictionaries of plain values.

        Some columns store a number that stands for a name, such as the index of an op. The
        dictionaries contain the name instead, or "" if the number has no name. Texts are decoded
        from UTF-8.

        Args:
            table: Name of the table.
            rows: Indices of the rows, or None for all.

        >>> from wse_traces import open_trace
        >>> open_trace("traces/golden/v1/story.h5").records("edge", np.array([1]))
        [{'src': 'embedding', 'dst': 'layers.0.output'}]
        """
        columns = {name: column if rows is None else column[rows] for name, column in self.table(table).items()}
        values = [self._in_words(field, columns[field.name]) for field in self._fields(table)]
        return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]

    def _in_words(self, field: Field, values: Array) -> list[Any]:
        """Return the values of a column as a list.

        If the column stores numbers that stand for names, such as indices of ops, the list contains
        the names. Texts are decoded from UTF-8.
        """
        if values.dtype.kind == "S":
            return texts_of(values)
        names = field.labels or (self.texts(NAMES[field.refers]) if field.refers in NAMES else None)
        return list(values.tolist()) if names is None else names_at(values, names)

    def check_size(self, item_name: str, fields: tuple[Field, ...], rows: int) -> None:
        """Raise TraceError if reading some rows of the given columns would exceed the size limit.

        Args:
            item_name: Name of the data to be read, for the error message.
            fields: Fields that describe the columns.
            rows: Number of rows.
        """
        row_bytes = sum(np.dtype(f.dtype).itemsize * math.prod(schema.shape_of(f, self.header)) for f in fields)
        self._check_bytes(item_name, rows * row_bytes)

    def _check_bytes(self, item_name: str, size: int) -> None:
        """Raise TraceError if a read of ``size`` bytes exceeds the size limit of the trace."""
        if size > self.limit_bytes:
            limit = f"the limit is {self.limit_bytes:,} B; read fewer rows at once"
            raise TraceError(f"{self.path}: {item_name}: {size:,} B to read, {limit}")

    def deviations(self, path: str) -> list[str]:
        """Return a message for each difference between a stored column and the schema.

        A column without differences can be read.
        """
        field = self._field(path)
        rows = self._rows[field.table]
        dataset, deviations = checked_dataset(self.file, field, self.header, rows, complete=self.complete)
        if not deviations:
            self._datasets[path] = dataset
        return deviations

    def close(self) -> None:
        """Close the file. Arrays that were read stay valid."""
        self._datasets.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _fields(self, table: str) -> tuple[Field, ...]:
        """Return the descriptions of a table's columns.

        Raises:
            TraceError: There is no such table.
        """
        if table not in TABLES:
            raise TraceError(_unknown_name_message(self.path, "table", table, list(TABLES)))
        return TABLES[table]

    def _field(self, path: str) -> Field:
        """Return the description of the column at a path.

        Raises:
            TraceError: There is no such column.
        """
        if path not in BY_PATH:
            raise TraceError(_unknown_name_message(self.path, "column", path, [field.path for field in FIELDS]))
        return BY_PATH[path]

    def _read(self, field: Field, box: Box) -> Array:
        """Read a block of a column: the elements in a range of indices on each axis.

        The column is checked against the schema when it is first read.

        Args:
            box: First index and index after the last one, on each axis.
        """
        size = math.prod(max(stop - start, 0) for start, stop in box) * np.dtype(field.dtype).itemsize
        if field.path not in self._datasets and (deviations := self.deviations(field.path)):
            raise TraceError(f"{self.path}: {deviations[0]}; the file is damaged or not of this version, make it again")
        self._check_bytes(field.path, size)
        try:
            return read_box(self._datasets[field.path], box)
        except READ_ERRORS as error:
            raise TraceError(
                f"{self.path}: {field.path}: the data is damaged ({reason_of(error)}); make the trace again"
            ) from error


def names_at(indices: Array, names: Sequence[str]) -> list[str]:
    """Return the name at each index, or "" for an index outside the list of names."""
    return [names[index] if 0 <= index < len(names) else "" for index in indices.tolist()]


def _unknown_name_message(path: Path, kind: str, name: str, valid_names: list[str]) -> str:
    """Return the error message for an unknown table or column, which suggests similar names.

    Args:
        path: Path of the trace.
        kind: "table" or "column".
        name: The unknown name.
        valid_names: All names that exist.
    """
    close = difflib.get_close_matches(name, valid_names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "traces/FORMAT.md lists them all"
    return f"{path}: a trace has no {kind} {name!r}; {hint}"
