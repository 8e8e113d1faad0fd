"""Write a trace while the run goes on, in bounded memory, readable after a kill at any moment.

The file is open in HDF5's single-writer mode, which orders its metadata so that a reader finds it
consistent at every moment. Rows become visible in two stages: the columns are flushed, then the
row counts in ``run/rows``, so a reader never sees a table whose columns disagree.
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
from wse_traces.create import empty_trace, open_for_append, write_ending
from wse_traces.errors import TraceError
from wse_traces.header import INTERRUPTED, RunHeader
from wse_traces.partial import PartialFile
from wse_traces.schema import BY_PATH, PHASES, ROWS, TABLES
from wse_traces.token_rows import Token, token_columns
from wse_traces.written_column import Part, WrittenColumn, WrittenDataset, join_parts

Array = NDArray[Any]

_BUFFER_BYTES = 4 << 20  # rows that wait in memory, at most
_FLUSH_S = 1.0  # between flushes, at least
_FLUSH_SHARE = 0.01  # of the run, at most, that flushing takes and that a kill can lose
_FIRST_FLUSHES, _FIRST_FLUSH_S = 3, 0.125  # that come sooner, each after twice the time of the one before
_ROOM_BYTES = 1 << 19  # for metadata of one flush


class TraceWriter:
    """A writer of one trace. The file is ``NAME.partial`` until ``close`` renames it.

    A context manager. Leaving it normally completes the trace; leaving it by an exception flushes,
    and keeps the partial file, which says that it is incomplete.
    """

    def __init__(self, path: str | os.PathLike[str], header: RunHeader) -> None:
        """Create the file with all its datasets, empty.

        Raises TraceError if the path cannot be written.
        """
        self.header = header
        self._disk = PartialFile(Path(path), empty_trace(header))
        self._failed: TraceError | None = None
        self._rows = dict.fromkeys(TABLES, 0)  # written or waiting
        self._columns = {table: [WrittenColumn.of(f, header) for f in fields] for table, fields in TABLES.items()}
        self._row_bytes = {table: sum(column.row_bytes for column in known) for table, known in self._columns.items()}
        self._waiting: dict[str, list[Part]] = {}
        self._waiting_bytes = 0
        self._names: dict[str, int] = {}
        self._started = self._flushed = time.monotonic()
        self._flush_took_s, self._flushes = 0.0, 0
        self._published = self._in_transaction = False
        self._file = open_for_append(self._disk.path)
        self._datasets: dict[str, WrittenDataset] = {}
        self._open = True  # which HDF5 tells too, but slowly

    @property
    def path(self) -> Path:
        """The path of the trace: the target once it is complete."""
        return self._disk.target if self._published else self._disk.path

    def append(self, table: str, columns: Mapping[str, ArrayLike]) -> range:
        """Append rows to all columns of a table; return the indices of the rows.

        They are written later, so that arrays must not be changed any more.

        Raises: ValueError if columns are missing, unknown, of different lengths or out of range.
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
        """Open a transaction. Readers find all its rows or none; after an error nothing more can be written."""
        before, rows, self._waiting, self._in_transaction = self._waiting, self._rows.copy(), {}, True
        try:
            yield
            for table, parts in self._waiting.items():
                before.setdefault(table, []).extend(parts)
            rows = self._rows
        finally:
            self._waiting, self._rows, self._in_transaction = before, rows, False
        self._flush_if_due()

    def append_names(self, names: Sequence[str]) -> Array:
        """Return the indices of kernel and pattern names in ``strings/names``, adding new names."""
        fresh = list(dict.fromkeys(n for n in names if n not in self._names))
        if fresh:
            rows = self.append("name", {"names": fresh})
            self._names.update(zip(fresh, rows, strict=True))
        return np.array([self._names[n] for n in names], "<i4")

    def append_schedule(
        self, steps: Mapping[str, ArrayLike], *, phase: str, kv_slots: int, cycles: int | None = None
    ) -> int:
        """Append a sequence of steps that tokens will repeat; return its index.

        ``cycles`` is its duration, by default the end of the last of its steps.
        """
        rows = self.append("step", steps)
        if cycles is None:
            cycles = int(np.max(np.add(steps["start_cycle"], steps["cycles"]), initial=0))
        schedule = {"phase": PHASES.index(phase), "kv_slots": kv_slots, "cycles": cycles}
        return self._append_row("schedule", {**schedule, "first_step": rows.start, "steps": len(rows)})

    def append_pass(self, *, schedule: int, start_cycle: int, wall_s: float) -> int:
        """Append one execution of a schedule; return its index."""
        return self._append_row("pass", {"schedule": schedule, "start_cycle": start_cycle, "wall_s": wall_s})

    def append_tokens(self, *tokens: Token) -> range:
        """Append consecutive tokens; return their indices."""
        written = self.append("text_byte", {"text": np.frombuffer(b"".join([token.text for token in tokens]), "u1")})
        ends = written.start + np.cumsum([len(token.text) for token in tokens])
        return self.append("token", token_columns(tokens) | {"text_end": ends})

    def append_tensor(self, values: ArrayLike, *, pass_index: int, op: int) -> int:
        """Append the values of an op's output; return their index."""
        array = np.ascontiguousarray(values)
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        end = self.append("tensor_byte", {"bytes": np.frombuffer(little.tobytes(), "u1")}).stop
        shape = (1,) * (4 - array.ndim) + array.shape
        return self._append_row(
            "tensor", {"pass": pass_index, "op": op, "dtype": array.dtype.name, "shape": shape, "end": end}
        )

    def append_content(self, values: ArrayLike, *, pass_index: int, buffer: int, pe: tuple[int, int, int]) -> int:
        """Append the bytes of a buffer, uint8 ``[bytes]``, of a PE (wafer, row, column); return their index."""
        end = self.append("content_byte", {"bytes": np.asarray(values, np.uint8)}).stop
        place = dict(zip(("wafer", "row", "col"), pe, strict=True))
        return self._append_row("content", {"pass": pass_index, "buffer": buffer, **place, "end": end})

    def append_pattern(self, words: ArrayLike) -> int:
        """Append words on links, [direction, row, col], of one layer's rectangle; return the index of the pattern."""
        array = np.asarray(words)
        rows, cols = array.shape[1:]
        return self.append("pattern", {"words": array[np.newaxis], "rows": [rows], "cols": [cols]}).start

    def append_plane(self, path: str, values: ArrayLike) -> int:
        """Append the next wafer of a plane: ``links/words``, ``pe/busy_cycles`` or ``sram/bytes_per_pe``."""
        field = BY_PATH[path]
        if np.shape(values) != schema.shape_of(field, self.header):
            message = f"{path}: a plane of shape {np.shape(values)}, needed: {schema.shape_of(field, self.header)}"
            raise ValueError(message)
        return self.append(field.table, {field.name: np.asarray(values)[np.newaxis]}).start

    def append_sram(self, stages: Mapping[str, ArrayLike], *, pe_bytes: int) -> None:
        """Append the stages with their SRAM, and the map per PE that follows from them.

        A PE outside of all rectangles is free; all PEs of a rectangle are as full as its fullest.
        """
        self.append("stage", stages)
        shape = (len(schema.USES), self.header.rows, self.header.cols)
        corners = [np.asarray(stages[name]) for name in ("wafer", "row", "col", "rows", "cols")]
        for wafer in range(self.header.wafers):
            plane = np.zeros(shape, "<i4")
            plane[schema.USES.index("free")] = pe_bytes
            for w, row, col, rows, cols, used in zip(*corners, np.asarray(stages["stage_bytes"]), strict=True):
                if w == wafer:
                    plane[:, row : row + rows, col : col + cols] = used[:, np.newaxis, np.newaxis]
            self.append_plane("sram/bytes_per_pe", plane)

    def write_summary(self, report: Mapping[str, object]) -> None:
        """Store the report of the run, once, at its end."""
        text = json.dumps(report, ensure_ascii=False).encode()
        self.append("summary_byte", {"summary": np.frombuffer(text, "u1")})

    def flush(self) -> None:
        """Make everything appended so far readable by others, and safe from a kill of this process."""
        self._check_usable()
        began = time.monotonic()
        try:
            waiting = {table: join_parts(self._columns[table], parts) for table, parts in self._waiting.items()}
            self._disk.reserve(self._file.id.get_filesize() + self._bound_bytes(waiting))
            for table, columns in waiting.items():
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
        """Flush and close; rename to the target if complete. Return the path of the resulting file.

        ``ending`` is why the run ends before it is complete.

        Raises: TraceError if the disk refuses. The partial file then holds what was flushed before.
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
        """Append one row for a token; it is combined with other single rows into arrays later."""
        parts = self._waiting.setdefault(table, [])
        checked = [column.check(row[column.name]) for column in self._columns[table]]
        if parts and isinstance(parts[-1], list):
            parts[-1].append(checked)
        else:
            parts.append([checked])
        return self._count_rows(table, 1, self._row_bytes[table]).start

    def _count_rows(self, table: str, rows: int, waiting_bytes: int) -> range:
        """Count waiting rows, and write all of them when it is time to."""
        self._check_usable()
        first = self._rows[table]
        self._rows[table] += rows
        self._waiting_bytes += waiting_bytes
        self._flush_if_due()
        return range(first, first + rows)

    def _check_usable(self) -> None:
        if self._failed is not None:
            raise self._failed
        if not self._open:
            message = f"{self.path}: the trace is closed"
            raise ValueError(message)

    def _flush_if_due(self) -> None:
        now = time.monotonic()
        pause = max(_FLUSH_S, self._flush_took_s / _FLUSH_SHARE, _FLUSH_SHARE * (now - self._started))
        if self._flushes < _FIRST_FLUSHES:  # the shorter a run has gone on, the less there is that a kill may take
            pause = _FIRST_FLUSH_S * 2**self._flushes
        if not self._in_transaction and (self._waiting_bytes >= _BUFFER_BYTES or now - self._flushed >= pause):
            self.flush()

    def _bound_bytes(self, waiting: Mapping[str, Mapping[str, list[Array]]]) -> int:
        """Return an upper bound of the bytes that a flush adds to the file."""
        again = 0
        for table, arrays in waiting.items():
            for column in self._columns[table]:
                if not column.planes:
                    begun = (self._rows[table] - len(arrays[column.name][0])) % column.chunk_rows
                    again += begun * column.row_bytes
        return self._waiting_bytes + again + _ROOM_BYTES

    def _write(self, table: str, arrays: Mapping[str, list[Array]]) -> None:
        """Append the waiting rows. Of planes only the given part is written; the rest reads as 0."""
        end = self._rows[table]
        for column in self._columns[table]:
            if column.path not in self._datasets:
                self._datasets[column.path] = WrittenDataset(self._file, column)
            dataset, rows = self._datasets[column.path], arrays[column.name]
            pieces = [plane[np.newaxis] for plane in rows] if column.planes else rows
            dataset.append(pieces, end)


def _ending_of(error: BaseException | None) -> str:
    """Return the error that ends a run by kind and message; Ctrl-C is not an error of the run."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return f"{type(error).__name__}: {error}".removesuffix(": ")
