"""The way of one token, or of one chunk of a prompt, through what serves it.

A server does one thing at a time: the PEs of a region, the links between two regions, a wafer's link to others, the
host's. A *route* is the visits to servers in order. Each keeps its server busy; then comes a latency in which the
server works for others: a word in transit, the latency of a wafer link, the host's round trip.

Times are cycles here, but any one unit does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Visit(NamedTuple):
    """A visit of a token to a server: its number, how long it is busy, the latency until the next visit begins."""

    server: int
    busy_cycles: float
    latency_cycles: float = 0.0


Route = tuple[Visit, ...]


def alone_cycles(route: Route) -> float:
    """Cycles from the begin of the first visit to the end of the last latency, where nothing else is in transit."""
    return sum(visit.busy_cycles + visit.latency_cycles for visit in route)


def busy_cycles(routes: Sequence[Route]) -> dict[int, float]:
    """Return the cycles that each server works, by its number."""
    cycles: dict[int, float] = {}
    for route, times in Counter(routes).items():
        for visit in route:
            cycles[visit.server] = cycles.get(visit.server, 0.0) + times * visit.busy_cycles
    return cycles


def slowest(route: Route) -> tuple[int, float]:
    """Return the server that works longest for one pass, and how long; of equal ones the first."""
    return max(busy_cycles([route]).items(), key=lambda item: item[1])


def visits_once(route: Route) -> bool:
    """Return whether no server is visited twice. Tokens then never overtake each other."""
    return max(Counter(visit.server for visit in route).values()) == 1


def as_loop(route: Route) -> Route:
    """Return the route of a stream that goes through it again and again.

    Where it ends at the server that it begins at, with no latency between, the two visits are one: the server goes on
    with the same stream, from the next token's id to its embedding, before it takes another.
    """
    first, last = route[0], route[-1]
    if len(route) == 1 or first.server != last.server or last.latency_cycles:
        return route
    return (first._replace(busy_cycles=last.busy_cycles + first.busy_cycles), *route[1:-1])
