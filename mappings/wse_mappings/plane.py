"""PlaneSchedule: a communication pattern on a rectangle whose streams turn or branch, which no line of PEs can hold.

A stream takes words from one PE over a tree of links to its receivers, where they replace what is there. Values, link
loads and routes follow from this one description.
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
"""(rows, cols) to the neighbour on each side."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaneStream:
    """A stream from one PE to its receivers.

    Attributes:
        source: (row, col) of the PE that sends.
        links: int32 ``[n, 3]``: row, col and side of every link that it crosses, from the source outward.
        receivers: (row, col) of the PEs that store its words.
        slot: They do so this many times its length behind the address where words are received.
        words: Words that it takes, where streams of a pattern differ in them.
    """

    source: tuple[int, int]
    links: I32
    receivers: tuple[tuple[int, int], ...]
    slot: int = 0
    words: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaneSchedule:
    """Streams on a rectangle of ``rows`` x ``cols`` PEs. Streams of one colour pass each router in order.

    Attributes:
        name: The pattern's name.
        rows, cols: The rectangle.
        streams: In their order.
        stream_colours: The colour of each stream, 0 to ``colours`` - 1.
        colours: Colours that the pattern occupies on a PE.
    """

    name: str
    rows: int
    cols: int
    streams: tuple[PlaneStream, ...]
    stream_colours: tuple[int, ...]
    colours: int


def straight(row: int, col: int, side: int, hops: int) -> I32:
    """Return the links ``[hops, 3]`` from a PE to one side.

    >>> straight(2, 5, WEST, 2).tolist()
    [[2, 5, 3], [2, 4, 3]]
    """
    down, right = STEP[side]
    steps = np.arange(hops)
    return np.stack([row + down * steps, col + right * steps, np.full(hops, side)], axis=1).astype(np.int32)


def row_then_column(source: tuple[int, int], target: tuple[int, int]) -> I32:
    """Return the links ``[n, 3]`` along the source's row and then along the target's column (X-Y routing)."""
    (row, col), (to_row, to_col) = source, target
    along = straight(row, col, EAST if to_col > col else WEST, abs(to_col - col))
    return np.concatenate([along, straight(row, to_col, SOUTH if to_row > row else NORTH, abs(to_row - row))])
