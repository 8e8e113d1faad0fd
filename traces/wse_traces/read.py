"""Read a trace lazily: attributes at once, columns when asked for, nothing without a limit.

Every dataset is checked against the schema before it is read: found along plain links inside this file, of the
declared type and shape, stored with the declared filters, small enough. Texts from a trace are data, not interpreted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wse_traces import schema
from wse_traces.check import dataset_of, header_of, problems_of_dataset, row_counts
from wse_traces.errors import TraceError
from wse_traces.open_file import open_file
from wse_traces.schema import BY_PATH, TABLES, Field, RunHeader

Array = NDArray[Any]
Columns = dict[str, Array]

LIMIT_BYTES = 1 << 30
_PLACE = ("op", "name", "kind", "stage", "layer", "wafer", "row", "col", "rows", "cols")
_SUMS = ("cycles", "words", "hops")
_BY_CAUSE = tuple(f"{cause}_cycles" for cause in schema.CAUSES)


def open_trace(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Trace:
    """Open a trace, complete or not; no single read takes more than ``limit_bytes``.

    Raises: TraceError if there is no file, it is no trace, it is damaged, or its version is newer.
    """
    return Trace(Path(path), limit_bytes=limit_bytes)


class Trace:
    """An open trace. A context manager; its arrays stay valid after it is closed."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path, self.limit_bytes = path, limit_bytes
        with ExitStack() as stack:
            self.file = stack.enter_context(open_file(path))
            self.header: RunHeader
            self.header, self.complete = header_of(self.file, path)
            self._rows = row_counts(self.file, path)
            self._sound: set[str] = set()
            self._stack = stack.pop_all()

    def rows(self, table: str) -> int:
        """The number of rows of a table that are whole; 0 where it was not recorded."""
        return self._rows[table]

    def column(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """A dataset, or its rows from ``start`` to ``stop``.

        Raises: TraceError if it is missing, deviates from the schema, is damaged or above the limit.
        """
        field = BY_PATH[path]
        rows = self._rows[field.table]
        found = () if path in self._sound else self._problems_of(field)
        for problem in found:
            message = f"{self.path}: {problem}; the file is damaged or not of this version, make it again"
            raise TraceError(message)
        self._sound.add(path)
        start, stop, _ = slice(start, stop).indices(rows)
        self.check_size(path, (field,), stop - start)
        dataset = dataset_of(self.file, path)
        if dataset is None:  # a file from before the table was added
            return np.zeros((0, *schema.shape_of(field, self.header)), field.dtype)
        try:
            return np.asarray(dataset[start:stop])
        except (OSError, RuntimeError) as error:
            message = f"{self.path}: {path}: the data is damaged ({error}); make the trace again"
            raise TraceError(message) from error

    def table(self, table: str, start: int = 0, stop: int | None = None) -> Columns:
        """All columns of a table by name, or its rows from ``start`` to ``stop``."""
        rows = len(range(*slice(start, stop).indices(self._rows[table])))
        self.check_size(table, TABLES[table], rows)
        return {field.name: self.column(field.path, start, stop) for field in TABLES[table]}

    def texts(self, path: str) -> list[str]:
        """A column of texts, decoded; what is not UTF-8 shows as U+FFFD."""
        return [bytes(text).decode(errors="replace") for text in self.column(path)]

    def token_bytes(self) -> list[bytes]:
        """The bytes of each token."""
        return self._slices("tokens/text_end", "tokens/text")

    def token_texts(self) -> list[str]:
        """The text of each token; a byte that is not a character on its own shows as U+FFFD."""
        return [text.decode(errors="replace") for text in self.token_bytes()]

    def tensor(self, index: int) -> Array:
        """The values of a recorded tensor, in their shape of four dimensions."""
        row = self.table("tensor", index, index + 1)
        start = int(self.column("tensors/end", index - 1, index)[0]) if index else 0
        data = self.column("tensors/bytes", start, int(row["end"][0]))
        try:
            values: Array = data.view(np.dtype(row["dtype"][0].decode()).newbyteorder("<"))
            return values.reshape(row["shape"][0])
        except (TypeError, ValueError, IndexError) as error:
            message = f"{self.path}: tensors: row {index} cannot be read ({error}); make the trace again"
            raise TraceError(message) from error

    def steps(self, token: int | None = None) -> Columns:
        """The steps that were executed for one token, or all, in order of execution.

        The columns of ``steps``, with ``start_cycle`` counted from the start of the run, and
        ``phase``, ``kv_slots``, ``schedule``, ``pass`` and ``token`` (the first that the pass
        generated; -1: none). The tokens of a prompt share the steps of the pass that read them.
        """
        passes, schedules, tokens = self.table("pass"), self.table("schedule"), self.table("token")
        if token is None:
            chosen = np.arange(self.rows("pass"))
        elif 0 <= token < self.rows("token"):
            chosen = tokens["pass"][token : token + 1]
            chosen = chosen[chosen >= 0]
        else:
            message = f"{self.path}: no token {token}; the trace has the tokens 0 to {self.rows('token') - 1}"
            raise TraceError(message)
        schedule = self._taken(passes["schedule"], chosen, "tokens/pass")
        counts = self._taken(schedules["steps"], schedule, "passes/schedule")
        size = int(counts.sum()) * 256
        if counts.min(initial=0) < 0 or size > self.limit_bytes:
            message = f"{self.path}: {size:,} B of steps, the limit is {self.limit_bytes:,} B; ask for one token"
            raise TraceError(message)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = within + np.repeat(schedules["first_step"][schedule], counts)
        if token is None or not len(rows):
            columns = {name: self._taken(c, rows, "schedules") for name, c in self.table("step").items()}
        else:
            columns = self.table("step", int(rows[0]), int(rows[-1]) + 1)
            if len(columns["op"]) != len(rows):
                message = f"{self.path}: schedules: rows that steps does not have; make the trace again"
                raise TraceError(message)
        columns["start_cycle"] = columns["start_cycle"] + np.repeat(passes["start_cycle"][chosen], counts)
        first = np.full(self.rows("pass"), schema.NONE, "<i8")
        generated = np.flatnonzero((tokens["is_prompt"] == 0) & (tokens["pass"] >= 0))[::-1]
        first[tokens["pass"][generated]] = generated
        per_pass = {
            "token": first[chosen] if token is None else np.full(len(chosen), token),
            "pass": chosen,
            "schedule": schedule,
            "phase": schedules["phase"][schedule],
            "kv_slots": schedules["kv_slots"][schedule],
        }
        return {**{name: np.repeat(c, counts) for name, c in per_pass.items()}, **columns}

    def top_steps(self, by: str = "cycles", n: int = 20) -> Columns:
        """The ``n`` costliest steps of the program, summed over the run, largest first.

        Steps of the same phase, op, kernel or pattern and place are one row: ``times`` they ran, and
        the sums of ``cycles``, ``words``, ``hops`` and, for each cause, ``<cause>_cycles``. ``by`` names
        one of the sums.
        """
        if by not in (*_SUMS, *_BY_CAUSE):
            message = f"cannot sort steps by {by!r}; known: {', '.join((*_SUMS, *_BY_CAUSE))}"
            raise TraceError(message)
        steps, schedule_of = self.table("step"), self._schedule_of_steps()
        executed = self._executed()
        times = np.append(executed, 0)[schedule_of]
        phase = np.append(self.column("schedules/phase"), 0)[schedule_of]
        keys = np.stack([phase, *(steps[name] for name in _PLACE)], axis=1).astype("<i8")
        places, group = np.unique(keys, axis=0, return_inverse=True)
        costs = {name: steps[name] for name in _SUMS}
        costs.update({name: steps["cycles_by"][:, i] for i, name in enumerate(_BY_CAUSE)})
        sums = {
            "times": np.zeros(len(places), "<i8"),
            **{name: np.zeros(len(places), "<i8") for name in costs},
        }
        np.add.at(sums["times"], group.ravel(), times)
        for name, cost in costs.items():
            np.add.at(sums[name], group.ravel(), cost * times)
        order = np.argsort(-sums[by], kind="stable")[:n]
        named = {name: places[:, i] for i, name in enumerate(("phase", *_PLACE))}
        return {name: column[order] for name, column in {**named, **sums}.items()}

    def report(self) -> dict[str, object]:
        """The report that the run ended with, empty if there is none."""
        try:
            report = json.loads(self.column("run/summary").tobytes() or b"{}")
        except ValueError as error:
            message = f"{self.path}: run/summary: not JSON ({error}); make the trace again"
            raise TraceError(message) from error
        return report if isinstance(report, dict) else {}

    def summary(self) -> dict[str, object]:
        """What is in the trace, as plain values: header, rows of each table, totals over the run."""
        executed, owner = self._executed(), self._schedule_of_steps()
        times = np.append(executed, 0)[owner]
        cycles_by = (self.column("steps/cycles_by") * times[:, np.newaxis]).sum(axis=0)
        totals = {name: int((self.column(f"steps/{name}") * times).sum()) for name in ("cycles", "words", "hops")}
        header = {name: getattr(self.header, name) for name in RunHeader.__dataclass_fields__}
        return {
            "format": schema.FORMAT,
            "version": schema.VERSION,
            "complete": self.complete,
            **header,
            "rows_of": dict(self._rows),
            "step_totals": totals,
            "cycles_by": dict(zip(schema.CAUSES, cycles_by.tolist(), strict=True)),
            "token_cycles": int(self.column("tokens/cycles").sum()),
            "crossing_bytes": int(self.column("crossings/bytes").sum()),
        }

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _problems_of(self, field: Field) -> Iterator[str]:
        rows = self._rows[field.table]
        return problems_of_dataset(self.file, field, self.header, rows, complete=self.complete)

    def check_size(self, what: str, fields: tuple[Field, ...], rows: int) -> None:
        """Refuse to allocate more than the limit for columns of so many rows."""
        row_bytes = sum(np.dtype(f.dtype).itemsize * math.prod(schema.shape_of(f, self.header)) for f in fields)
        if rows * row_bytes > self.limit_bytes:
            size, limit = f"{rows * row_bytes:,} B to read", f"the limit is {self.limit_bytes:,} B"
            message = f"{self.path}: {what}: {size}, {limit}; read fewer rows at once"
            raise TraceError(message)

    def _slices(self, ends: str, data: str) -> list[bytes]:
        """The byte strings that a column of ends cuts out of a table of bytes."""
        stops, whole = self.column(ends).tolist(), self.column(data).tobytes()
        starts = [0, *stops][:-1]
        if any(a > b for a, b in zip(starts, stops, strict=True)) or (stops and stops[-1] > len(whole)):
            message = f"{self.path}: {ends}: not ascending within {data}; make the trace again"
            raise TraceError(message)
        return [whole[a:b] for a, b in zip(starts, stops, strict=True)]

    def _taken(self, column: Array, index: Array, where: str) -> Array:
        """``column[index]``. Raises: TraceError if an index is out of range."""
        if len(index) and not 0 <= index.min() <= index.max() < len(column):
            message = f"{self.path}: {where}: indices out of the {len(column)} rows they refer to"
            raise TraceError(message)
        return column[index]

    def _executed(self) -> Array:
        """How many times each schedule was executed."""
        schedule = self.column("passes/schedule")
        count = len(self.column("schedules/cycles"))
        self._taken(np.empty(count, "u1"), schedule, "passes/schedule")
        return np.bincount(schedule, minlength=count)

    def _schedule_of_steps(self) -> Array:
        """The schedule that each row of the table of steps belongs to, -1: none yet."""
        first, count = self.column("schedules/first_step"), self.column("schedules/steps")
        rows = len(self.column("steps/cycles"))
        if len(first) and (first.min() < 0 or count.min() < 0 or (first + count).max() > rows):
            message = f"{self.path}: schedules: rows beyond the {rows} of steps; make the trace again"
            raise TraceError(message)
        owner = np.full(rows, schema.NONE, "<i8")
        for index, (start, length) in enumerate(zip(first.tolist(), count.tolist(), strict=True)):
            owner[start : start + length] = index
        return owner
