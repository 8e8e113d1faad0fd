"""Colouring: the choice of colours for the routes of one stage, and of routes that share colours.

A route is the configuration of some colours for a transfer, in the routers of all PEs on its lines.
A wafer has few colours, and setting up a colour for another route at run time (a route rewrite)
costs cycles. Routes that run concurrently must not share a colour.

Routes of *token phases* (decode and verification) have priority, because they run once per
generated token. As many of them as possible get colours that no other route uses. The rest share a
*pool*, which is as small as possible. Then single routes are moved to other colours as long as this
reduces the number of route rewrites per token. Routes that only prompts need may share any colours,
preferably the least used ones. A set of routes is stored as an integer whose bit i represents route
i.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from wse.compiler.passes.route_demand import RouteDemand, Visits, bit_set


class Colouring(NamedTuple):
    """An assignment of router colours to the routes of a stage.

    A route is the configuration of routers for a transfer, and needs one or more consecutive
    colours. If two routes share a colour, a route must be configured again (rewritten) at run time
    whenever the other route has been used since its last use.

    Attributes:
        first: First colour of each route.
        own: Routes that are never rewritten during decode and verification, as a bit set.
        conflicts: For each route, the routes that share a colour with it, as a bit set.
    """

    first: tuple[int, ...]
    own: int
    conflicts: tuple[int, ...]


def colouring(demand: RouteDemand, available: int) -> Colouring | None:
    """Choose router colours for all routes of a stage.

    A route is the configuration of routers for a transfer. If there are not enough colours for all
    routes, some routes share a pool of colours and are rewritten at run time. Token phases are
    decode and verification.

    1. Assign colours to the routes of token phases (`_colours_of_tokens`), with the smallest
       possible pool. Then move routes to other colours while this reduces the number of route
       rewrites (`_move_routes`).
    2. Assign the least used colours to the routes that only prompts need
       (`_with_least_used_colours`). If this fails, try again without the moves of the first step.

    If no pool size succeeds, repeat both steps, treating all routes as routes of token phases.

    Args:
        demand: The routes, with the number of colours and uses of each.
        available: Number of colours that the wafer has for them.

    Returns:
        The colours, or None if routes that are used concurrently need more colours than are
        available.
    """
    all_routes = range(len(demand.widths))
    for routes, max_width in demand.routes_by_phase():
        widths = sum(demand.widths[route] for route in routes)
        for pool in range(0 if widths <= available else max_width, available + 1):
            first = _colours_of_tokens(demand, routes, available, pool)  # 1
            if first is None:
                continue
            for first_colours in (_move_routes(demand, routes, available, first) if pool else first, first):
                all_colours = _with_least_used_colours(demand, all_routes, 0, available, first_colours)  # 2
                if all_colours is not None:
                    conflicts = demand.conflicts(all_colours)
                    first_by_route = tuple(all_colours[route] for route in all_routes)
                    outside_pool = bit_set(
                        route for route in routes if first[route] + demand.widths[route] <= available - pool
                    )
                    own_routes = _own_routes(routes, conflicts) if demand.tokens else outside_pool
                    return Colouring(first_by_route, own_routes, tuple(conflicts))
    return None


def rewrite_count(visits: Visits, set_routes: int, conflicts: Sequence[int]) -> tuple[int, int]:
    """Count the route rewrites caused by a sequence of route uses.

    A route must be rewritten when it is used, unless it is still set up from an earlier use. A
    route that is set up removes all routes that share a colour with it.

    Args:
        visits: (route, number of equal uses) pairs, in the order in which steps use the routes. If
            the route is not set up, every one of these uses counts as a rewrite.
        set_routes: Routes that are set up before the first use, as a bit set.
        conflicts: For each route, the routes that share a colour with it, as a bit set.

    Returns:
        The number of rewrites, and the routes that are set up after the last use as a bit set.
    """
    count = 0
    for route, times in visits:
        if not set_routes >> route & 1:
            set_routes = set_routes & ~conflicts[route] | 1 << route
            count += times
    return count, set_routes


def _own_routes(routes: Sequence[int], conflicts: Sequence[int]) -> int:
    """Return the routes that are never rewritten during decode and verification, as a bit set.

    A route is rewritten when its colours were last used by another route. Two kinds of routes are
    never rewritten: routes that share no colour, and routes of decode and verification that share
    colours only with routes of prompts.

    Args:
        routes: Indices of the routes of decode and verification.
        conflicts: For each route, the routes that share a colour with it, as a bit set.
    """
    without_conflicts, bits = bit_set(route for route, sharers in enumerate(conflicts) if not sharers), bit_set(routes)
    return without_conflicts | bit_set(route for route in routes if not conflicts[route] & bits)


def _colours_of_tokens(demand: RouteDemand, routes: Sequence[int], available: int, pool: int) -> dict[int, int] | None:
    """Assign colours to routes: some get colours of their own, and the others share a pool.

    A route is the configuration of routers for a transfer. A colour is one of the few virtual
    channels of each router. Routes that share colours must be configured again at run time.

    1. The most frequently used routes get colours of their own, outside the pool.
    2. The remaining routes, most used first, get colours of the pool (`_with_least_used_colours`).

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes to colour, most used first.
        available: Number of colours.
        pool: Number of shared colours, which are the last of the available colours.

    Returns:
        The first colour of each route, keyed by route index; None if the pool is too small.
    """
    first: dict[int, int] = {}
    start = 0
    for route in routes:  # 1
        if start + demand.widths[route] <= available - pool:
            first[route] = start
            start += demand.widths[route]
    return _with_least_used_colours(demand, routes, start, available, first)  # 2


def _with_least_used_colours(
    demand: RouteDemand, routes: Sequence[int], start: int, end: int, placed_routes: dict[int, int]
) -> dict[int, int] | None:
    """Assign colours to those of the given routes that have none yet, in the given order.

    A route is the configuration of routers for a transfer. A colour is one of the few virtual
    channels of each router. Each route gets colours that no concurrently used route has. Among
    these, the colours whose other routes are used least are preferred.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes.
        start, end: Range of colours that the routes may get, ``end`` exclusive.
        placed_routes: First colours of the routes that already have colours, keyed by route index.

    Returns:
        The first colour of each route, keyed by route index; None if no colours are free for some
        route.
    """
    first = dict(placed_routes)
    for route in routes:
        if route in first:
            continue
        free = demand.free_colours(route, start, end, first)
        if not free:
            return None
        first[route] = min(free, key=partial(demand.contention, route, first))
    return first


def _move_routes(
    demand: RouteDemand, routes: Sequence[int], available: int, placed_routes: dict[int, int]
) -> dict[int, int]:
    """Move routes one by one to other colours while this reduces the route rewrites per token.

    A route is the configuration of routers for a transfer. It must be configured again (rewritten)
    if another route has used its colours since its last use.

    This local search ends when no single move helps. The number of rewrites depends only on which
    routes share colours. A colour is therefore not tried if there is another colour that the route
    would share with the same routes, or with only some of them.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes to move.
        available: Number of colours.
        placed_routes: First colour of each route at the start.

    Returns:
        The first colour of each route afterwards.
    """
    first, conflicts = dict(placed_routes), demand.conflicts(placed_routes)
    fewest_rewrites, previous_rewrites = _rewrites_of_tokens(demand, routes, conflicts), -1
    while fewest_rewrites not in (0, previous_rewrites):
        previous_rewrites = fewest_rewrites
        for route in routes:
            other_colours = {other_route: at for other_route, at in first.items() if other_route != route}
            places: dict[int, int] = {}
            for at, sharers in demand.sharers_by_colour(route, 0, available, other_colours):
                if not sharers & demand.simultaneous_routes[route]:
                    places.setdefault(sharers, at)
            for sharing, at in places.items():
                if any(
                    fewer_sharers & sharing == fewer_sharers for fewer_sharers in places if fewer_sharers != sharing
                ):
                    continue
                new_conflicts = [
                    sharing if other_route == route else bits & ~(1 << route) | (sharing >> other_route & 1) << route
                    for other_route, bits in enumerate(conflicts)
                ]
                count = _rewrites_of_tokens(demand, routes, new_conflicts)
                if count < fewest_rewrites:
                    first, conflicts, fewest_rewrites = {**first, route: at}, new_conflicts, count
    return first


def _rewrites_of_tokens(demand: RouteDemand, routes: Sequence[int], conflicts: Sequence[int]) -> int:
    """Return how often routes are rewritten if each token phase (decode, verification) runs once.

    A route is rewritten when its colours were last used by another route. A block of steps may run
    several times in succession. The first run may find the routes of other blocks set up, so its
    rewrites are counted separately. All later runs of the block need the same number of rewrites.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes of token phases.
        conflicts: For each route, the routes that share a colour with it, as a bit set.
    """
    own_routes, total = _own_routes(routes, conflicts), 0
    for phase in demand.tokens:
        set_routes = own_routes
        for visits, times in phase:
            count, set_routes = rewrite_count(visits, set_routes, conflicts)
            total += count
            if times > 1:
                count, set_routes = rewrite_count(visits, set_routes, conflicts)
                total += count * (times - 1)
    return total
