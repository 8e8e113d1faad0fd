"""PlaneSchedule: a communication pattern on a rectangle of PEs whose streams turn or branch.

A `LineSchedule` cannot describe such a pattern, because its messages stay on one row or column. A
stream carries words from one PE over a tree of links to its receivers, where they replace the
stored words. Values, link loads and routes follow from this one description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
NORTH, EAST, SOUTH, WEST = range(4)
STEP: Final = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Offset (rows, cols) of the neighbour on each side."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaneStream:
    """A stream of words from one PE to its receivers, over a tree of links.

    Attributes:
        source: (row, col) of the sending PE.
        links: int32 ``[n, 3]``: the links that the stream crosses, from the source outward. A link
            is given by the row and column of the PE that it leaves, and the side (such as NORTH).
        receivers: (row, col) of the PEs that store the words.
        slot: Index of the receive buffer. A receiver stores n words at an offset of ``slot * n``
            words from the receive address, so that several streams can end at the same PE.
        words: Number of words of this stream; None if all streams of the pattern have the same
            number.
    """

    source: tuple[int, int]
    links: I32
    receivers: tuple[tuple[int, int], ...]
    slot: int = 0
    words: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaneSchedule:
    """A communication pattern of streams on a rectangle of PEs.

    Streams with the same colour pass each router in order.

    Attributes:
        name: Name of the pattern.
        rows, cols: Size of the rectangle.
        streams: The streams, in order.
        stream_colours: Colour of each stream, from 0 to ``colours`` - 1.
        colours: Number of colours that the pattern occupies on a PE.
    """

    name: str
    rows: int
    cols: int
    streams: tuple[PlaneStream, ...]
    stream_colours: tuple[int, ...]
    colours: int


def straight(row: int, col: int, side: int, hops: int) -> I32:
    """Return the links of a straight path from a PE toward one side, int32 ``[hops, 3]``.

    Each link is (row, column, side), where (row, column) is the PE that the link leaves.

    Args:
        row, col: Position of the PE.
        side: NORTH, EAST, SOUTH or WEST.
        hops: Number of links.

    >>> straight(2, 5, WEST, 2).tolist()
    [[2, 5, 3], [2, 4, 3]]
    """
    row_step, col_step = STEP[side]
    steps = np.arange(hops)
    return np.stack([row + row_step * steps, col + col_step * steps, np.full(hops, side)], axis=1).astype(np.int32)


def row_then_column(source: tuple[int, int], target: tuple[int, int]) -> I32:
    """Return the links from one PE to another, first along a row, then along a column.

    This path is called X-Y routing.

    Args:
        source, target: (row, col) of both PEs.

    Returns:
        int32 ``[n, 3]``: row and column of the PE that each link leaves, and the side of that PE.
    """
    (row, col), (to_row, to_col) = source, target
    row_links = straight(row, col, EAST if to_col > col else WEST, abs(to_col - col))
    return np.concatenate([row_links, straight(row, to_col, SOUTH if to_row > row else NORTH, abs(to_row - row))])
