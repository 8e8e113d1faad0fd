"""One PE: what lies where in its SRAM, the colours that its router knows, its busy time, the words on its links."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from wse.errors import BadInput
from wse.inspect.query.opened import Facts, named
from wse_traces.read import Array, Columns, Trace
from wse_traces.schema import DIRECTIONS, LINES, USES

_PLACE: Final = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,9}),([0-9]{1,9})")
_NEXT: Final = dict(zip(DIRECTIONS, ((-1, 0), (0, 1), (1, 0), (0, -1)), strict=True))
_BACK: Final = dict(zip(DIRECTIONS, (2, 3, 0, 1), strict=True))
_RECTANGLE: Final = ("row", "col", "rows", "cols")


def pe_place(text: str) -> tuple[int | None, int, int]:
    """Wafer, None where it is not given, row and column that ``--pe ROW,COL`` or ``--pe WAFER:ROW,COL`` names.

    Raises:
        BadInput: it names no PE.
    """
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        message = f"--pe {text!r}: give row and column as ROW,COL, or WAFER:ROW,COL, such as 0,3 or 1:0,3"
        raise BadInput(message)
    wafer, row, col = found.groups()
    return None if wafer is None else int(wafer), int(row), int(col)


def pe_facts(trace: Trace, wafer: int, row: int, col: int) -> Facts:
    """What a trace says of one PE; what was not recorded is left out.

    Of ``sram``, ``bytes`` are those of this PE by use, and ``buffers`` the map of the fullest PE of its stage, by
    address; ``is_fullest`` says whether both hold the same bytes. ``links`` has for each direction the words that left
    the PE there and those that came from there over the run. Where PEs are dead, links are those of the fabric, whose
    rows and columns are others than those of the mesh, and are left out.

    Args:
        trace: An open trace.
        wafer: Wafer of the PE.
        row: Its row.
        col: Its column.

    Raises:
        BadInput: the trace has no such wafer, or its mesh no such PE.
        TraceError: the trace is damaged.
    """
    rows, cols = mesh_of(trace)
    if not 0 <= wafer < trace.header.wafers:
        has = "one wafer, 0" if trace.header.wafers == 1 else f"the wafers 0 to {trace.header.wafers - 1}"
        message = f"--pe: {trace.path} has no wafer {wafer}; it has {has}"
        raise BadInput(message)
    if not (0 <= row < rows and 0 <= col < cols):
        has = f"rows 0 to {rows - 1} and columns 0 to {cols - 1}"
        message = f"--pe {row},{col}: the mesh of {trace.path} is {rows}x{cols}, with {has}; give one of those"
        raise BadInput(message)
    stages = trace.table("stage")
    mine = np.flatnonzero((stages["wafer"] == wafer) & _covers(stages, row, col))
    facts: Facts = {"wafer": wafer, "row": row, "col": col}
    if len(mine):
        facts["stage"] = _stage(stages, int(mine[0]))
    facts |= _sram(trace, stages, mine, wafer, row, col)
    facts["routes"] = _routes(trace, wafer, row, col)
    return {**facts, **_busy(trace, wafer, row, col), **_links(trace, wafer, row, col)}


def mesh_of(trace: Trace) -> tuple[int, int]:
    """Rows and columns of the mesh that programs see, which is smaller than the fabric where PEs are dead."""
    mesh = trace.header.options.get("mesh") if "defects" in trace.header.options else None
    if isinstance(mesh, list) and len(mesh) == 2 and all(isinstance(size, int) and size > 0 for size in mesh):
        return min(mesh[0], trace.header.rows), min(mesh[1], trace.header.cols)
    return trace.header.rows, trace.header.cols


def run_cycles(trace: Trace) -> int:
    """Cycles from the start of the run to the end of its last pass."""
    schedule, start = trace.column("passes/schedule"), trace.column("passes/start_cycle")
    cycles = trace.column("schedules/cycles")
    known = (schedule >= 0) & (schedule < len(cycles))
    return int((start[known] + cycles[schedule[known]]).max(initial=0))


def _covers(rectangles: Columns, row: int, col: int) -> Array:
    """Which rectangles hold a PE."""
    first_row, first_col, rows, cols = (rectangles[name].astype("<i8") for name in _RECTANGLE)
    covered: Array = (first_row <= row) & (row - first_row < rows) & (first_col <= col) & (col - first_col < cols)
    return covered


def _stage(stages: Columns, index: int) -> Facts:
    wanted = (*_RECTANGLE, "first_layer", "last_layer")
    return {"index": index, **{name: int(stages[name][index]) for name in wanted}}


def _sram(trace: Trace, stages: Columns, mine: Array, wafer: int, row: int, col: int) -> Facts:
    if not trace.rows("sram/bytes_per_pe"):
        return {}
    by_use = trace["sram/bytes_per_pe"][wafer, :, row, col]
    facts: Facts = {"bytes": dict(zip(USES, by_use.tolist(), strict=True)), "is_fullest": True, "buffers": []}
    if len(mine):
        facts["is_fullest"] = bool((stages["stage_bytes"][mine[0]] == by_use).all())
        facts["buffers"] = _buffers(trace, _mapped_stages(trace, stages, mine))
    return {"sram": facts}


def _mapped_stages(trace: Trace, stages: Columns, mine: Array) -> Array:
    """The stages whose buffers are those of ``mine``: a region that spans wafers is told for the first of them."""
    like = ("first_layer", "last_layer", *_RECTANGLE)
    held = np.unique(trace.column("sram/buffers/stage"))
    held = held[(held >= 0) & (held < len(stages["wafer"]))]
    same = held[[any(all(stages[n][h] == stages[n][m] for n in like) for m in mine.tolist()) for h in held.tolist()]]
    found = np.intersect1d(held, mine)
    return found if len(found) else same[:1]


def _buffers(trace: Trace, stages: Array) -> list[Facts]:
    buffers, ops = trace.table("buffer"), trace.texts("graph/ops/name")
    found = [
        {
            "address": int(buffers["address"][at]),
            "bytes": int(buffers["bytes"][at]),
            "use": named(USES, int(buffers["use"][at])),
            "name": bytes(buffers["name"][at]).decode(errors="replace"),
            "dtype": bytes(buffers["dtype"][at]).decode(errors="replace"),
            "live_from": named(ops, int(buffers["live_from"][at])),
            "live_to": named(ops, int(buffers["live_to"][at])),
        }
        for at in np.flatnonzero(np.isin(buffers["stage"], stages)).tolist()
    ]
    return sorted(found, key=lambda each: (each["address"], -each["bytes"]))


def _routes(trace: Trace, wafer: int, row: int, col: int) -> list[Facts]:
    """Colours that the PE's router is set for, each with the pattern that uses it, by colour."""
    routes, names = trace.table("route"), trace.texts("strings/names")
    mine = np.flatnonzero((routes["wafer"] == wafer) & _covers(routes, row, col)).tolist()
    found = [
        {
            "colour": int(routes["colour"][at]),
            "pattern": named(names, int(routes["pattern"][at])),
            "axis": named(LINES, int(routes["axis"][at])),
            "stage": int(routes["stage"][at]),
        }
        for at in mine
    ]
    return sorted(found, key=lambda each: (each["colour"], each["stage"], each["pattern"]))


def _busy(trace: Trace, wafer: int, row: int, col: int) -> Facts:
    if not trace.rows("pe/busy_cycles"):
        return {}
    busy, cycles = int(trace["pe/busy_cycles"][wafer, row, col]), run_cycles(trace)
    share = {"busy_fraction": busy / cycles} if cycles else {}
    return {"busy_cycles": busy, "run_cycles": cycles, **share}


def _links(trace: Trace, wafer: int, row: int, col: int) -> Facts:
    """Words out of the PE on each side, and into it from there."""
    if not trace.rows("links/words") or "defects" in trace.header.options:
        return {}
    out = trace["links/words"][wafer, :, row, col].tolist()
    links: Facts = {}
    for at, direction in enumerate(DIRECTIONS):
        there = row + _NEXT[direction][0], col + _NEXT[direction][1]
        inside = 0 <= there[0] < trace.header.rows and 0 <= there[1] < trace.header.cols
        into = int(trace["links/words"][wafer, _BACK[direction], *there]) if inside else 0
        links[direction] = {"out_words": int(out[at]), "in_words": into}
    return {"links": links}
