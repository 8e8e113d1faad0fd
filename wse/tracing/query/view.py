"""Base class of the views of ``wse inspect``, the function that opens a trace, and its problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar

from wse.errors import BadTrace
from wse.reports.result import Doc, Result
from wse.reports.terminal import printable
from wse_traces.errors import TraceError
from wse_traces.header import INTERRUPTED
from wse_traces.reader.column import dataset_of
from wse_traces.reader.read import Array, Trace, open_trace
from wse_traces.schema import FIELDS, ROWS, TABLES
from wse_traces.validator.validate import problems


class View(Result):
    """Answer to one question about a traced run. Each subclass answers another question.

    Attributes:
        TABLE: Name of the field that contains the rows of the view's table. Empty if the view has
            no table, or if the subclass overrides ``table_rows``.
    """

    TABLE: ClassVar[str] = ""

    view: Annotated[str, Doc("name of the view")]
    trace: Annotated[str | None, Doc("the trace")] = None
    complete: Annotated[bool | None, Doc("whether the run was completed")] = None
    ending: Annotated[str | None, Doc("error that an incomplete run ended with, or `interrupted`")] = None

    def table_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the view's table as plain values, for output as CSV.

        The result is empty if the view has no table.
        """
        return [row.to_dict() for row in getattr(self, self.TABLE)] if self.TABLE else []


def source_of(trace: Trace, view: str) -> dict[str, Any]:
    """Return the values of the fields that all views have.

    The keys are ``view`` (the name of the view), ``trace`` (the path of the trace), ``complete``
    (whether the run has finished), and ``ending`` (the error that ended the run, or None).
    """
    return {"view": view, "trace": str(trace.path), "complete": trace.complete, "ending": trace.ending or None}


def outcome_of(ending: str | None) -> str:
    """Return a phrase that says how an incomplete run ended, or that it may still be in progress.

    Args:
        ending: Error that ended the run, or None or "" if none was recorded.
    """
    if not ending:
        return "its run is in progress or was killed"
    return f"its run was {ending}" if ending == INTERRUPTED else f"its run ended with {printable(ending)}"


@contextmanager
def trace_at(path: Path) -> Iterator[Trace]:
    """Open a trace for the duration of a ``with`` block.

    Raises:
        BadTrace: The file does not exist, is not a trace, or is found to be damaged while it is
            read.
    """
    if path.is_dir():
        raise BadTrace(f"{path}: is a folder, not a regular file; give a file that wse run --trace wrote")
    try:
        with open_trace(path) as trace:
            yield trace
    except TraceError as error:
        raise BadTrace(str(error)) from error


def name_at(names: Sequence[str], index: int) -> str:
    """Return the name at an index, or "" if the index is out of range."""
    return names[index] if 0 <= index < len(names) else ""


def check_range(trace: Trace, path: str, values: Array, end: int, *, start: int = 0) -> None:
    """Raise BadTrace if a column contains a value below ``start``, or one that is at least ``end``.

    Callers check columns before adding values that could overflow or that JSON cannot represent.

    Args:
        trace: Trace that contains the column.
        path: Path of the column, for the error message.
        values: Values of the column.
        end: Upper limit, exclusive.
        start: Lower limit, inclusive.
    """
    is_outside = (values < start) | (values >= end)
    if is_outside.any():
        value = int(values[is_outside][0])
        raise BadTrace(f"{trace.path}: {path}: {value}, which is out of range; make the trace again")


class CheckView(View):
    """Result of checking a trace file: its problems or, if it has none, the size of its contents.

    ``version``, ``datasets`` and ``rows`` are set only if the trace has no problems.
    """

    sound: Annotated[bool, Doc("whether the trace has no problems")]
    problems: Annotated[tuple[str, ...], Doc("problems, each with the path inside the file")]
    version: Annotated[int | None, Doc("version of the format, if the trace has no problems")] = None
    datasets: Annotated[int | None, Doc("number of datasets, if the trace has no problems")] = None
    rows: Annotated[int | None, Doc("number of rows of all tables, if the trace has no problems")] = None

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each problem, for output as CSV."""
        return [{"problem": problem} for problem in self.problems]


def check_trace(path: Path) -> CheckView:
    """Check a trace file, and return either all problems found or the size of its contents.

    Raises:
        BadTrace: The file does not exist or is not a trace.
    """
    if not path.is_file():
        try:
            open_trace(path).close()
        except TraceError as error:
            raise BadTrace(str(error)) from error
    lines = tuple(problem.removeprefix(f"{path}: ") for problem in problems(path))
    if lines:
        return CheckView(view="check", trace=str(path), sound=False, problems=lines)
    with open_trace(path) as trace:
        return CheckView(
            **source_of(trace, "check"),
            sound=True,
            problems=(),
            version=trace.version,
            datasets=sum(dataset_of(trace.file, field.path) is not None for field in (ROWS, *FIELDS)),
            rows=sum(trace.rows(table) for table in TABLES),
        )
