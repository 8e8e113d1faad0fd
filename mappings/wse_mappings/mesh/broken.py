"""Dead PEs and links of a fabric, and which of its PEs can still reach each other.

A dead PE has a dead router. A link is a pair of wires, one each way, which die together; it is named by the PE on its
west or north side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Broken:
    """What is dead on one wafer.

    Attributes:
        dead: bool ``[rows, cols]``: PEs.
        east: bool ``[rows, cols]``: links from a PE to its east neighbour; the last column has none.
        south: bool ``[rows, cols]``: links from a PE to its south neighbour; the last row has none.
    """

    dead: Bools
    east: Bools
    south: Bools

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the fabric."""
        rows, cols = self.dead.shape
        return rows, cols

    @property
    def links(self) -> int:
        """Dead links."""
        return int(self.east.sum()) + int(self.south.sum())

    def corner(self, rows: int, cols: int) -> Broken:
        """The first rows and columns of the fabric alone."""
        east, south = self.east[:rows, :cols].copy(), self.south[:rows, :cols].copy()
        east[:, -1:], south[-1:] = False, False
        return Broken(dead=self.dead[:rows, :cols], east=east, south=south)

    @cached_property
    def gone(self) -> Bools:
        """bool ``[rows, cols]``: PEs that are dead, or cut off from the largest connected part of the others."""
        live = ~self.dead
        if not live.any():
            return self.dead
        begins = live.copy()
        begins[:, 1:] &= self.dead[:, :-1] | self.east[:, :-1]
        stretch = begins.ravel().cumsum().reshape(live.shape) - 1  # of neighbours in a row, for those that live
        count = int(stretch[-1, -1]) + 1
        below = live[:-1] & live[1:] & ~self.south[:-1]
        pairs = stretch[:-1][below] * count + stretch[1:][below]
        pairs = np.unique(pairs[np.append(True, pairs[1:] != pairs[:-1])]) if len(pairs) else pairs
        graph = nx.Graph()
        graph.add_nodes_from(range(count))
        graph.add_edges_from(zip((pairs // count).tolist(), (pairs % count).tolist(), strict=True))
        sizes = np.bincount(stretch[live], minlength=count)
        parts = [np.array(sorted(part)) for part in nx.connected_components(graph)]
        largest = max(parts, key=lambda part: (int(sizes[part].sum()), -int(part[0])))
        kept = np.zeros(count, bool)
        kept[largest] = True
        return np.asarray(~live | ~kept[np.maximum(stretch, 0)])

    def broken_before(self) -> tuple[I64, I64]:
        """How many hops are broken before a place: int64 ``[rows, cols]`` each, along its row, and along its column.

        A hop is broken where its link or a PE at an end of it is.
        """
        gone = self.gone
        along_row, along_column = np.zeros(gone.shape, np.int64), np.zeros(gone.shape, np.int64)
        along_row[:, 1:] = (gone[:, 1:] | gone[:, :-1] | self.east[:, :-1]).cumsum(axis=1)
        along_column[1:] = (gone[1:] | gone[:-1] | self.south[:-1]).cumsum(axis=0)
        return along_row, along_column

    def neighbours(self, row: int, col: int) -> list[tuple[int, int]]:
        """The PEs that one has a working link to: north, east, south, west."""
        rows, cols = self.shape
        gone, east, south = self.gone, self.east, self.south
        found = []
        if row > 0 and not (gone[row - 1, col] or south[row - 1, col]):
            found.append((row - 1, col))
        if col + 1 < cols and not (gone[row, col + 1] or east[row, col]):
            found.append((row, col + 1))
        if row + 1 < rows and not (gone[row + 1, col] or south[row, col]):
            found.append((row + 1, col))
        if col > 0 and not (gone[row, col - 1] or east[row, col - 1]):
            found.append((row, col - 1))
        return found


def whole(rows: int, cols: int) -> Broken:
    """A fabric where nothing is."""
    nothing = np.zeros((rows, cols), bool)
    return Broken(dead=nothing, east=nothing, south=nothing)
