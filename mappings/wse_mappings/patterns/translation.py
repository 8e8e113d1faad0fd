"""Translation: PEs of one rectangle send pieces of their words to the PEs of another rectangle.

Streams travel along their row first, then along the column, all on one colour. On each link, the
stream with the nearest source leaves first and ends farthest. A PE sends its own words first, and
then its router passes on the words of the PEs behind it. A receiver lets the words for PEs beyond
it pass before it takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse_mappings.mesh.placement import Rect
from wse_mappings.plane import PlaneSchedule, PlaneStream, row_then_column


def translation(
    rows: int, cols: int, source: Rect, target: Rect, pieces: Sequence[tuple[int, int, int]], stride: int = 1
) -> PlaneSchedule:
    """Return streams that move words from one rectangle of PEs to another one of equal width.

    The rectangles do not overlap. Each PE of a sending row sends to the PE of the receiving row in
    the same column of its rectangle.

    Args:
        rows, cols: Size of the mesh.
        source, target: Rectangles that send and receive.
        pieces: (sending row, receiving row, words) of each stream, with rows counted from 0 in each
            rectangle.
        stride: In receiving row r, only columns r % stride, r % stride + stride and so on
            participate.
    """
    row_offset, col_offset = target.row - source.row, target.col - source.col
    streams = []
    for sender, receiver, words in sorted(pieces, key=lambda piece: piece[:2], reverse=row_offset > 0):
        for j in sorted(range(receiver % stride, source.cols, stride), reverse=col_offset > 0):
            start, end = (source.row + sender, source.col + j), (target.row + receiver, target.col + j)
            links = row_then_column(start, end)
            streams.append(PlaneStream(source=start, links=links, receivers=(end,), words=words))
    return PlaneSchedule(
        name="translation", rows=rows, cols=cols, streams=tuple(streams), stream_colours=(0,) * len(streams), colours=1
    )
