"""Translation: every PE of one rectangle sends to the same place of another, along its row and then along the column.

One colour. On each link the stream whose source is nearest leaves first and ends farthest: a PE sends its own words and
becomes a wire for those behind it, and a receiver lets pass what ends beyond it before it takes its own.
"""

from __future__ import annotations

from wse_mappings.mesh.placement import Rect
from wse_mappings.plane import PlaneSchedule, PlaneStream, row_then_column


def translation(rows: int, cols: int, source: Rect, target: Rect) -> PlaneSchedule:
    """Streams from ``source`` to ``target``, of one size and disjoint, both on ``rows`` × ``cols`` PEs."""
    down, right = target.row - source.row, target.col - source.col
    streams = []
    for i in sorted(range(source.rows), reverse=down > 0):
        for j in sorted(range(source.cols), reverse=right > 0):
            start, end = (source.row + i, source.col + j), (target.row + i, target.col + j)
            streams.append(PlaneStream(source=start, links=row_then_column(start, end), receivers=(end,)))
    return PlaneSchedule(
        name="translation", rows=rows, cols=cols, streams=tuple(streams), stream_colours=(0,) * len(streams), colours=1
    )
