"""Stages on their wafers, the SRAM map of their PEs, and the colours that their PEs set."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse.errors import BadTrace
from wse.inspect.page.pack import checked
from wse.inspect.query.buffers import tile_name
from wse.report.as_json import Report
from wse_traces.read import Columns, Trace
from wse_traces.schema import USES

MOST_ROWS: Final = 20_000
"""Buffers and routes of the page at most: those of some hundred stages."""


def memory_data(trace: Trace, notes: list[str]) -> Report:
    """``stages``, ``buffers`` (with ``live`` as names of ops), ``routes``; each a list of small objects.

    Raises:
        BadTrace: an index points to no stage, op or name, or a stage leaves the mesh.
    """
    stages = trace.table("stage")
    ops, names = trace.texts("graph/ops/name"), trace.texts("strings/names")
    buffers, routes = trace.table("buffer", 0, MOST_ROWS), trace.table("route", 0, MOST_ROWS)
    for what, table in (("buffers", "buffer"), ("colours in use", "route")):
        if trace.rows(table) > MOST_ROWS:
            notes.append(f"Of {trace.rows(table):,} {what} the page has the first {MOST_ROWS:,}; see wse inspect --pe.")
    count = trace.rows("stage")
    checked(trace.path, "sram/buffers/stage", buffers["stage"], count)
    checked(trace.path, "routes/stage", routes["stage"], count)
    checked(trace.path, "routes/pattern", routes["pattern"], len(names))
    checked(trace.path, "sram/buffers/use", buffers["use"].astype(int), len(USES))
    for end in ("live_from", "live_to"):
        checked(trace.path, f"sram/buffers/{end}", buffers[end], len(ops))
    checked(trace.path, "placement/stages/wafer", stages["wafer"], trace.header.wafers)
    _check_inside(trace, stages)
    return {
        "stages": _rows(stages),
        "buffers": [_buffer(record) for record in trace.records("buffer", np.arange(len(buffers["stage"])))],
        "routes": [{**row, "pattern": names[row["pattern"]] if row["pattern"] >= 0 else ""} for row in _rows(routes)],
    }


def _check_inside(trace: Trace, stages: Columns) -> None:
    """Raises BadTrace where a rectangle leaves the mesh."""
    row, col, rows, cols = (stages[name].astype("<i8") for name in ("row", "col", "rows", "cols"))
    inside = (row >= 0) & (col >= 0) & (rows >= 0) & (cols >= 0)
    inside &= (row + rows <= trace.header.rows) & (col + cols <= trace.header.cols)
    if not inside.all():
        at = int(np.flatnonzero(~inside)[0])
        size = f"{rows[at]}x{cols[at]} PEs at {row[at]}, {col[at]}"
        message = f"{trace.path}: placement/stages: stage {at} of {size} leaves the mesh; make the trace again"
        raise BadTrace(message)


def _buffer(record: dict[str, Any]) -> dict[str, Any]:
    """A buffer as the page has it."""
    live = [op for op in (record["live_from"], record["live_to"]) if op]
    place = {name: record[name] for name in ("address", "bytes", "dtype")}
    name, use = tile_name(record["name"]), USES.index(record["use"])
    return {"stage": record["stage"], "name": name, "use": use, **place, "live": live}


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
