"""View of ``wse inspect --check``: the problems of a trace, or a summary if it has none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from wse.errors import BadTrace
from wse.reports.result import Doc
from wse.tracing.query.view import View
from wse_traces.errors import TraceError
from wse_traces.reader.lookup import dataset_of
from wse_traces.reader.read import open_trace
from wse_traces.schema import FIELDS, ROWS, TABLES
from wse_traces.validator.validate import problems


@dataclass(frozen=True, kw_only=True)
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
            view="check",
            trace=str(path),
            complete=trace.complete,
            ending=trace.ending or None,
            sound=True,
            problems=(),
            version=trace.version,
            datasets=sum(dataset_of(trace.file, field.path) is not None for field in (ROWS, *FIELDS)),
            rows=sum(trace.rows(table) for table in TABLES),
        )
