"""``--check``: everything that is wrong with a trace, or what it holds when nothing is."""

from __future__ import annotations

from pathlib import Path

from wse.errors import BadTrace
from wse.inspect.query.opened import Facts
from wse_traces.errors import TraceError
from wse_traces.lookup import dataset_of
from wse_traces.read import open_trace
from wse_traces.schema import FIELDS, ROWS, TABLES
from wse_traces.validate import problems


def check_facts(path: Path) -> Facts:
    """``sound``, and the ``problems``: each a line that begins with the path inside the file.

    Raises:
        BadTrace: there is no such file, or it is none.
    """
    if not path.is_file():
        try:
            open_trace(path).close()
        except TraceError as error:
            raise BadTrace(str(error)) from error
    found = [problem.removeprefix(f"{path}: ") for problem in problems(path)]
    facts: Facts = {"trace": str(path), "sound": not found, "problems": found}
    if not found:
        with open_trace(path) as trace:
            rows = sum(trace.rows(table) for table in TABLES)
            held = sum(dataset_of(trace.file, field.path) is not None for field in (ROWS, *FIELDS))
            facts |= {"complete": trace.complete, "version": trace.version, "datasets": held, "rows": rows}
    return facts
