"""Write the tables of a trace in bounded memory. A killed process leaves a readable file.

The file is open in HDF5's single-writer mode, which orders metadata such that readers find it
consistent at every moment. Rows become visible in two steps: first the columns are flushed, then
the row counts in ``run/rows``. A reader therefore never sees a table whose columns differ in
length.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from wse_traces.errors import TraceError
from wse_traces.header import INTERRUPTED, RunHeader
from wse_traces.schema import ROWS, TABLES
from wse_traces.writer.create import empty_trace, open_for_append, write_ending
from wse_traces.writer.partial import FlushTimer, PartialFile
from wse_traces.writer.written_column import Array, WrittenColumn, join_parts

_ROOM_BYTES = 1 << 19  # disk space for the metadata of one flush


class TableWriter:
    """A writer of rows of the tables of one trace file.

    The file is called ``NAME.partial`` until ``close`` renames it.

    The writer is a context manager. Leaving it normally completes the trace. Leaving it by an
    exception flushes the trace and keeps the partial file, which is marked as incomplete.

    Attributes:
        header: Facts about the run.
    """

    def __init__(self, path: str | os.PathLike[str], header: RunHeader) -> None:
        """Create the file with all its datasets, which have no rows yet.

        Args:
            path: Name of the complete file.
            header: Facts about the run.

        Raises:
            TraceError: The path cannot be written.
        """
        self.header = header
        self._disk = PartialFile(Path(path), empty_trace(header))
        self._failed: TraceError | None = None
        self._rows = dict.fromkeys(TABLES, 0)  # written or buffered
        self._columns = {table: [WrittenColumn(f, header) for f in fields] for table, fields in TABLES.items()}
        self._waiting: dict[str, list[dict[str, Array]]] = {}
        self._waiting_bytes = 0
        self._names: dict[str, int] = {}
        self._timer = FlushTimer()
        self._published = self._in_transaction = False
        self._file = open_for_append(self._disk.path)
        self._open = True  # HDF5 could report this, too, but slowly

    @property
    def path(self) -> Path:
        """Path of the trace: the partial file, or the target after the trace is complete."""
        return self._disk.target if self._published else self._disk.path

    def append(self, table: str, columns: Mapping[str, ArrayLike]) -> range:
        """Append rows to a table.

        The rows are buffered and written later, so the caller must not change the arrays
        afterwards.

        Args:
            table: Name of the table.
            columns: Values of all columns of the table, keyed by the name of the column. All
                columns must have the same length.

        Returns:
            Indices of the rows.

        Raises:
            ValueError: Columns are missing, unknown, of different lengths, or contain values out of
                range.
        """
        schema_columns = self._columns[table]
        if {column.name for column in schema_columns} != columns.keys():
            raise ValueError(
                f"table {table!r} has the columns {sorted(c.name for c in schema_columns)}, given: {sorted(columns)}"
            )
        arrays = {column.name: column.cast(columns[column.name]) for column in schema_columns}
        lengths = [len(array) for array in arrays.values()]
        if min(lengths) != max(lengths):
            raise ValueError(
                f"columns of table {table!r} have different lengths: {dict(zip(arrays, lengths, strict=True))}"
            )
        self._check_usable()
        self._waiting.setdefault(table, []).append(arrays)
        self._waiting_bytes += sum([array.nbytes for array in arrays.values()])
        first = self._rows[table]
        self._rows[table] += lengths[0]
        self._flush_if_due()
        return range(first, first + lengths[0])

    def append_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> range:
        """Append rows to a table, each with a value for every column in the order of the schema.

        Args:
            table: Name of the table.
            rows: The rows, possibly none.

        Returns:
            Indices of the rows.

        Raises:
            ValueError: A row has too few or too many values, or a value is out of range.
        """
        if not rows:
            return range(self._rows[table], self._rows[table])
        names = [column.name for column in self._columns[table]]
        if any(len(row) != len(names) for row in rows):
            raise ValueError(f"a row of table {table!r} needs values for {', '.join(names)}")
        return self.append(table, dict(zip(names, zip(*rows, strict=True), strict=True)))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, so that readers see either all rows that are appended in it or none.

        If the context is left by an exception, the rows are discarded.
        """
        buffered_parts, rows, names = self._waiting, self._rows.copy(), self._names.copy()
        self._waiting, self._in_transaction = {}, True
        try:
            yield
            for table, parts in self._waiting.items():
                buffered_parts.setdefault(table, []).extend(parts)
            rows, names = self._rows, self._names
        finally:
            self._waiting, self._rows, self._names, self._in_transaction = buffered_parts, rows, names, False
        self._flush_if_due()

    def append_names(self, names: Sequence[str]) -> Array:
        """Return the indices of kernel and pattern names in ``strings/names``.

        Names that are not in the table yet are appended.
        """
        fresh = list(dict.fromkeys(n for n in names if n not in self._names))
        if fresh:
            rows = self.append("name", {"names": fresh})
            self._names.update(zip(fresh, rows, strict=True))
        return np.array([self._names[n] for n in names], "<i4")

    def flush(self) -> None:
        """Write all buffered rows, so that readers see them and a crash does not lose them.

        Raises:
            TraceError: The rows cannot be written. All later writes to the trace then fail as well.
        """
        self._check_usable()
        began = time.monotonic()
        try:
            buffered_rows = {table: join_parts(self._columns[table], parts) for table, parts in self._waiting.items()}
            self._disk.reserve(self._file.id.get_filesize() + self._bound_bytes(buffered_rows))
            for table, arrays in buffered_rows.items():
                for column in self._columns[table]:
                    column.append(self._file, arrays[column.name], self._rows[table])
            self._file.flush()
            self._file[ROWS.path][...] = list(self._rows.values())
            self._file.flush()
        except TraceError as error:
            self._failed = error
            raise
        except (OSError, RuntimeError) as error:
            self._failed = TraceError(f"{self._disk.path}: cannot write the trace: {error}")
            raise self._failed from error
        self._waiting.clear()
        self._waiting_bytes = 0
        self._timer.record_flush(began)

    def close(self, *, complete: bool = True, ending: str = "") -> Path:
        """Flush and close the trace. A complete trace is renamed to its target.

        Args:
            complete: Whether the run was completed.
            ending: Why the run ended before it was complete, or "".

        Returns:
            Path of the resulting file.

        Raises:
            TraceError: The trace cannot be written. The partial file then contains what was flushed
                before.
        """
        if not self._open:
            return self.path
        try:
            self.flush()
            self._file.attrs.modify("complete", np.bool_(complete))
            write_ending(self._file, ending)
        finally:
            self._open = False
            self._waiting.clear()
            self._file.close()
            self._disk.trim()
            if self._failed is not None or not complete:
                self._disk.release()
        if complete:
            try:
                self._disk.publish()
                self._published = True
            finally:
                self._disk.release()
        return self.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(complete=False, ending=_ending_of(error))
        except TraceError as second:
            if error is not None and error is not second:
                error.add_note(str(second))

    def _check_usable(self) -> None:
        """Raise the error of an earlier failed write, or an error if the trace is closed."""
        if self._failed is not None:
            raise self._failed
        if not self._open:
            raise ValueError(f"{self.path}: the trace is closed")

    def _flush_if_due(self) -> None:
        """Flush if enough rows or time have accumulated, except during a transaction."""
        if not self._in_transaction and self._timer.is_due(self._waiting_bytes):
            self.flush()

    def _bound_bytes(self, buffered_rows: Mapping[str, Mapping[str, list[Array]]]) -> int:
        """Return an upper bound on the bytes by which a flush lengthens the file.

        In addition to the new rows, the bound includes the last chunk of each column, which HDF5
        may rewrite.

        Args:
            buffered_rows: Columns of the buffered rows of each table.
        """
        rewritten_bytes = 0
        for table, arrays in buffered_rows.items():
            for column in self._columns[table]:
                if not column.planes:
                    chunk_rows = (self._rows[table] - len(arrays[column.name][0])) % column.chunk_rows
                    rewritten_bytes += chunk_rows * column.row_bytes
        return self._waiting_bytes + rewritten_bytes + _ROOM_BYTES


def _ending_of(error: BaseException | None) -> str:
    """Return a message that states why a run ended: "interrupted" for Ctrl-C, else the error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return f"{type(error).__name__}: {error}".removesuffix(": ")
