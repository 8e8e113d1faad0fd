"""Stages on their wafers, the SRAM map of their PEs, and the colours configured on their PEs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.as_json import Report
from wse.reports.tile_name import tile_name
from wse.tracing.page.pack import checked_table
from wse.tracing.query.places.stages import used_fraction
from wse_traces.reader.read import Columns, Trace
from wse_traces.schema import LINES, USES

MAX_ROWS: Final = 20_000
"""Maximum number of buffers, and of routes, on the page. It suffices for a few hundred stages."""


def memory_data(trace: Trace, notes: list[str]) -> Report:
    """Return the stages, SRAM buffers and colours that the page shows.

    Args:
        trace: An open trace.
        notes: List to which a note for the reader is added if there are more than ``MAX_ROWS``
            buffers or routes.

    Returns:
        The lists ``stages`` (rectangles of PEs with some layers), ``buffers`` (the SRAM map of
        their PEs) and ``routes`` (the colours configured on their PEs).

    Raises:
        BadTrace: An index refers to no stage, op or name, or a stage extends beyond the mesh.
    """
    stages = checked_table(trace, "stage")
    for text, table in (("buffers", "buffer"), ("colours in use", "route")):
        if trace.rows(table) > MAX_ROWS:
            notes.append(f"Of {trace.rows(table):,} {text} the page has the first {MAX_ROWS:,}; see wse inspect --pe.")
    buffers, routes = (np.arange(len(checked_table(trace, table, MAX_ROWS)["stage"])) for table in ("buffer", "route"))
    _check_inside(trace, stages)
    return {
        "stages": [_stage(record) for record in trace.records("stage")],
        "buffers": [_buffer(record) for record in trace.records("buffer", buffers)],
        "routes": [{**record, "axis": LINES.index(record["axis"])} for record in trace.records("route", routes)],
    }


def _check_inside(trace: Trace, stages: Columns) -> None:
    """Raise BadTrace if the rectangle of a stage extends beyond the mesh."""
    row, col, rows, cols = (stages[name].astype("<i8") for name in ("row", "col", "rows", "cols"))
    is_inside = (row >= 0) & (col >= 0) & (rows >= 0) & (cols >= 0)
    is_inside &= (row + rows <= trace.header.rows) & (col + cols <= trace.header.cols)
    if not is_inside.all():
        at = int(np.flatnonzero(~is_inside)[0])
        size = f"{rows[at]}x{cols[at]} PEs at {row[at]}, {col[at]}"
        message = f"{trace.path}: placement/stages: stage {at} of {size} leaves the mesh; make the trace again"
        raise BadTrace(message)


def _stage(record: dict[str, Any]) -> dict[str, Any]:
    """Add ``used_fraction``, which states how full the PEs are, to the record of a stage."""
    uses = dict(zip(USES, record["stage_bytes"], strict=True))
    return {**record, "used_fraction": used_fraction(uses)}


def _buffer(record: dict[str, Any]) -> dict[str, Any]:
    """Convert an SRAM buffer of a trace to the form in which the page shows it.

    ``live`` contains the first and last op that need the buffer. It is empty if the buffer is
    always needed.
    """
    live = [op for op in (record["live_from"], record["live_to"]) if op]
    place = {name: record[name] for name in ("address", "bytes", "dtype")}
    name, use = tile_name(record["name"]), USES.index(record["use"])
    return {"stage": record["stage"], "name": name, "use": use, **place, "live": live}
