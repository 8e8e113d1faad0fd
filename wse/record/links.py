"""Words on links by layer, written into a trace: layers with the same words share them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from wse.fabric.links.layer_links import LayerLinks
from wse_traces.write import TraceWriter


def write_layer_links(writer: TraceWriter, found: Iterable[LayerLinks]) -> None:
    """Append each distinct map of words once, and where each layer has it, by layer and wafer."""
    patterns: dict[tuple[int, int, bytes], int] = {}  # by digest: the maps themselves are as large as regions
    placed: list[tuple[int, int, int, int, int]] = []
    for links in found:
        rect = links.rect
        key = (rect.rows, rect.cols, hashlib.sha256(links.words.tobytes()).digest())
        if key not in patterns:
            patterns[key] = writer.append_pattern(links.words)
        placed += [(layer, links.wafer, rect.row, rect.col, patterns[key]) for layer in links.layers]
    if placed:
        columns = zip(*sorted(placed), strict=True)
        writer.append("placed_layer", dict(zip(("layer", "wafer", "row", "col", "pattern"), columns, strict=True)))
