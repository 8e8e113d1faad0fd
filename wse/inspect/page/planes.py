"""Quantities of every PE of every wafer, and the words of single layers on links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.inspect.page.packing import Array, Pack, checked
from wse.report.as_json import Report
from wse_traces.read import Trace
from wse_traces.schema import DIRECTIONS, USES

MOST_WAFERS: Final = 256


def plane_facts(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """``planes``: for each wafer, by quantity, its packed values ``[row, col]``.

    The quantities are ``sram.USE`` (bytes), ``busy`` (cycles) and ``links.DIRECTION`` (words that leave the PE).
    """
    planes: list[dict[str, object]] = []
    left_out = 0
    if trace.header.wafers > MOST_WAFERS:
        notes.append(f"Of {trace.header.wafers:,} wafers the page has the first {MOST_WAFERS}.")
    for wafer in range(min(trace.header.wafers, MOST_WAFERS)):
        held = {name: pack(values) for name, values in _planes(trace, wafer)}
        left_out += sum(packed is None for packed in held.values())
        planes.append({name: packed for name, packed in held.items() if packed is not None})
    if left_out:
        notes.append(f"{left_out:,} maps of wafers found no room on this page; see wse export.")
    return {"planes": planes}


def layer_facts(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """``layer_links``: for each layer and wafer the packed words ``[direction * rows, col]`` of its rectangle.

    Raises:
        BadTrace: a layer points to no pattern, or one is larger than the mesh.
    """
    places = trace.table("placed_layer")
    checked(trace.path, "links/layers/pattern", places["pattern"], trace.rows("pattern"))
    rows, cols = trace.column("links/patterns/rows"), trace.column("links/patterns/cols")
    packed: dict[int, Report | None] = {-1: None}
    for pattern in np.unique(places["pattern"][places["pattern"] >= 0]).tolist():
        tall, wide = int(rows[pattern]), int(cols[pattern])
        if not (0 < tall <= trace.header.rows and 0 < wide <= trace.header.cols):
            message = f"{trace.path}: links/patterns: pattern {pattern} of {tall}x{wide} PEs; make the trace again"
            raise BadTrace(message)
        words = trace.column("links/patterns/words", pattern, pattern + 1)[0, :, :tall, :wide]
        held = pack(words.reshape(-1, wide))
        packed[pattern] = None if held is None else {"rows": tall, "cols": wide, "words": held}
    if None in [packed[pattern] for pattern in places["pattern"].tolist()]:
        notes.append("Words on links of some layers found no room on this page; see wse export.")
    rows_of = zip(*(places[name].tolist() for name in ("layer", "wafer", "row", "col", "pattern")), strict=True)
    return {
        "layer_links": [
            {"layer": layer, "wafer": wafer, "row": row, "col": col, **held}
            for layer, wafer, row, col, pattern in rows_of
            if (held := packed.get(pattern)) is not None
        ]
    }


def _planes(trace: Trace, wafer: int) -> Iterator[tuple[str, Array]]:
    if wafer < trace.rows("sram/bytes_per_pe"):
        held = trace.column("sram/bytes_per_pe", wafer, wafer + 1)[0]
        for use, values in zip(USES, held, strict=True):
            if use != "free":
                yield f"sram.{use}", values
    if wafer < trace.rows("pe/busy_cycles"):
        yield "busy", trace.column("pe/busy_cycles", wafer, wafer + 1)[0]
    if wafer < trace.rows("links/words"):
        for direction, values in zip(DIRECTIONS, trace.column("links/words", wafer, wafer + 1)[0], strict=True):
            yield f"links.{direction}", values
