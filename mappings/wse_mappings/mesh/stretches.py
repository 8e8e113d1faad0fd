"""Routes over physical links as straight stretches, and the words that they bring onto those links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse_mappings.plane import EAST, NORTH, SOUTH, WEST

I64 = npt.NDArray[np.int64]


class Stretches(NamedTuple):
    """Straight segments of paths in order, int64 ``[n]`` each.

    ``link`` numbers the logical link, row-major by its west or north PE; ``row`` and ``col`` are the physical PE that a
    stretch begins at, ``down`` and ``right`` its hops with their sign, one of them 0.
    """

    link: I64
    row: I64
    col: I64
    down: I64
    right: I64

    def select(self, which: npt.NDArray[np.bool_]) -> Stretches:
        """Select some of the stretches by a mask."""
        return Stretches(*(part[which] for part in self))


def concatenate(*several: Stretches) -> Stretches:
    """Concatenate several sets of stretches."""
    return Stretches(*map(np.concatenate, zip(*several, strict=True)))


class LinkLoads:
    """Words on the links in a box of a fabric, as differences along each direction.

    ``top`` and ``left`` are the box's first row and column, ``rows`` and ``cols`` its size.
    """

    def __init__(self, top: int, left: int, rows: int, cols: int) -> None:
        self._corner, self._shape = (top, left), (rows, cols)
        self._change = np.zeros((4, rows + 1, cols + 1), np.int64)

    @classmethod
    def empty_over(cls, runs: Stretches) -> LinkLoads:
        """Return an empty count for the smallest box that contains the segments."""
        if not len(runs.link):
            return cls(0, 0, 0, 0)
        row, col = (np.append(begin, begin + hops) for begin, hops in ((runs.row, runs.down), (runs.col, runs.right)))
        top, left = int(row.min()), int(col.min())
        return cls(top, left, int(row.max()) - top + 1, int(col.max()) - left + 1)

    def add(self, runs: Stretches, forward: I64, backward: I64) -> None:
        """Add ``forward[link]`` words along the stretches of each logical link, and ``backward[link]`` against them."""
        for away, back, begin, hops in ((EAST, WEST, runs.col, runs.right), (SOUTH, NORTH, runs.row, runs.down)):
            for sign, (out, home) in ((1, (forward, backward)), (-1, (backward, forward))):
                chosen = np.flatnonzero(hops * sign > 0)
                start, end = begin[chosen], begin[chosen] + hops[chosen]
                low, high = (start, end) if sign > 0 else (end, start)
                self._stretch(away, runs, chosen, low, high, out)
                self._stretch(back, runs, chosen, low + 1, high + 1, home)

    def _stretch(self, direction: int, runs: Stretches, chosen: I64, low: I64, high: I64, words: I64) -> None:
        """Words over the links that leave the PEs from ``low`` to before ``high``."""
        carried = words[runs.link[chosen]]
        carrying = np.flatnonzero(carried)
        flat, across = self._change[direction].reshape(-1), self._change.shape[2]
        chosen, carried = chosen[carrying], carried[carrying]
        for place, change in ((low[carrying], carried), (high[carrying], -carried)):
            row, col = (runs.row[chosen], place) if direction in (EAST, WEST) else (place, runs.col[chosen])
            np.add.at(flat, (row - self._corner[0]) * across + col - self._corner[1], change)

    def total(self) -> I64:
        """int64 ``[4, rows, cols]``: the words on each link."""
        rows, cols = self._shape
        total = self._change[:, :rows, :cols].copy()
        for direction in range(4):
            total[direction].cumsum(axis=1 if direction in (EAST, WEST) else 0, out=total[direction])
        return total
