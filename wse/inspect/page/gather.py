"""All that the page shows of one trace: read once, checked, and small enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.inspect.page.experts import expert_data
from wse.inspect.page.memory import memory_data
from wse.inspect.page.packing import Pack
from wse.inspect.page.planes import layer_data, plane_data
from wse.inspect.page.timeline import timeline_data
from wse.inspect.page.work import work_data
from wse.inspect.query.compare import is_trace
from wse.inspect.query.pe import mesh_of
from wse.inspect.query.view import trace_at
from wse.report.as_json import Report
from wse_traces.read import Trace

MOST_TRACES: Final = 2


def check_names(names: list[str]) -> list[Path]:
    """The one or two traces that are named.

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
    """One trace as the page shows it; every array is what ``pack`` makes of it, None where it has no room.

    Args:
        path: A file that ``wse run`` or ``wse estimate`` wrote, complete or not.
        pack: Called with each array as it is read, the most needed first; planes of other wafers last.

    Raises:
        BadTrace: there is no such file, or it is no trace, or damaged.
    """
    with trace_at(path) as trace:
        return _data(trace, pack)


def _data(trace: Trace, pack: Pack) -> Report:
    notes: list[str] = []
    if not trace.complete:
        notes.append("The run goes on or was stopped: this is what it had written up to its last flush.")
    return {
        **_header(trace),
        **memory_data(trace, notes),
        **work_data(trace, pack, notes),
        **timeline_data(trace, pack, notes),
        **plane_data(trace, pack, notes),
        **layer_data(trace, pack, notes),
        "experts": expert_data(trace),
        "crossing_bytes": int(trace.column("crossings/bytes").sum()),
        "notes": notes,
    }


def _header(trace: Trace) -> dict[str, Any]:
    """What names the run; ``mesh``: rows and columns that programs see where PEs are dead."""
    header = trace.header
    mesh = mesh_of(trace)
    return {
        "trace": str(trace.path),
        "name": trace.path.name,
        "complete": trace.complete,
        "created_by": header.created_by,
        "model": header.model,
        "wafer": header.wafer,
        "mapping": header.mapping,
        "seed": header.seed,
        "program_digest": header.program_digest,
        "wafers": header.wafers,
        "rows": header.rows,
        "cols": header.cols,
        "clock_hz": header.clock_hz,
        "options": dict(header.options),
        **({"mesh": mesh} if mesh != (header.rows, header.cols) else {}),
    }
