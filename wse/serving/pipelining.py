"""Closed forms for the time of tokens, and of chunks of prompts, in a pipeline of stages.

Every server serves streams in the order in which they arrive. The next token of a stream depends on
the previous one, so one pass of each stream is in transit at a time.

If every server is visited once, times are constant and queues are unlimited, such a system is a
timed event graph. Its cycle time is the largest mean weight of any circuit (Baccelli, Cohen, Olsder
and Quadrat, Synchronization and Linearity, Wiley 1992, chapter 3). There are two kinds of circuits:
the circuit of one server, which has one token, and the whole loop, which has all streams. The
larger value is exact. If passes start at this distance, streams wait only at the first server. If a
route returns to a server, the value is a lower bound.

`wse.serving.events` simulates the same routes event by event.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np

from wse.serving.route import PassRoute, Visit, alone_cycles, busiest_server, busy_cycles, route_counts, visits_once


@dataclass(frozen=True, slots=True)
class CycleEstimate:
    """A number of cycles that is either exact or a lower bound.

    Attributes:
        cycles: Number of cycles.
        exact: Whether the number is exact. If not, it is a lower bound.
    """

    cycles: float
    exact: bool


def cycles_between_passes(route: PassRoute, streams: int) -> CycleEstimate:
    """Return the mean number of cycles between the ends of consecutive passes in a pipeline.

    A stream is a batch of users whose passes run one after another. Several streams are in flight
    concurrently, and consecutive passes may belong to different streams. In the steady state, the
    result is max(T / M, s). T is the duration of a pass that runs alone, M the number of streams,
    and s the work of the busiest server (a stage or a link for which passes queue).

    Args:
        route: Route of a pass, the same for all.
        streams: Number of streams, at least 1.
    """
    cycles = max(alone_cycles(route) / streams, busiest_server(route)[1])
    return CycleEstimate(cycles, exact=streams == 1 or visits_once(route))


def streams_to_saturate(route: PassRoute) -> int:
    """Return the minimum number of streams that can keep the busiest server constantly busy.

    A stream is a batch of users, and a server is a stage or a link of a pipeline. The result is the
    duration of a pass alone divided by the busiest server's work on it, rounded up.
    """
    work = busiest_server(route)[1]
    return max(1, math.ceil(alone_cycles(route) / work)) if work else 1


def run_cycles(route: PassRoute, streams: int, passes: int) -> CycleEstimate:
    """Return how many cycles M streams need for a number of passes each, if all start together.

    A stream is a batch of users whose passes run one after another. The time to fill and drain the
    pipeline is included. If a pass visits every server (stage or link) only once, the exact result
    is T + (M - 1) s + (passes - 1) max(T, M s). Otherwise the result is a lower bound, which is
    exact for a single stream.

    Derivation: a pass waits for the previous pass of its stream, which takes T cycles, and at each
    server for the pass ahead of it, which takes at most s cycles. The run takes as long as the
    longest chain of such waits. A chain with n waits of T cycles skips n M passes and waits s
    cycles for each other pass. Its length is linear in n and hence largest for n = 0 or the maximum
    n.

    Args:
        route: Route of a pass, which needs T cycles alone and s cycles at the busiest server.
        streams: Number of streams M.
        passes: Number of passes per stream.
    """
    pass_cycles, busiest_cycles = alone_cycles(route), busiest_server(route)[1]
    if visits_once(route):
        return CycleEstimate(
            pass_cycles + (streams - 1) * busiest_cycles + (passes - 1) * max(pass_cycles, streams * busiest_cycles),
            exact=True,
        )
    return CycleEstimate(max(passes * pass_cycles, streams * passes * busiest_cycles), exact=streams == 1)


def idle_fraction(routes: Sequence[PassRoute], servers: Collection[int], cycles: float) -> float:
    """Return the mean fraction of the time that the given servers are idle.

    A server is a pipeline stage or a link. The time is the total duration of some passes, from an
    empty pipeline to an empty pipeline. For M passes over S identical stages, the fraction is (S -
    1) / (M + S - 1) (Huang et al., GPipe, NeurIPS 2019, section 2.3).

    Args:
        routes: Route of each pass: the servers that it visits.
        servers: Indices of the servers.
        cycles: Total duration of the passes.
    """
    work = busy_cycles(routes)
    return 1 - sum(work.get(server, 0.0) for server in servers) / (len(servers) * cycles)


def chunks_cycles(routes: Sequence[PassRoute]) -> CycleEstimate:
    """Return how many cycles a pipeline needs for a prompt that is divided into chunks.

    Cycles are counted from the start of the first chunk to the end of the last. Each chunk enters
    the next server (pipeline stage or link) as soon as it can, but not before the previous chunk
    has left it, because it needs the keys and values of that chunk.

    The result is exact if every server works on the chunks in order. This is the case if only the
    last chunk visits a server twice. A visit then ends at max(arrival, end of the previous chunk's
    visit) + busy time, which is computed for all chunks at once. In all other cases, the result is
    a lower bound: the largest of the duration of the longest chunk, `_last_prompt_bound` and
    ``_server_bounds``.

    Args:
        routes: Route of each chunk, in order.
    """
    if not _in_line(routes):
        bounds = _last_prompt_bound(routes), *_server_bounds(routes)
        return CycleEstimate(max(*map(alone_cycles, route_counts(routes)), *bounds), exact=False)
    objects = {id(route): route for route in routes}
    index_of_object = {number: index for index, number in enumerate(objects)}
    route_indices = np.array([index_of_object[id(route)] for route in routes])
    times, end = np.zeros(len(routes)), 0.0
    for visits in zip_longest(*objects.values()):  # the visits to one server
        is_present = np.array([visit is not None for visit in visits])[route_indices]  # chunks only get longer
        _, busy, latency = np.array([visit or Visit(-1, 0.0) for visit in visits]).T[:, route_indices[is_present]]
        earlier_work = busy.cumsum() - busy
        times = np.maximum.accumulate(times[-len(busy) :] - earlier_work) + earlier_work + busy + latency
        end = max(end, float(times.max()))
    return CycleEstimate(end, exact=True)


def _last_prompt_bound(routes: Sequence[PassRoute]) -> float:
    """Return a lower bound on the cycles until the chunks of several prompts, read in order, end.

    The last prompt reaches a server (pipeline stage or link) after that server has worked on all
    earlier prompts. From there on, its chunks are in line, so their time is exact. The server is
    the one with the largest sum of its work and the time of the slowest chunk from there on. The
    bound is 0 unless all chunks visit this server, and the same other servers before it.

    Args:
        routes: Route of each chunk, in order. A prompt ends where chunks are not in line.
    """
    start = next((start for start in range(len(routes) - 1, 0, -1) if not _in_line(routes[start - 1 : start + 1])), 0)
    work, slowest_route = busy_cycles(routes), max(route_counts(routes[start:]), key=alone_cycles)
    sums: dict[int, float] = {}  # by server; a chunk may return to it
    for position, visit in enumerate(slowest_route):
        sums.setdefault(visit.server, work[visit.server] + alone_cycles(slowest_route[position:]))
    visits_before = [visit.server for visit in slowest_route].index(max(sums, key=sums.__getitem__))
    distinct_routes = route_counts(routes)
    if len({tuple(visit.server for visit in route[: visits_before + 1]) for route in distinct_routes}) > 1:
        return 0.0
    head_cycles = min(alone_cycles(route[:visits_before]) for route in distinct_routes)
    earlier_work = sum(route[visits_before].busy_cycles for route in routes[:start])
    tails = {id(route): route[visits_before:] for route in routes[start:]}  # equal chunks stay one object
    return head_cycles + earlier_work + chunks_cycles([tails[id(route)] for route in routes[start:]]).cycles


def _server_bounds(routes: Sequence[PassRoute]) -> Iterator[float]:
    """Yield, for each server, a lower bound on the cycles until the passes on all routes end.

    A server is a pipeline stage or a link. The bound is the sum of three numbers:

    1. the minimum time from the start of a route to its first visit to the server
    2. the total work of the server
    3. the minimum time from the last visit to the server to the end of a route
    """
    head_cycles: dict[int, float] = {}
    tail_cycles: dict[int, float] = {}
    for route in route_counts(routes):
        total_cycles, elapsed_cycles = alone_cycles(route), 0.0
        head_of_server: dict[int, float] = {}
        tail_of_server: dict[int, float] = {}
        for visit in route:
            head_of_server.setdefault(visit.server, elapsed_cycles)
            tail_of_server[visit.server] = total_cycles - elapsed_cycles - visit.busy_cycles
            elapsed_cycles += visit.busy_cycles + visit.latency_cycles
        for shortest_paths, paths in ((head_cycles, head_of_server), (tail_cycles, tail_of_server)):
            shortest_paths |= {s: min(cycles, shortest_paths.get(s, cycles)) for s, cycles in paths.items()}
    for server, work in busy_cycles(routes).items():
        yield head_cycles[server] + work + tail_cycles[server]


def _in_line(routes: Sequence[PassRoute]) -> bool:
    """Return whether every server (pipeline stage or link) works on a prompt's chunks in order.

    This is the case if the route of each chunk begins with the whole route of the previous chunk,
    and if only the last chunk visits a server more than once.
    """
    servers = {route: [visit.server for visit in route] for route in route_counts(routes)}

    def follows(b: PassRoute, a: PassRoute) -> bool:
        """Return whether ``a`` visits no server twice and ``b`` starts with the visits of ``a``."""
        return servers[b][: len(a)] == servers[a] and len(set(servers[a])) == len(a)

    pairs = {(id(a), id(b)): (a, b) for a, b in pairwise(routes)}
    return all(follows(b, a) for a, b in pairs.values())
