"""The data of the page of ``wse view``: everything it shows of a trace, read once and checked."""

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
from wse.tracing.query.places.wafer_maps import mesh_of
from wse.tracing.query.two_traces.compare import is_trace
from wse.tracing.query.view import outcome_of, trace_at
from wse_traces.reader.read import Trace

MAX_TRACES: Final = 2
MAX_EXPERTS: Final = 1 << 16
"""Maximum number of experts of one layer. The largest models have a few hundred."""


def check_names(names: list[str]) -> list[Path]:
    """Return the paths of the one or two traces to show.

    Raises:
        BadInput: There are more than two names, or one of them does not end in a trace suffix.
    """
    if len(names) > MAX_TRACES:
        message = f"{len(names)} traces: a page shows one trace, or two side by side; give one or two"
        raise BadInput(message)
    for name in names:
        if not is_trace(name):
            message = f"{name!r}: does not have the name of a trace; give a file that wse run wrote, which ends in .h5"
            raise BadInput(message)
    return [Path(name) for name in names]


def view_trace(path: Path, pack: Pack) -> Report:
    """Return all trace data that the page shows.

    Args:
        path: File written by ``wse run`` or ``wse estimate``, complete or not.
        pack: Function that packs each array, or returns None if there is no room left for it. The
            most important arrays are packed first, and the maps of the last wafers last.

    Raises:
        BadTrace: The file does not exist, is not a trace, or is damaged.
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
    """Return the facts about a run that the page shows: names, sizes and options.

    If there are dead PEs, ``mesh`` is the size of the live-PE mesh that programs see.
    """
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
    """Return the number of tokens routed to each expert in each layer.

    Each item contains the index ``layer`` and the list ``tokens``. Layers are in ascending order.

    Raises:
        BadTrace: A layer index, an expert index or a count is out of range.
    """
    table = "expert_load" if trace.rows("expert_load") else "routed"  # expert_load is written at the end of a run
    rows = trace.table(table)
    for name, limit in (("layer", 1 << 31), ("expert", MAX_EXPERTS), ("tokens", 1 << 53)):
        if len(rows[name]) and not 0 <= rows[name].min() <= rows[name].max() < limit:
            path = f"{'routed' if table == 'routed' else 'experts'}/{name}"
            values = f"values from {rows[name].min()} to {rows[name].max()}"
            message = f"{trace.path}: {path}: {values}, allowed: 0 to {limit - 1}; make the trace again"
            raise BadTrace(message)
    loads = tokens_by_layer(rows, int(rows["expert"].max(initial=-1)) + 1)
    return [{"layer": layer, "tokens": tokens.tolist()} for layer, tokens in loads.items()]
