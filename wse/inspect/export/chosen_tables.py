"""Which tables of a trace an export writes."""

from __future__ import annotations

from typing import Final

from wse.errors import BadInput, BadTrace, UnknownName
from wse.inspect.export.planes import PATHS, plane_name, plane_tables
from wse.inspect.export.tables import FlatTable, flat_tables, plain_tables
from wse_traces.read import Trace

PLANES: Final = tuple(plane_name(path) for path in PATHS)


def check_tables(names: tuple[str, ...]) -> None:
    """Raise UnknownName for a name that is no table's."""
    for name in names:
        if name not in (*plain_tables(), *PLANES):
            raise UnknownName("table", name, (*plain_tables(), *PLANES), where="--what")


def chosen_tables(trace: Trace, names: tuple[str, ...], *, planes: bool) -> list[FlatTable]:
    """The tables of these names; without names all that have rows, of planes only with ``planes``.

    Raises:
        BadInput: nothing was recorded of a table that is named.
        BadTrace: nothing was recorded at all.
    """
    found = [*flat_tables(trace), *plane_tables(trace)]
    if not names:
        chosen = [table for table in found if table.rows and (planes or table.name not in PLANES)]
        if not chosen:
            message = f"{trace.path}: nothing is recorded yet; let the run go on, or make the trace again"
            raise BadTrace(message)
        return chosen
    chosen = [table for table in found if table.name in names]
    for table in chosen:
        if not table.rows:
            message = f"--what {table.name}: {trace.path} has no rows of it; leave it out"
            raise BadInput(message)
    return chosen
