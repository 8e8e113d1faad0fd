"""A shortest way between two PEs of a fabric round what is broken."""

from __future__ import annotations

from heapq import heappop, heappush

from wse_mappings.mesh.broken import Broken

Place = tuple[int, int]


def shortest_way(broken: Broken, start: Place, end: Place) -> list[Place]:
    """The PEs of a shortest way, both ends among them; the same each time. Both are in its connected part.

    A* with the distance on a whole mesh as its bound (Hart, Nilsson and Raphael, 1968).

    Raises:
        ValueError: there is no way.
    """
    came: dict[Place, Place | None] = {start: None}
    hops = {start: 0}
    waiting = [(_apart(start, end), 0, start)]
    order = 0
    while waiting:
        _, _, place = heappop(waiting)
        if place == end:
            return _back(came, end)
        for neighbour in broken.neighbours(*place):
            if hops[place] + 1 < hops.get(neighbour, 1 << 30):
                hops[neighbour], came[neighbour] = hops[place] + 1, place
                order -= 1  # of those as near the latest first: it is the farthest on
                heappush(waiting, (hops[neighbour] + _apart(neighbour, end), order, neighbour))
    message = f"no way from PE {start} to PE {end}"
    raise ValueError(message)


def _apart(one: Place, other: Place) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _back(came: dict[Place, Place | None], end: Place) -> list[Place]:
    way, place = [end], came[end]
    while place is not None:
        way.append(place)
        place = came[place]
    return way[::-1]
