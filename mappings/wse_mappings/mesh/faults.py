"""Dead PEs and links of a fabric, the PEs that are still connected, and shortest routes.

A dead PE has a dead router. A link is a pair of wires, one in each direction, which fail together.
It is identified by the PE on its west or north side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class FabricFaults:
    """Dead PEs and links of one wafer.

    Attributes:
        dead: bool ``[rows, cols]``: dead PEs.
        east: bool ``[rows, cols]``: dead links from a PE to its east neighbour; False in the last
            column.
        south: bool ``[rows, cols]``: dead links from a PE to its south neighbour; False in the last
            row.
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
        """Return the faults of the first ``rows`` rows and ``cols`` columns of the fabric."""
        east, south = self.east[:rows, :cols].copy(), self.south[:rows, :cols].copy()
        east[:, -1:], south[-1:] = False, False
        return FabricFaults(dead=self.dead[:rows, :cols], east=east, south=south)

    @cached_property
    def unreachable(self) -> Bools:
        """Mask of PEs that are dead or cut off from the largest part, bool ``[rows, cols]``.

        1. Divide each row into runs of live PEs that are connected to each other.
        2. Connect runs in adjacent rows through the working links between them.
        3. Find the largest connected part. The PEs in all other parts are unreachable.
        """
        import networkx as nx  # only meshes with defects need it, and its import takes a quarter of a cached answer

        live = ~self.dead
        if not live.any():
            return self.dead
        # 1. Runs of live PEs.
        starts_run = live.copy()
        starts_run[:, 1:] &= self.dead[:, :-1] | self.east[:, :-1]
        run_of_pe = starts_run.ravel().cumsum().reshape(live.shape) - 1  # valid for live PEs
        count = int(run_of_pe[-1, -1]) + 1
        # 2. Links between runs.
        has_link_down = live[:-1] & live[1:] & ~self.south[:-1]
        pairs = run_of_pe[:-1][has_link_down] * count + run_of_pe[1:][has_link_down]
        pairs = np.unique(pairs[np.append(True, pairs[1:] != pairs[:-1])]) if len(pairs) else pairs
        graph = nx.Graph()
        graph.add_nodes_from(range(count))
        graph.add_edges_from(zip((pairs // count).tolist(), (pairs % count).tolist(), strict=True))
        # 3. The largest connected part.
        sizes = np.bincount(run_of_pe[live], minlength=count)
        parts = [np.array(sorted(part)) for part in nx.connected_components(graph)]
        largest_part = max(parts, key=lambda part: (int(sizes[part].sum()), -int(part[0])))
        is_connected = np.zeros(count, bool)
        is_connected[largest_part] = True
        return np.asarray(~live | ~is_connected[np.maximum(run_of_pe, 0)])

    def faults_before(self) -> tuple[I64, I64]:
        """Count, for each PE, the broken hops before it in its row and in its column.

        A hop is broken if its link is dead or the PE at either end is unusable. Two PEs in a row
        (or column) are connected by a straight path if their counts are equal, and only then.

        Returns:
            Two arrays, int64 ``[rows, cols]``, for rows and for columns.
        """
        dead = self.unreachable
        along_row, along_column = np.zeros(dead.shape, np.int64), np.zeros(dead.shape, np.int64)
        along_row[:, 1:] = (dead[:, 1:] | dead[:, :-1] | self.east[:, :-1]).cumsum(axis=1)
        along_column[1:] = (dead[1:] | dead[:-1] | self.south[:-1]).cumsum(axis=0)
        return along_row, along_column

    def neighbours(self, row: int, col: int) -> list[tuple[int, int]]:
        """Return the usable PEs that a PE reaches over a working link: north, east, south, west."""
        rows, cols = self.shape
        dead, east, south = self.unreachable, self.east, self.south
        neighbours = []
        if row > 0 and not (dead[row - 1, col] or south[row - 1, col]):
            neighbours.append((row - 1, col))
        if col + 1 < cols and not (dead[row, col + 1] or east[row, col]):
            neighbours.append((row, col + 1))
        if row + 1 < rows and not (dead[row + 1, col] or south[row, col]):
            neighbours.append((row + 1, col))
        if col > 0 and not (dead[row, col - 1] or east[row, col - 1]):
            neighbours.append((row, col - 1))
        return neighbours


Place = tuple[int, int]


def shortest_route(faults: FabricFaults, start: Place, end: Place) -> list[Place]:
    """Return the PEs of a shortest path around dead PEs and links, including both ends.

    The result is deterministic. Both ends must be in the connected part of the fabric. The search
    is A* with the intact-mesh distance as the lower bound (Hart, Nilsson and Raphael, 1968).

    Raises:
        ValueError: There is no route.
    """
    previous_place: dict[Place, Place | None] = {start: None}
    hops = {start: 0}
    frontier = [(_distance(start, end), 0, start)]
    order = 0
    while frontier:
        _, _, place = heappop(frontier)
        if place == end:
            return _traced_back(previous_place, end)
        for neighbour in faults.neighbours(*place):
            if hops[place] + 1 < hops.get(neighbour, 1 << 30):
                hops[neighbour], previous_place[neighbour] = hops[place] + 1, place
                order -= 1  # on a tie, continue with the newest place, which is usually nearest to the end
                heappush(frontier, (hops[neighbour] + _distance(neighbour, end), order, neighbour))
    raise ValueError(f"no route from PE {start} to PE {end} around the dead PEs and links")


def _distance(start: Place, end: Place) -> int:
    """Return the number of hops between two PEs on an intact mesh."""
    return abs(start[0] - end[0]) + abs(start[1] - end[1])


def _traced_back(previous_place: dict[Place, Place | None], end: Place) -> list[Place]:
    """Return the path to ``end``, given the predecessor of each visited PE."""
    route, place = [end], previous_place[end]
    while place is not None:
        route.append(place)
        place = previous_place[place]
    return route[::-1]
