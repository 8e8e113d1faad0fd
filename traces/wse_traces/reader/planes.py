"""Sum the words that layers send over links."""

from __future__ import annotations

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.reader.read import Array, Trace


def layer_link_words(trace: Trace, *, wafer: int, layer: int | None = None) -> Array:
    """Return how many words left each PE of a wafer in each direction, for one or all layers.

    Args:
        trace: An open trace.
        wafer: Index of the wafer.
        layer: Index of the layer, or -1 for everything outside the layers. None sums over all
            layers.

    Returns:
        int64 ``[direction, row, col]``.

    Raises:
        TraceError: The recorded words of a layer are missing or extend beyond the mesh, or the
            trace is damaged or too large.
    """
    trace.check_size("links/words", (schema.BY_PATH["links/words"],), 1)
    header, places = trace.header, trace.table("placed_layer")
    words = np.zeros((len(schema.DIRECTIONS), header.rows, header.cols), np.int64)
    selection = places["wafer"] == wafer
    if layer is not None:
        selection &= places["layer"] == layer
    for pattern in np.unique(places["pattern"][selection]).tolist():
        if not 0 <= pattern < trace.rows("pattern"):
            raise TraceError(f"{trace.path}: links/layers: pattern {pattern} is missing; make the trace again")
        rows, cols = (int(trace.column(f"links/patterns/{name}", pattern, pattern + 1)[0]) for name in ("rows", "cols"))
        words_of_pattern = trace.column("links/patterns/words", pattern, pattern + 1)[0]
        for place in np.flatnonzero(selection & (places["pattern"] == pattern)).tolist():
            row, col = int(places["row"][place]), int(places["col"][place])
            if min(row, col, rows, cols) < 0 or row + rows > header.rows or col + cols > header.cols:
                raise TraceError(f"{trace.path}: links/layers: row {place} leaves the mesh; make the trace again")
            words[:, row : row + rows, col : col + cols] += words_of_pattern[:, :rows, :cols]
    return words
