"""Opening a trace to look into: what is wrong with it becomes an error of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wse.errors import BadTrace
from wse_traces.errors import TraceError
from wse_traces.read import Trace, open_trace


@contextmanager
def trace_at(path: Path) -> Iterator[Trace]:
    """Open the trace at a path, until the context ends.

    Raises:
        BadTrace: there is no such file, or it is no trace, or what is read of it is damaged.
    """
    if path.is_dir():
        message = f"{path}: is a folder, not a regular file; give a file that wse run --trace wrote"
        raise BadTrace(message)
    try:
        with open_trace(path) as trace:
            yield trace
    except TraceError as error:
        raise BadTrace(str(error)) from error


def name_at(names: Sequence[str], index: int) -> str:
    """A name, or empty where the index points to none."""
    return names[index] if 0 <= index < len(names) else ""
