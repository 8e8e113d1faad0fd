"""View: the base of the results of ``wse inspect``, one class a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from wse.report.result import Doc, Result
from wse_traces.read import Trace


@dataclass(frozen=True, kw_only=True)
class View(Result):
    """What is shown of a trace."""

    view: Annotated[str, Doc("name of the view")]
    trace: Annotated[str | None, Doc("the trace")] = None
    complete: Annotated[bool | None, Doc("whether its run was completed")] = None

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows of the view's table, for CSV, as plain values; none for a view that is no table."""
        return []


def source_of(trace: Trace) -> dict[str, Any]:
    """The fields of a view that say which trace it is of."""
    return {"trace": str(trace.path), "complete": trace.complete}
