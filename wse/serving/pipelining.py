"""Tokens and chunks of prompts in transit through stages: closed forms.

Streams take turns at every server in the order in which they come. A stream's next token follows from the one before,
so one pass of each is in transit at a time. With one visit to each server, constant times and room for all that wait,
such a system is a timed event graph. Its cycle time is the largest mean weight of a circuit (Baccelli, Cohen, Olsder
and Quadrat, Synchronization and Linearity, Wiley 1992, chapter 3): of a server's own, which holds one token, or of the
whole loop, which holds all streams. The larger of the two is exact, and if passes begin as far apart no stream waits
anywhere except for the first server. Where a route comes back to a server the same value is a bound.
`wse.serving.events` goes through the same routes event by event.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np

from wse.serving.route import Route, Visit, alone_cycles, busy_cycles, slowest, visits_once


@dataclass(frozen=True, slots=True)
class CycleEstimate:
    """Cycles, and whether they are exact. They are a lower bound where they are not."""

    cycles: float
    exact: bool


def cycles_between_passes(route: Route, streams: int) -> CycleEstimate:
    """Return the cycles from one pass to the next, of any stream, in the steady state: max(T / M, the slowest server).

    Args:
        route: Of one pass, the same for all; T is how long it takes alone.
        streams: M, at least 1.
    """
    cycles = max(alone_cycles(route) / streams, slowest(route)[1])
    return CycleEstimate(cycles, exact=streams == 1 or visits_once(route))


def streams_to_saturate(route: Route) -> int:
    """The fewest streams that keep the slowest server busy all the time, at best: T over its cycles, rounded up."""
    work = slowest(route)[1]
    return max(1, math.ceil(alone_cycles(route) / work)) if work else 1


def run_cycles(route: Route, streams: int, passes: int) -> CycleEstimate:
    """Cycles of a finite run, with filling and draining: ``passes`` of each stream, all of which begin at once.

    In the event graph the last pass ends after the heaviest path to it. Any path goes so often round the whole loop,
    which skips ``streams`` passes, and otherwise from pass to pass at servers, of which the slowest is the heaviest.
    Weight is linear in how often, and largest at an end of the range: T + (M - 1) s + (passes - 1) max(T, M s).
    """
    alone, work = alone_cycles(route), slowest(route)[1]
    if visits_once(route):
        return CycleEstimate(alone + (streams - 1) * work + (passes - 1) * max(alone, streams * work), exact=True)
    return CycleEstimate(max(passes * alone, streams * passes * work), exact=streams == 1)


def idle_fraction(routes: Sequence[Route], servers: Collection[int], cycles: float) -> float:
    """Share of the time of ``servers`` in which they do nothing, when they execute the routes in so many cycles.

    For M passes over S equal stages, from empty to empty, this is (S - 1) / (M + S - 1) (Huang et al., GPipe, NeurIPS
    2019, section 2.3).
    """
    work = busy_cycles(routes)
    return 1 - sum(work.get(server, 0.0) for server in servers) / (len(servers) * cycles)


def chunks_cycles(routes: Sequence[Route]) -> CycleEstimate:
    """Return the cycles from the begin of the first chunk until all are over, each in the next stage as soon as it can.

    A chunk begins a visit when the one before has ended the same visit, whose keys and values it needs. Where every
    server works on the chunks in order, which holds if only the last comes back to a server, the recurrence over
    chunks and visits is exact: a visit ends at max(come, end of the one before) + busy, which is a running maximum once
    the work of the chunks before is taken off. Otherwise the bound is the longest chunk, and the work of the busiest
    server.
    """
    if not _in_line(routes):
        return CycleEstimate(max(*map(alone_cycles, routes), *busy_cycles(routes).values()), exact=False)
    number: dict[Route, int] = {}
    which = np.array([number.setdefault(route, len(number)) for route in routes])
    now, over = np.zeros(len(routes)), 0.0
    for visits in zip_longest(*number):  # those of one server
        present = np.array([visit is not None for visit in visits])[which]  # chunks only get longer
        _, busy, latency = np.array([visit or Visit(-1, 0.0) for visit in visits]).T[:, which[present]]
        before = busy.cumsum() - busy
        now = np.maximum.accumulate(now[-len(busy) :] - before) + before + busy + latency
        over = max(over, float(now.max()))
    return CycleEstimate(over, exact=True)


def _in_line(routes: Sequence[Route]) -> bool:
    """Return whether each chunk begins with the visits of the one before, and only the last visits a server twice."""
    servers = {route: [visit.server for visit in route] for route in set(routes)}

    def follows(b: Route, a: Route) -> bool:
        return servers[b][: len(a)] == servers[a] and len(set(servers[a])) == len(a)

    return all(follows(b, a) for a, b in set(pairwise(routes)))
