"""Quantities of every PE of every wafer, and the words of single layers on links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.reports.as_json import Report
from wse.tracing.page.pack import Array, Pack, checked_table
from wse.tracing.query.places.pe import busy_cycles, link_words, sram_bytes
from wse_traces.read import Trace

MOST_WAFERS: Final = 256


def plane_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return ``planes``: for each wafer, by quantity, its packed values ``[row, col]``.

    The quantities are ``sram.USE`` (bytes), ``busy`` (cycles) and ``links.DIRECTION`` (words that leave the PE).
    """
    planes: list[dict[str, object]] = []
    left_out = 0
    if trace.header.wafers > MOST_WAFERS:
        notes.append(f"Of {trace.header.wafers:,} wafers the page has the first {MOST_WAFERS}.")
    for wafer in range(min(trace.header.wafers, MOST_WAFERS)):
        packed = {name: pack(values) for name, values in _planes(trace, wafer)}
        left_out += sum(plane is None for plane in packed.values())
        planes.append({name: plane for name, plane in packed.items() if plane is not None})
    if left_out:
        notes.append(f"{left_out:,} maps of wafers found no room on this page; see wse export.")
    return {"planes": planes}


def layer_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return ``layer_links``: for each layer and wafer the packed words ``[direction * rows, col]`` of its rectangle.

    Raises:
        BadTrace: a layer points to no pattern, or one is larger than the mesh.
    """
    places = checked_table(trace, "placed_layer")
    rows, cols = trace.column("links/patterns/rows"), trace.column("links/patterns/cols")
    packed: dict[int, Report | None] = {-1: None}
    for pattern in np.unique(places["pattern"][places["pattern"] >= 0]).tolist():
        tall, wide = int(rows[pattern]), int(cols[pattern])
        if not (0 < tall <= trace.header.rows and 0 < wide <= trace.header.cols):
            message = f"{trace.path}: links/patterns: pattern {pattern} of {tall}x{wide} PEs; make the trace again"
            raise BadTrace(message)
        words = trace.column("links/patterns/words", pattern, pattern + 1)[0, :, :tall, :wide]
        plane = pack(words.reshape(-1, wide))
        packed[pattern] = None if plane is None else {"rows": tall, "cols": wide, "words": plane}
    if None in [packed[pattern] for pattern in places["pattern"].tolist()]:
        notes.append("Words on links of some layers found no room on this page; see wse export.")
    rows_of = zip(*(places[name].tolist() for name in ("layer", "wafer", "row", "col", "pattern")), strict=True)
    return {
        "layer_links": [
            {"layer": layer, "wafer": wafer, "row": row, "col": col, **plane}
            for layer, wafer, row, col, pattern in rows_of
            if (plane := packed.get(pattern)) is not None
        ]
    }


def _planes(trace: Trace, wafer: int) -> Iterator[tuple[str, Array]]:
    for use, values in sram_bytes(trace, wafer).items():
        if use != "free":
            yield f"sram.{use}", values
    busy = busy_cycles(trace, wafer)
    if busy is not None:
        yield "busy", busy
    for direction, values in link_words(trace, wafer).items():
        yield f"links.{direction}", values
