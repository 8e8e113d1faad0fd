"""Writing of a trace while a run proceeds, in bounded memory, such that a kill leaves it readable.

The file is open in HDF5's single-writer mode, which orders metadata such that readers find it
consistent at every moment. Rows become visible in two steps: first the columns are flushed, then
the row counts in ``run/rows``. A reader therefore never sees a table whose columns differ in
length.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.header import INTERRUPTED, RunHeader
from wse_traces.schema import BY_PATH, PHASES, ROWS, TABLES
from wse_traces.writer.create import empty_trace, open_for_append, write_ending
from wse_traces.writer.partial import PartialFile
from wse_traces.writer.token_rows import Token, token_columns
from wse_traces.writer.written_column import BufferedRows, WrittenColumn, WrittenDataset, join_parts

Array = NDArray[Any]

_BUFFER_BYTES = 4 << 20  # maximum size of rows that are buffered in memory
_FLUSH_S = 1.0  # minimum time between flushes
_FLUSH_FRACTION = 0.01  # maximum fraction of the run that flushing takes, and that a kill can lose
_FIRST_FLUSHES, _FIRST_FLUSH_S = 3, 0.125  # the first flushes come sooner, at intervals that double
_ROOM_BYTES = 1 << 19  # disk space for the metadata of one flush


class TraceWriter:
    """A writer of one trace file. The file is called ``NAME.partial`` until ``close`` renames it.

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
        self._columns = {table: [WrittenColumn.of(f, header) for f in fields] for table, fields in TABLES.items()}
        self._row_bytes = {
            table: sum(column.row_bytes for column in columns) for table, columns in self._columns.items()
        }
        self._waiting: dict[str, list[BufferedRows]] = {}
        self._waiting_bytes = 0
        self._names: dict[str, int] = {}
        self._started = self._flushed = time.monotonic()
        self._flush_took_s, self._flushes = 0.0, 0
        self._published = self._in_transaction = False
        self._file = open_for_append(self._disk.path)
        self._datasets: dict[str, WrittenDataset] = {}
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
            message = (
                f"table {table!r} has the columns {sorted(c.name for c in schema_columns)}, given: {sorted(columns)}"
            )
            raise ValueError(message)
        arrays = {column.name: column.cast(columns[column.name]) for column in schema_columns}
        lengths = [len(array) for array in arrays.values()]
        if min(lengths) != max(lengths):
            message = f"columns of table {table!r} have different lengths: {dict(zip(arrays, lengths, strict=True))}"
            raise ValueError(message)
        self._waiting.setdefault(table, []).append(arrays)
        return self._count_rows(table, lengths[0], sum([array.nbytes for array in arrays.values()]))

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

    def append_schedule(
        self, steps: Mapping[str, ArrayLike], *, phase: str, kv_slots: int, cycles: int | None = None
    ) -> int:
        """Append a schedule, a sequence of steps that many passes may execute.

        Args:
            steps: Columns of the table of steps.
            phase: "prefill", "decode" or "verify".
            kv_slots: KV cache slots in use on the fullest row of PEs.
            cycles: Duration of the schedule. None means the end of its last step.

        Returns:
            Index of the schedule.
        """
        rows = self.append("step", steps)
        if cycles is None:
            cycles = int(np.max(np.add(steps["start_cycle"], steps["cycles"]), initial=0))
        schedule = {"phase": PHASES.index(phase), "kv_slots": kv_slots, "cycles": cycles}
        return self._append_row("schedule", {**schedule, "first_step": rows.start, "steps": len(rows)})

    def append_pass(self, *, schedule: int, start_cycle: int, wall_s: float) -> int:
        """Append a pass, which is one execution of a schedule.

        Args:
            schedule: Index of the schedule.
            start_cycle: Start, in cycles from the start of the run.
            wall_s: Seconds that the emulator needed.

        Returns:
            Index of the pass.
        """
        return self._append_row("pass", {"schedule": schedule, "start_cycle": start_cycle, "wall_s": wall_s})

    def append_tokens(self, *tokens: Token) -> range:
        """Append consecutive tokens, and return their indices."""
        byte_rows = self.append("text_byte", {"text": np.frombuffer(b"".join([token.text for token in tokens]), "u1")})
        ends = byte_rows.start + np.cumsum([len(token.text) for token in tokens])
        return self.append("token", token_columns(tokens) | {"text_end": ends})

    def append_tensor(self, values: ArrayLike, *, pass_index: int, op: int) -> int:
        """Append the output of an op in one pass.

        Args:
            values: Array with at most four axes.
            pass_index: Pass in which the op ran.
            op: Index of the op.

        Returns:
            Index of the tensor.
        """
        array = np.ascontiguousarray(values)
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        end = self.append("tensor_byte", {"bytes": np.frombuffer(little.tobytes(), "u1")}).stop
        shape = (1,) * (4 - array.ndim) + array.shape
        return self._append_row(
            "tensor", {"pass": pass_index, "op": op, "dtype": array.dtype.name, "shape": shape, "end": end}
        )

    def append_content(self, values: ArrayLike, *, pass_index: int, buffer: int, pe: tuple[int, int, int]) -> int:
        """Append the contents of one SRAM buffer of a PE.

        Args:
            values: uint8 ``[bytes]``.
            pass_index: Pass in which the bytes were read.
            buffer: Index of the buffer.
            pe: Wafer, row and column of the PE.

        Returns:
            Index of the row in the table ``content``.
        """
        end = self.append("content_byte", {"bytes": np.asarray(values, np.uint8)}).stop
        place = dict(zip(("wafer", "row", "col"), pe, strict=True))
        return self._append_row("content", {"pass": pass_index, "buffer": buffer, **place, "end": end})

    def append_pattern(self, words: ArrayLike) -> int:
        """Append a pattern, a map of the words on links in the rectangle of a layer.

        Args:
            words: int ``[direction, row, col]``.

        Returns:
            Index of the pattern.
        """
        array = np.asarray(words)
        rows, cols = array.shape[1:]
        return self.append("pattern", {"words": array[np.newaxis], "rows": [rows], "cols": [cols]}).start

    def append_plane(self, path: str, values: ArrayLike) -> int:
        """Append the values of every PE of the next wafer to a dataset.

        Args:
            path: ``links/words``, ``pe/busy_cycles`` or ``sram/bytes_per_pe``.
            values: Array with the axes of the dataset after the first.

        Returns:
            Index of the wafer.

        Raises:
            ValueError: The values have the wrong shape.
        """
        field = BY_PATH[path]
        if np.shape(values) != schema.shape_of(field, self.header):
            message = f"{path}: a plane of shape {np.shape(values)}, needed: {schema.shape_of(field, self.header)}"
            raise ValueError(message)
        return self.append(field.table, {field.name: np.asarray(values)[np.newaxis]}).start

    def append_sram(self, stages: Mapping[str, ArrayLike], *, pe_bytes: int) -> None:
        """Append the stages with the SRAM that they use, and the use of SRAM on every PE.

        All PEs of a stage are assumed to be as full as its fullest PE. The SRAM of PEs that belong
        to no stage is free.

        Args:
            stages: Columns of the table of stages.
            pe_bytes: Bytes of SRAM of a PE.
        """
        self.append("stage", stages)
        shape = (len(schema.USES), self.header.rows, self.header.cols)
        corners = [np.asarray(stages[name]) for name in ("wafer", "row", "col", "rows", "cols")]
        for wafer in range(self.header.wafers):
            plane = np.zeros(shape, "<i4")
            plane[schema.USES.index("free")] = pe_bytes
            for w, row, col, rows, cols, uses in zip(*corners, np.asarray(stages["stage_bytes"]), strict=True):
                if w == wafer:
                    plane[:, row : row + rows, col : col + cols] = uses[:, np.newaxis, np.newaxis]
            self.append_plane("sram/bytes_per_pe", plane)

    def write_summary(self, report: Mapping[str, object]) -> None:
        """Store the report of the run. Call this once, at the end of the run."""
        text = json.dumps(report, ensure_ascii=False).encode()
        self.append("summary_byte", {"summary": np.frombuffer(text, "u1")})

    def flush(self) -> None:
        """Write all buffered rows, so that readers see them and a kill cannot lose them.

        Raises:
            TraceError: The rows cannot be written. All later writes to the trace then fail as well.
        """
        self._check_usable()
        began = time.monotonic()
        try:
            buffered_rows = {table: join_parts(self._columns[table], parts) for table, parts in self._waiting.items()}
            self._disk.reserve(self._file.id.get_filesize() + self._bound_bytes(buffered_rows))
            for table, columns in buffered_rows.items():
                self._write(table, columns)
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
        self._flushes += 1
        self._flushed = time.monotonic()
        self._flush_took_s = self._flushed - began

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(complete=False, ending=_ending_of(error))
        except TraceError as second:
            if error is not None and error is not second:
                error.add_note(str(second))

    def _append_row(self, table: str, row: Mapping[str, Any]) -> int:
        """Buffer a single row, and return its index. Single rows are combined into arrays later."""
        parts = self._waiting.setdefault(table, [])
        checked = [column.check(row[column.name]) for column in self._columns[table]]
        if parts and isinstance(parts[-1], list):
            parts[-1].append(checked)
        else:
            parts.append([checked])
        return self._count_rows(table, 1, self._row_bytes[table]).start

    def _count_rows(self, table: str, rows: int, waiting_bytes: int) -> range:
        """Count newly buffered rows, flush if it is time to, and return the indices of the rows.

        Args:
            table: Name of the table.
            rows: Number of rows.
            waiting_bytes: Bytes of these rows.
        """
        self._check_usable()
        first = self._rows[table]
        self._rows[table] += rows
        self._waiting_bytes += waiting_bytes
        self._flush_if_due()
        return range(first, first + rows)

    def _check_usable(self) -> None:
        """Raise the error of an earlier failed write, or an error if the trace is closed."""
        if self._failed is not None:
            raise self._failed
        if not self._open:
            message = f"{self.path}: the trace is closed"
            raise ValueError(message)

    def _flush_if_due(self) -> None:
        """Flush if enough rows are buffered, or if enough time has passed since the last flush."""
        now_s = time.monotonic()
        pause = max(_FLUSH_S, self._flush_took_s / _FLUSH_FRACTION, _FLUSH_FRACTION * (now_s - self._started))
        if self._flushes < _FIRST_FLUSHES:  # a kill shortly after the start should lose little
            pause = _FIRST_FLUSH_S * 2**self._flushes
        if not self._in_transaction and (self._waiting_bytes >= _BUFFER_BYTES or now_s - self._flushed >= pause):
            self.flush()

    def _bound_bytes(self, buffered_rows: Mapping[str, Mapping[str, list[Array]]]) -> int:
        """Return an upper bound of the bytes that a flush adds to the file.

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

    def _write(self, table: str, arrays: Mapping[str, list[Array]]) -> None:
        """Write the buffered rows of a table.

        A row that covers the mesh may be given in part. The rest of it is not written and reads as
        0.
        """
        end = self._rows[table]
        for column in self._columns[table]:
            if column.path not in self._datasets:
                self._datasets[column.path] = WrittenDataset(self._file, column)
            dataset, rows = self._datasets[column.path], arrays[column.name]
            pieces = [plane[np.newaxis] for plane in rows] if column.planes else rows
            dataset.append(pieces, end)


def _ending_of(error: BaseException | None) -> str:
    """Return a text that states why a run ended: "interrupted" for Ctrl-C, else the error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return f"{type(error).__name__}: {error}".removesuffix(": ")
