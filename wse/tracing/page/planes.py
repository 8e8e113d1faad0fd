"""Stages, SRAM maps, maps of quantities over PEs, and the wavelets that the page replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.result import Report
from wse.reports.shared_tables import tile_name
from wse.tracing.page.pack import Array, Pack, checked_table, packed_columns
from wse.tracing.query.places.stages import busy_cycles, link_words, sram_bytes, used_fraction
from wse.tracing.query.view import check_range
from wse_traces.reader.executed_steps import schedule_rows
from wse_traces.reader.read import Columns, Trace
from wse_traces.reader.replay import wavelet_activity, wavelet_cycles, wavelet_passes
from wse_traces.schema import LINES, MOVES, USES

MAX_WAFERS: Final = 256


def plane_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the heat maps of each wafer for the page, with a value for each PE.

    Args:
        trace: An open trace.
        pack: Function that packs an array for the page.
        notes: List to which notes for the reader about omitted maps are added.

    Returns:
        ``planes``: for each wafer, the packed maps ``[row, col]``, keyed by quantity. The
        quantities are ``sram.USE`` (bytes), ``busy`` (cycles) and ``links.DIRECTION`` (words that
        leave the PE).
    """
    planes: list[dict[str, object]] = []
    left_out = 0
    if trace.header.wafers > MAX_WAFERS:
        notes.append(f"Of {trace.header.wafers:,} wafers the page has the first {MAX_WAFERS}.")
    for wafer in range(min(trace.header.wafers, MAX_WAFERS)):
        packed_planes = {name: pack(values) for name, values in _planes(trace, wafer)}
        left_out += sum(plane is None for plane in packed_planes.values())
        planes.append({name: plane for name, plane in packed_planes.items() if plane is not None})
    if left_out:
        notes.append(f"{left_out:,} maps of wafers found no room on this page; see wse export.")
    return {"planes": planes}


def layer_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the number of words that each layer sends over links, for the page.

    Layers for which there is no room are omitted.

    Args:
        trace: An open trace.
        pack: Function that packs an array for the page.
        notes: List to which a note for the reader is added if layers are omitted.

    Returns:
        ``layer_links``: for each layer and wafer, the rectangle of PEs that the layer uses and the
        packed words ``[direction * rows, col]`` in it.

    Raises:
        BadTrace: The trace has no map of words for a layer, or a map is empty or larger than the
            mesh.
    """
    places = checked_table(trace, "placed_layer")
    rows, cols = trace.column("links/patterns/rows"), trace.column("links/patterns/cols")
    packed_patterns: dict[int, Report | None] = {-1: None}
    for pattern in np.unique(places["pattern"][places["pattern"] >= 0]).tolist():
        pattern_rows, pattern_cols = int(rows[pattern]), int(cols[pattern])
        if not (0 < pattern_rows <= trace.header.rows and 0 < pattern_cols <= trace.header.cols):
            size = f"{pattern_rows}x{pattern_cols} PEs"
            raise BadTrace(f"{trace.path}: links/patterns: pattern {pattern} of {size}; make the trace again")
        words = trace.column("links/patterns/words", pattern, pattern + 1)[0, :, :pattern_rows, :pattern_cols]
        plane = pack(words.reshape(-1, pattern_cols))
        packed_patterns[pattern] = (
            None if plane is None else {"rows": pattern_rows, "cols": pattern_cols, "words": plane}
        )
    if None in [packed_patterns[pattern] for pattern in places["pattern"].tolist()]:
        notes.append("Words on links of some layers found no room on this page; see wse export.")
    rows_of = zip(*(places[name].tolist() for name in ("layer", "wafer", "row", "col", "pattern")), strict=True)
    return {
        "layer_links": [
            {"layer": layer, "wafer": wafer, "row": row, "col": col, **plane}
            for layer, wafer, row, col, pattern in rows_of
            if (plane := packed_patterns.get(pattern)) is not None
        ]
    }


def _planes(trace: Trace, wafer: int) -> Iterator[tuple[str, Array]]:
    """Yield the name and the values ``[row, col]`` of each map of a wafer with a value per PE.

    Examples of names are ``sram.weights``, ``busy`` and ``links.north``.
    """
    for use, values in sram_bytes(trace, wafer).items():
        if use != "free":
            yield f"sram.{use}", values
    busy = busy_cycles(trace, wafer)
    if busy is not None:
        yield "busy", busy
    for direction, values in link_words(trace, wafer).items():
        yield f"links.{direction}", values


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
        raise BadTrace(f"{trace.path}: placement/stages: stage {at} of {size} leaves the mesh; make the trace again")


def _stage(record: dict[str, Any]) -> dict[str, Any]:
    """Add ``used_fraction`` to the record of a stage: the fraction of a PE's SRAM in use."""
    uses = dict(zip(USES, record["stage_bytes"], strict=True))
    return {**record, "used_fraction": used_fraction(uses)}


def _buffer(record: dict[str, Any]) -> dict[str, Any]:
    """Convert the record of an SRAM buffer from a trace to a record for the page.

    ``live`` is the first and last op that need the buffer, or empty if it is always needed.
    """
    live = [op for op in (record["live_from"], record["live_to"]) if op]
    place = {name: record[name] for name in ("address", "bytes", "dtype")}
    name, use = tile_name(record["name"]), USES.index(record["use"])
    return {"stage": record["stage"], "name": name, "use": use, **place, "live": live}


MAX_MOVES: Final = 1_000_000
"""Maximum number of moves on the page. A browser needs about a second and 100 kB for them."""
SHOWN: Final = ("cycle", "step", "wafer", "row", "col", "direction")


def move_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the logged wavelet moves in the first cycles of a pass, which the page replays.

    A wavelet is a 32-bit word in transit over the links.

    Args:
        trace: An open trace.
        pack: Function that packs an array for the page.
        notes: List to which a note for the reader is added if moves are omitted.

    Returns:
        ``moves``, which is None if nothing was logged or there is no room. Otherwise:

        - ``pass``: index of the pass
        - ``columns``: the moves in chronological order. ``direction`` is a code of ``MOVES``: the
          side on which the word leaves the router, or the ramp into the PE.
        - ``steps``: ``op`` and ``name`` of each step of the pass
        - ``token``: index of the first token that the pass read or generated, or -1

    Raises:
        BadTrace: A move is outside the mesh.
        TraceError: The log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        return {"moves": None}
    moving, counts = wavelet_activity(trace, pass_index=passes[-1])
    shown_cycles = int(np.searchsorted(np.cumsum(counts), MAX_MOVES, side="right"))
    if shown_cycles == 0:
        notes.append(f"One cycle alone moves {int(counts[0]):,} wavelets; see wse inspect --cycles.")
        return {"moves": None}
    cycles = wavelet_cycles(trace, pass_index=passes[-1], last=int(moving[shown_cycles - 1]))
    parts = [part for _, part in cycles]
    columns = {name: np.concatenate([part[name] for part in parts]).astype(np.int64) for name in SHOWN}
    header = trace.header
    ends = {"wafer": header.wafers, "row": header.rows, "col": header.cols, "direction": len(MOVES)}
    for name, values in columns.items():
        check_range(trace, f"wavelets/{name}", values, ends.get(name, 1 << 53))
    packed_moves = packed_columns(columns, pack)
    steps = packed_columns(_steps(trace, passes[-1]), pack)
    if packed_moves is None or steps is None:
        notes.append("The log of wavelets found no room on this page; see wse inspect --cycles.")
        return {"moves": None}
    if shown_cycles < len(moving):
        played = len(columns["cycle"])
        notes.append(f"Of {int(counts.sum()):,} moves of wavelets the page plays the first {played:,}.")
    tokens = np.flatnonzero(trace.column("tokens/pass") == passes[-1])[:1].tolist()
    return {"moves": {"pass": passes[-1], "columns": packed_moves, "steps": steps, "token": (tokens or [-1])[0]}}


def _steps(trace: Trace, index: int) -> dict[str, Array]:
    """Return the op of each step of a pass, and its kernel or communication pattern.

    Both are row numbers in tables of the trace. The columns are empty if the pass does not exist.
    """
    first, counts = schedule_rows(trace)
    schedule = trace.column("passes/schedule", index, index + 1).tolist()
    start, end = (first[schedule[0]], first[schedule[0]] + counts[schedule[0]]) if schedule else (0, 0)
    return {name: trace.column(f"steps/{name}", int(start), int(end)) for name in ("op", "name")}
