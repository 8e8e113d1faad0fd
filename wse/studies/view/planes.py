"""Quantities of every PE of every wafer, and the words of single layers on links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.studies.expert_load import load_in
from wse.studies.facts import Report
from wse.studies.view.packing import Array, Pack, checked
from wse_traces.read import Trace
from wse_traces.schema import DIRECTIONS, USES

FREE: Final = USES.index("free")


def plane_facts(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """``planes``: for each wafer, by quantity, its packed values ``[row, col]``; ``experts``: tokens by layer.

    The quantities are ``sram`` (bytes in use) and ``sram.USE``, ``busy`` (cycles), ``links.DIRECTION`` (words that
    leave the PE) and ``hops`` (their sum: the links that words cross next).
    """
    planes: list[dict[str, object]] = []
    left_out = 0
    for wafer in range(trace.header.wafers):
        held = {name: pack(values) for name, values in _planes(trace, wafer)}
        left_out += sum(packed is None for packed in held.values())
        planes.append({name: packed for name, packed in held.items() if packed is not None})
    if left_out:
        notes.append(f"{left_out:,} maps of wafers found no room on this page; see wse export.")
    load = load_in(trace).over_run
    experts = [{"layer": layer, "tokens": tokens.tolist()} for layer, tokens in load.items()]
    return {"planes": planes, "experts": experts}


def layer_facts(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """``layer_links``: for each layer and wafer the packed words ``[direction * rows, col]`` of its rectangle.

    Raises:
        BadTrace: a layer points to no pattern.
    """
    places = trace.table("placed_layer")
    checked(trace.path, "links/layers/pattern", places["pattern"], trace.rows("pattern"))
    packed: dict[int, Report | None] = {}
    for pattern in np.unique(places["pattern"]).tolist():
        rows, cols = (int(trace.column(f"links/patterns/{n}", pattern, pattern + 1)[0]) for n in ("rows", "cols"))
        words = trace.column("links/patterns/words", pattern, pattern + 1)[0, :, :rows, :cols]
        held = pack(words.reshape(-1, words.shape[2]))
        packed[pattern] = None if held is None else {"rows": words.shape[1], "cols": words.shape[2], "words": held}
    if None in packed.values():
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
        yield "sram", held.sum(axis=0, dtype=np.int64) - held[FREE]
        for use in range(FREE):
            yield f"sram.{USES[use]}", held[use]
    if wafer < trace.rows("pe/busy_cycles"):
        yield "busy", trace.column("pe/busy_cycles", wafer, wafer + 1)[0]
    if wafer < trace.rows("links/words"):
        words = trace.column("links/words", wafer, wafer + 1)[0]
        yield "hops", words.sum(axis=0)
        for direction, values in zip(DIRECTIONS, words, strict=True):
            yield f"links.{direction}", values
