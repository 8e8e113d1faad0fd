"""An open trace: its tables, recorded strings, tensors and bytes, and the executed steps."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.field import values_of
from wse_traces.reader.executed_steps import cache_shifts, check_index, executed_steps, rows_of, schedule_rows
from wse_traces.reader.frames import Frame, FrameKind, frame_of, long_frame
from wse_traces.reader.groups import distinct_rows, group_sums
from wse_traces.reader.trace_file import LIMIT_BYTES, Array, Columns, TraceFile
from wse_traces.schema import BY_PATH, NAMES, TABLES

__all__ = ["LIMIT_BYTES", "Array", "Columns", "Trace", "open_trace"]

_REPORT_BYTES = 1 << 24  # maximum size of JSON, which needs about twenty times as much when parsed
_OBJECT_BYTES = 80  # memory of a short bytes or str object and its list entry
_PLACE = ("op", "name", "kind", "stage", "layer", "wafer", "row", "col", "rows", "cols")
_SUMS = ("cycles", "words", "hops")
_STEP_FIELDS = {field.name: field for table in ("schedule", "step") for field in TABLES[table]}
_START = "start_cycle"
_BY_CAUSE = tuple(f"{cause}_cycles" for cause in schema.CAUSES)


def open_trace(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Trace:
    """Open a trace file, whether its run is complete or not.

    Args:
        path: Path of the trace.
        limit_bytes: Maximum memory that a single read may allocate.

    Raises:
        TraceError: The file does not exist, is not a trace, is damaged, or has a newer version.

    >>> trace = open_trace("traces/golden/v1/story.h5")
    >>> trace.header.model, trace.complete, trace.rows("token")
    ('story', True, 18)
    """
    return Trace(Path(path), limit_bytes=limit_bytes)


class Trace(TraceFile):
    """An open trace file. Use it as a context manager; arrays stay valid after it is closed.

    - ``trace["steps/cycles"]`` is a column that is read on demand.
    - ``trace.table("step")`` returns all columns of a table as arrays.
    - ``trace.frame("step")`` returns a table as a data frame.
    - ``trace.steps(token)`` returns the steps that were executed for one token.
    """

    def frame(
        self, what: str | Columns, start: int = 0, stop: int | None = None, *, kind: FrameKind | None = None
    ) -> Frame:
        """Return a table, or a result of ``steps`` or ``top_steps``, as a polars or pandas frame.

        Codes become categories. A column with a second axis becomes several columns
        (``cycles_by_hops``). An index into ``op`` or ``name`` gets an additional column with the
        names: ``trace.frame("edge")`` has ``src``, ``src_text``, ``dst`` and ``dst_text``.

        A plane (a dataset with a value for every PE) such as ``trace.frame("links/words")`` has a
        row for each element. Planes that are columns of a larger table are omitted.

        Args:
            what: Name of a table, or arrays keyed by column name.
            start: First row of the table.
            stop: Row after the last one. None means all rows.
            kind: "polars" or "pandas". None selects whichever is installed, preferring polars.

        Raises:
            ImportError: The library is not installed.
            TraceError: There is no such table, or it is damaged or too large.
        """
        names = {table: self.texts(path) for table, path in NAMES.items()}
        if not isinstance(what, str):
            return frame_of(_STEP_FIELDS, what, names, kind)
        fields = {field.name: field for field in self._fields(what) if not field.is_plane}
        if what in BY_PATH:  # a plane, which is a table of its own
            first, last, _ = slice(start, stop).indices(self.rows(what))
            return long_frame(BY_PATH[what], self.column(what, first, last), first, kind)
        self.check_size(what, tuple(fields.values()), len(range(*slice(start, stop).indices(self.rows(what)))))
        columns = {name: self.column(field.path, start, stop) for name, field in fields.items()}
        return frame_of(fields, columns, names, kind)

    def token_bytes(self) -> list[bytes]:
        """Return the UTF-8 bytes of each token, which may be only a part of a character.

        Raises:
            TraceError: The trace is damaged, or the tokens exceed the size limit.
        """
        self._check_bytes("tokens/text_end", self._rows["token"] * _OBJECT_BYTES)
        stops, all_bytes = self.column("tokens/text_end").tolist(), self.column("tokens/text").tobytes()
        starts = [0, *stops][:-1]
        if any(a > b for a, b in zip(starts, stops, strict=True)) or (stops and stops[-1] > len(all_bytes)):
            raise TraceError(f"{self.path}: tokens/text_end: not ascending within tokens/text; make the trace again")
        return [all_bytes[a:b] for a, b in zip(starts, stops, strict=True)]

    def token_texts(self) -> list[str]:
        """Return the text of each token. Bytes that are not a complete character become U+FFFD."""
        return [text.decode(errors="replace") for text in self.token_bytes()]

    def tensor(self, index: int) -> Array:
        """Return a recorded tensor as an array with four axes. bfloat16 is converted to float32.

        Args:
            index: Row of the table of recorded tensors.

        Raises:
            TraceError: The tensor is damaged or exceeds the size limit.
        """
        row = self.table("tensor", index, index + 1)
        start = int(self.column("tensors/end", index - 1, index)[0]) if index else 0
        data = self.column("tensors/bytes", start, int(row["end"][0]))
        try:
            return values_of(data, row["dtype"][0]).reshape(row["shape"][0])
        except (ValueError, IndexError) as error:
            raise TraceError(
                f"{self.path}: tensors: row {index} cannot be read ({error}); make the trace again"
            ) from error

    def content(self, index: int) -> Array:
        """Return the recorded bytes of one SRAM buffer of a PE, uint8 ``[bytes]``.

        Args:
            index: Row of the table ``content``.
        """
        start = int(self.column("contents/end", index - 1, index)[0]) if index else 0
        return self.column("contents/bytes", start, int(self.column("contents/end", index, index + 1)[0]))

    def report(self) -> dict[str, object]:
        """Return the report of the run, or an empty dictionary if there is none.

        Raises:
            TraceError: The report is too large or is not a JSON object.
        """
        size = self._rows["summary_byte"]
        if size > _REPORT_BYTES:
            raise TraceError(
                f"{self.path}: run/summary: {size:,} B, the limit is {_REPORT_BYTES:,} B; make the trace again"
            )
        try:
            report = json.loads(self.column("run/summary").tobytes() or b"{}")
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{self.path}: run/summary: not JSON ({error}); make the trace again") from error
        if not isinstance(report, dict):
            raise TraceError(f"{self.path}: run/summary: not a JSON object; make the trace again")
        return report

    def steps(self, token: int | None = None) -> Columns:
        """Return the executed steps of one token, or of all passes, in order of execution.

        All tokens of a prompt that were read in the same pass have the same steps.

        Args:
            token: Index of the token, or None for all passes.

        Returns:
            The columns of ``steps``, and ``phase``, ``kv_slots``, ``schedule``, ``pass`` and
            ``token``. ``start_cycle`` is counted from the start of the run. ``token`` is the
            requested token; without one, it is the first token that the pass generated, or -1.

        Raises:
            TraceError: There is no such token, or the trace is damaged.
        """
        tokens, passes = self.table("token"), len(self.column("passes/schedule"))
        check_index(self, tokens["pass"][tokens["pass"] != schema.NONE], passes, "tokens/pass")
        if token is None:
            passes_to_read = np.arange(passes)
        elif 0 <= token < self.rows("token"):
            passes_to_read = tokens["pass"][token : token + 1]
            passes_to_read = passes_to_read[passes_to_read >= 0]
        else:
            raise TraceError(f"{self.path}: no token {token}; the trace has the tokens 0 to {self.rows('token') - 1}")
        columns = executed_steps(self, passes_to_read)
        first = np.full(passes, schema.NONE, "<i8")
        generated_tokens = np.flatnonzero((tokens["is_prompt"] == 0) & (tokens["pass"] >= 0))[::-1]
        first[tokens["pass"][generated_tokens]] = generated_tokens
        step_tokens = first[columns["pass"]] if token is None else np.full(len(columns["pass"]), token)
        return {"token": step_tokens, **columns}

    def top_steps(self, by: str = "cycles", n: int = 20) -> Columns:
        """Return the ``n`` steps with the highest total cost over the run, highest first.

        Steps with the same phase, op, kernel or pattern, and placement are combined into one row.

        Args:
            by: Column by which the rows are sorted: ``cycles``, ``words``, ``hops``, the cycles of
                one cause such as ``launch_cycles``, or ``start_cycle``. For ``start_cycle`` the
                earliest steps come first.
            n: Maximum number of rows.

        Returns:
            Columns, keyed by name: the columns that identify the steps, ``times`` (number of
            executions), the totals of ``cycles``, ``words``, ``hops`` and ``<cause>_cycles``, and
            ``start_cycle`` (start of the first execution).

        Raises:
            TraceError: ``by`` is none of these columns, or the trace is damaged.
        """
        if by not in (*_SUMS, *_BY_CAUSE, _START):
            raise TraceError(f"cannot sort steps by {by!r}; known: {', '.join((*_SUMS, *_BY_CAUSE, _START))}")
        steps, schedule_of = self.table("step"), self._schedule_of_steps()
        times = np.append(self._execution_counts(), 0)[schedule_of]
        phase = np.append(self.column("schedules/phase"), 0)[schedule_of]
        places, group = distinct_rows([phase, *(steps[name] for name in _PLACE)])
        costs = {name: steps[name] for name in _SUMS}
        costs.update({name: steps["cycles_by"][:, i] for i, name in enumerate(_BY_CAUSE)})
        sums = {
            "times": group_sums(times, group, len(places)),
            **{name: group_sums(cost * times, group, len(places)) for name, cost in costs.items()},
        }
        shifts = cache_shifts(self)
        for name in ("words", "hops"):
            sums[name] += group_sums(shifts[name], group[shifts["row"]], len(places))
        sums[_START] = np.full(len(places), np.iinfo("<i8").max, "<i8")
        np.minimum.at(sums[_START], group, steps[_START] + self._first_start_cycles())
        order = np.argsort(sums[by] if by == _START else -sums[by], kind="stable")[:n]
        key_columns = {name: places[:, i] for i, name in enumerate(("phase", *_PLACE))}
        return {name: column[order] for name, column in {**key_columns, **sums}.items()}

    def _execution_counts(self) -> Array:
        """Return how often each schedule (a sequence of steps) was executed, int ``[schedule]``."""
        schedule = self.column("passes/schedule")
        count = len(self.column("schedules/cycles"))
        check_index(self, schedule, count, "passes/schedule")
        return np.bincount(schedule, minlength=count)

    def _first_start_cycles(self) -> Array:
        """Return, for each row of the step table, the cycle in which its schedule first starts.

        A schedule is a sequence of steps that passes execute. The value is 0 if no pass executed
        it.
        """
        never = np.iinfo("<i8").max
        first = np.full(len(self.column("schedules/cycles")) + 1, never, "<i8")
        np.minimum.at(first, self.column("passes/schedule"), self.column("passes/start_cycle"))
        return np.where(first == never, 0, first)[self._schedule_of_steps()]

    def _schedule_of_steps(self) -> Array:
        """Return, for each row of the step table, the index of its schedule, or -1.

        A schedule is a sequence of steps that passes execute. While the trace is still being
        written, the last rows may not have a schedule yet.
        """
        first, count = schedule_rows(self)
        owner = np.full(self.rows("step"), schema.NONE, "<i8")
        if count.sum() > len(owner):
            raise TraceError(
                f"{self.path}: schedules: they share rows of the {len(owner)} of steps; make the trace again"
            )
        owner[rows_of(first, count)] = np.repeat(np.arange(len(first)), count)
        return owner
