"""Maps of quantities over the PEs of every wafer, and of the words of single layers on links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.as_json import Report
from wse.tracing.page.pack import Array, Pack, checked_table
from wse.tracing.query.places.wafer_maps import busy_cycles, link_words, sram_bytes
from wse_traces.reader.read import Trace

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
        BadTrace: A layer has no pattern, or a pattern is empty or larger than the mesh.
    """
    places = checked_table(trace, "placed_layer")
    rows, cols = trace.column("links/patterns/rows"), trace.column("links/patterns/cols")
    packed_patterns: dict[int, Report | None] = {-1: None}
    for pattern in np.unique(places["pattern"][places["pattern"] >= 0]).tolist():
        pattern_rows, pattern_cols = int(rows[pattern]), int(cols[pattern])
        if not (0 < pattern_rows <= trace.header.rows and 0 < pattern_cols <= trace.header.cols):
            size = f"{pattern_rows}x{pattern_cols} PEs"
            message = f"{trace.path}: links/patterns: pattern {pattern} of {size}; make the trace again"
            raise BadTrace(message)
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
    """Yield the name and values ``[row, col]`` of each quantity recorded for the PEs of a wafer.

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
