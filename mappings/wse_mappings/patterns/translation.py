"""Translation: PEs of one rectangle send pieces to PEs of another, along their row and then along the column.

One colour. On each link the stream whose source is nearest leaves first and ends farthest: a PE sends its own words and
becomes a wire for those behind it, and a receiver lets pass what ends beyond it before it takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse_mappings.mesh.placement import Rect
from wse_mappings.plane import PlaneSchedule, PlaneStream, row_then_column


def translation(
    rows: int, cols: int, source: Rect, target: Rect, pieces: Sequence[tuple[int, int, int]], stride: int = 1
) -> PlaneSchedule:
    """Return streams from ``source`` to ``target``, disjoint rectangles with the same number of columns.

    ``pieces`` are the row that sends, the row that receives and the words, in the order of the words. Of a row that
    receives, every ``stride``-th column does, from the one on that has the row's number modulo the stride.
    """
    down, right = target.row - source.row, target.col - source.col
    streams = []
    for sender, receiver, words in sorted(pieces, key=lambda piece: piece[:2], reverse=down > 0):
        for j in sorted(range(receiver % stride, source.cols, stride), reverse=right > 0):
            start, end = (source.row + sender, source.col + j), (target.row + receiver, target.col + j)
            links = row_then_column(start, end)
            streams.append(PlaneStream(source=start, links=links, receivers=(end,), words=words))
    return PlaneSchedule(
        name="translation", rows=rows, cols=cols, streams=tuple(streams), stream_colours=(0,) * len(streams), colours=1
    )
