"""The data of the page: all that it shows of one trace, read once, checked, and small enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput, BadTrace
from wse.reports.as_json import Report
from wse.tracing.page.answer import answer_data
from wse.tracing.page.memory import memory_data
from wse.tracing.page.moves import move_data
from wse.tracing.page.pack import Pack
from wse.tracing.page.planes import layer_data, plane_data
from wse.tracing.page.timeline import timeline_data
from wse.tracing.page.work import work_data
from wse.tracing.query.expert_load import tokens_by_layer
from wse.tracing.query.places.pe import mesh_of
from wse.tracing.query.two_traces.compare import is_trace
from wse.tracing.query.view import outcome_of, trace_at
from wse_traces.read import Trace

MOST_TRACES: Final = 2
MOST_EXPERTS: Final = 1 << 16
"""Experts of one layer at most; the largest models have some hundred."""


def check_names(names: list[str]) -> list[Path]:
    """Return the one or two traces that are named.

    Raises:
        BadInput: there are more, or one is not named as a trace is.
    """
    if len(names) > MOST_TRACES:
        message = f"{len(names)} traces: a page shows one, or two beside each other; give one or two"
        raise BadInput(message)
    for name in names:
        if not is_trace(name):
            message = f"{name!r}: is not named as a trace; give a file that wse run wrote, which ends in .h5"
            raise BadInput(message)
    return [Path(name) for name in names]


def view_trace(path: Path, pack: Pack) -> Report:
    """Return a trace in the form of the page; every array is packed by ``pack``, None where it has no room.

    Args:
        path: A file that ``wse run`` or ``wse estimate`` wrote, complete or not.
        pack: Called with each array as it is read, the most needed first; planes of other wafers last.

    Raises:
        BadTrace: there is no such file, or it is no trace, or damaged.
    """
    notes: list[str] = []
    with trace_at(path) as trace:
        if not trace.complete:
            notes.append(f"Incomplete, {outcome_of(trace.ending)}: this is what was written up to the last flush.")
        return {
            **_header(trace),
            **answer_data(trace),
            **memory_data(trace, notes),
            **work_data(trace, pack, notes),
            **timeline_data(trace, pack, notes),
            **plane_data(trace, pack, notes),
            **layer_data(trace, pack, notes),
            **move_data(trace, pack, notes),
            "experts": _experts(trace),
            "crossing_bytes": int(trace.column("crossings/bytes").sum()),
            "notes": notes,
        }


def _header(trace: Trace) -> dict[str, Any]:
    """Return the names and sizes of a run; ``mesh`` is the logical mesh where PEs are dead."""
    header = trace.header
    mesh = mesh_of(trace)
    names = ("created_by", "model", "wafer", "mapping", "seed", "program_digest", "wafers", "rows", "cols", "clock_hz")
    return {
        "trace": str(trace.path),
        "name": trace.path.name,
        "complete": trace.complete,
        **{name: getattr(header, name) for name in names},
        "options": dict(header.options),
        **({"mesh": mesh} if mesh != (header.rows, header.cols) else {}),
    }


def _experts(trace: Trace) -> list[Report]:
    """Return the load of experts: ``layer``, ascending, and ``tokens`` by expert, as far as the run went.

    Raises:
        BadTrace: a layer, expert or count cannot be.
    """
    table = "expert_load" if trace.rows("expert_load") else "routed"  # the former is written at the end of a run
    rows = trace.table(table)
    for name, most in (("layer", 1 << 31), ("expert", MOST_EXPERTS), ("tokens", 1 << 53)):
        if len(rows[name]) and not 0 <= rows[name].min() <= rows[name].max() < most:
            path = f"{'routed' if table == 'routed' else 'experts'}/{name}"
            values = f"values from {rows[name].min()} to {rows[name].max()}"
            message = f"{trace.path}: {path}: {values}; make the trace again"
            raise BadTrace(message)
    loads = tokens_by_layer(rows, int(rows["expert"].max(initial=-1)) + 1)
    return [{"layer": layer, "tokens": tokens.tolist()} for layer, tokens in loads.items()]
