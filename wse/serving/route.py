"""Routes: the path of a token, or of a chunk of a prompt, through the servers of a machine.

A server is a resource that does one thing at a time: the PEs of a region, the links between two
regions, a wafer's link to other wafers, or the host's link. A *route* is a sequence of visits to
servers. Each visit keeps its server busy. A latency may follow, in which the server works on other
tokens: the transit of a word, the latency of a wafer link, or the round trip to the host.

Times are in cycles here, but any unit works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Visit(NamedTuple):
    """One visit of a token to a server: a stage or a link that tokens use one after another.

    Attributes:
        server: Index of the server.
        busy_cycles: Cycles during which the visit keeps the server busy.
        latency_cycles: Cycles from the end of the work until the next visit can start.
    """

    server: int
    busy_cycles: float
    latency_cycles: float = 0.0


PassRoute = tuple[Visit, ...]


def alone_cycles(route: PassRoute) -> float:
    """Return how many cycles a route takes if nothing else is in flight.

    Cycles are counted from the start of the first visit to the end of the last latency.
    """
    return sum(visit.busy_cycles + visit.latency_cycles for visit in route)


def scaled(route: PassRoute, factor: float) -> PassRoute:
    """Return a route whose visits take ``factor`` times as long."""
    return tuple(Visit(visit.server, factor * visit.busy_cycles, factor * visit.latency_cycles) for visit in route)


def route_counts(routes: Sequence[PassRoute]) -> dict[PassRoute, int]:
    """Count how often each distinct route occurs, in the order of the first occurrences.

    Identical routes are often the same object, so objects are counted first. This is faster,
    because routes may be long and take time to hash.
    """
    objects = {id(route): route for route in routes}
    counts: Counter[PassRoute] = Counter()
    for number, times in Counter(map(id, routes)).items():
        counts[objects[number]] += times
    return counts


def busy_cycles(routes: Sequence[PassRoute]) -> dict[int, float]:
    """Return the total cycles that each server works on several routes, keyed by server index.

    A server is a resource that works on one token or chunk at a time, such as a pipeline stage.
    """
    cycles: dict[int, float] = {}
    for route, times in route_counts(routes).items():
        for visit in route:
            cycles[visit.server] = cycles.get(visit.server, 0.0) + times * visit.busy_cycles
    return cycles


def busiest_server(route: PassRoute) -> tuple[int, float]:
    """Return the index of the server with the most busy cycles on a route, and those cycles.

    A server is a resource that works on one token or chunk at a time, such as a pipeline stage or a
    link. If several servers have the same number of busy cycles, the first is returned.
    """
    return max(busy_cycles([route]).items(), key=lambda item: item[1])


def visits_once(route: PassRoute) -> bool:
    """Return whether a route visits every server (pipeline stage or link) at most once.

    In this case, tokens never overtake each other.
    """
    return max(Counter(visit.server for visit in route).values()) == 1


def as_loop(route: PassRoute) -> PassRoute:
    """Return the route of a pass that the same users repeat, as in decoding.

    A route lists the servers (pipeline stages and links) that a pass visits. Often, the last visit
    of a pass and the first visit of the next pass are to the same server, which computes the id of
    a new token and then looks up its embedding. These two visits are merged into one, unless there
    is a latency between them.
    """
    first, last = route[0], route[-1]
    if len(route) == 1 or first.server != last.server or last.latency_cycles:
        return route
    return (first._replace(busy_cycles=last.busy_cycles + first.busy_cycles), *route[1:-1])
