"""Dead PEs and links of a fabric, the PEs that can still reach each other, and shortest routes between them.

A dead PE has a dead router. A link is a pair of wires, one each way, which die together; it is named by the PE on its
west or north side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import networkx as nx
import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class FabricFaults:
    """The dead PEs and links of one wafer.

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
        """Number of dead links."""
        return int(self.east.sum()) + int(self.south.sum())

    def corner(self, rows: int, cols: int) -> FabricFaults:
        """Return the faults of the first rows and columns of the fabric."""
        east, south = self.east[:rows, :cols].copy(), self.south[:rows, :cols].copy()
        east[:, -1:], south[-1:] = False, False
        return FabricFaults(dead=self.dead[:rows, :cols], east=east, south=south)

    @cached_property
    def unreachable(self) -> Bools:
        """Return the PEs that are dead or cut off from the largest connected part, bool ``[rows, cols]``."""
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
        connected = np.zeros(count, bool)
        connected[largest] = True
        return np.asarray(~live | ~connected[np.maximum(stretch, 0)])

    def faults_before(self) -> tuple[I64, I64]:
        """Return the broken hops before each place, along its row and along its column, int64 ``[rows, cols]`` each.

        A hop is broken where its link or a PE at an end of it is.
        """
        dead = self.unreachable
        along_row, along_column = np.zeros(dead.shape, np.int64), np.zeros(dead.shape, np.int64)
        along_row[:, 1:] = (dead[:, 1:] | dead[:, :-1] | self.east[:, :-1]).cumsum(axis=1)
        along_column[1:] = (dead[1:] | dead[:-1] | self.south[:-1]).cumsum(axis=0)
        return along_row, along_column

    def neighbours(self, row: int, col: int) -> list[tuple[int, int]]:
        """Return the PEs to which a PE has a working link: north, east, south, west."""
        rows, cols = self.shape
        dead, east, south = self.unreachable, self.east, self.south
        near = []
        if row > 0 and not (dead[row - 1, col] or south[row - 1, col]):
            near.append((row - 1, col))
        if col + 1 < cols and not (dead[row, col + 1] or east[row, col]):
            near.append((row, col + 1))
        if row + 1 < rows and not (dead[row + 1, col] or south[row, col]):
            near.append((row + 1, col))
        if col > 0 and not (dead[row, col - 1] or east[row, col - 1]):
            near.append((row, col - 1))
        return near


Place = tuple[int, int]


def shortest_route(faults: FabricFaults, start: Place, end: Place) -> list[Place]:
    """Return the PEs of a shortest path around the faults, including both ends; deterministic.

    Both ends are in the connected part of the fabric.

    A* with the distance on a whole mesh as its bound (Hart, Nilsson and Raphael, 1968).

    Raises:
        ValueError: there is no route.
    """
    previous: dict[Place, Place | None] = {start: None}
    hops = {start: 0}
    frontier = [(_distance(start, end), 0, start)]
    order = 0
    while frontier:
        _, _, place = heappop(frontier)
        if place == end:
            return _traced_back(previous, end)
        for neighbour in faults.neighbours(*place):
            if hops[place] + 1 < hops.get(neighbour, 1 << 30):
                hops[neighbour], previous[neighbour] = hops[place] + 1, place
                order -= 1  # of those as near the latest first: it is the farthest on
                heappush(frontier, (hops[neighbour] + _distance(neighbour, end), order, neighbour))
    message = f"no way from PE {start} to PE {end}"
    raise ValueError(message)


def _distance(start: Place, end: Place) -> int:
    return abs(start[0] - end[0]) + abs(start[1] - end[1])


def _traced_back(previous: dict[Place, Place | None], end: Place) -> list[Place]:
    route, place = [end], previous[end]
    while place is not None:
        route.append(place)
        place = previous[place]
    return route[::-1]
