"""Colouring: choose colours for the routes of one stage, and which routes share colours.

Routes of generated tokens come first, in order of use. If they need more colours than there are,
the least used ones share a pool of colours, the smallest that suffices. Then single routes are
moved as long as this reduces the number of route rewrites per token. Routes of prompts may share
any colours, except with routes that are used at the same time. Colours that other routes of prompts
use least are preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

Visits = tuple[tuple[int, int], ...]
"""Routes in the order in which steps need them, each with the number of times."""


class RouteDemand(NamedTuple):
    """The routes of a stage, most frequently used first, and which are used together.

    "Phases of tokens" are the decode and verification phases, or the phases of prompts if there are
    no others.

    Attributes:
        widths: Number of colours of each route.
        is_in_tokens: Whether each route is used in phases of tokens.
        uses: How often each route is used. Only uses in prompts count if the routes of tokens come
            first.
        simultaneous_routes: For each route, the routes that are used at the same time, as a bit
            set.
        max_widths: Maximum number of colours that are needed at the same time, by routes of tokens
            and by all routes.
        tokens: For each phase of tokens, the visited routes of each block with the number of
            consecutive runs. Empty for the baseline schedule: routes then stay where they are
            placed first, and routes in the pool are rewritten in every run.
    """

    widths: tuple[int, ...]
    is_in_tokens: tuple[bool, ...]
    uses: tuple[int, ...]
    simultaneous_routes: tuple[int, ...]
    max_widths: tuple[int, int]
    tokens: tuple[tuple[tuple[Visits, int], ...], ...]

    def routes_by_phase(self) -> Iterator[tuple[list[int], int]]:
        """Yield the routes to colour with the maximum number of colours needed at the same time.

        The routes of tokens are yielded first, then all routes if there are others.
        """
        all_routes = list(range(len(self.widths)))
        token_routes = [route for route in all_routes if self.is_in_tokens[route]]
        yield token_routes, self.max_widths[0]
        if token_routes != all_routes:
            yield all_routes, self.max_widths[1]


class Colouring(NamedTuple):
    """The colours of the routes of a stage. Sets of routes are bit sets.

    Attributes:
        first: First colour of each route.
        own: Routes that keep their colours during all phases of tokens.
        conflicts: For each route, the routes that share a colour with it.
    """

    first: tuple[int, ...]
    own: int
    conflicts: tuple[int, ...]


def colouring(demand: RouteDemand, available: int) -> Colouring | None:
    """Choose colours for all routes of a stage.

    1. Routes of tokens get colours beside the smallest pool of shared colours that suffices. They
       are then moved as long as this reduces the number of rewrites.
    2. Routes of prompts get the colours that other routes use least. If that is impossible, all
       routes are treated as routes of tokens.

    Args:
        demand: The routes.
        available: Number of colours.

    Returns:
        The colours, or None if routes that are used at the same time need more colours than there
        are.
    """
    for routes, max_width in demand.routes_by_phase():
        widths = sum(demand.widths[route] for route in routes)
        for pool in range(0 if widths <= available else max_width, available + 1):
            first = _beside_pool(demand, routes, available, pool)  # 1
            if first is None:
                continue
            for first_colours in (_move_routes(demand, routes, available, first) if pool else first, first):
                with_prompts = _with_prompts(demand, available, first_colours)  # 2
                if with_prompts is not None:
                    conflicts = _conflicts(demand, with_prompts)
                    numbered = tuple(with_prompts[route] for route in range(len(demand.widths)))
                    outside_pool = _bits(
                        route for route in routes if first[route] + demand.widths[route] <= available - pool
                    )
                    own_routes = _own_routes(routes, conflicts) if demand.tokens else outside_pool
                    return Colouring(numbered, own_routes, tuple(conflicts))
    return None


def rewrite_count(visits: Visits, set_routes: int, conflicts: Sequence[int]) -> tuple[int, int]:
    """Count the route rewrites in a sequence of visits.

    Args:
        visits: Routes in the order in which steps need them, with counts.
        set_routes: Routes that are set before, as a bit set.
        conflicts: For each route, the routes that share a colour with it, as a bit set. Setting a
            route unsets these.

    Returns:
        The number of rewrites, and the routes that are set afterwards.
    """
    count = 0
    for route, times in visits:
        if not set_routes >> route & 1:
            set_routes = set_routes & ~conflicts[route] | 1 << route
            count += times
    return count, set_routes


def _own_routes(routes: Sequence[int], conflicts: Sequence[int]) -> int:
    """Return the routes that keep their colours, as a bit set.

    The set contains routes without conflicts, and those of ``routes`` that conflict with no other
    one of ``routes``.
    """
    without_conflicts, bits = _bits(route for route, sharers in enumerate(conflicts) if not sharers), _bits(routes)
    return without_conflicts | _bits(route for route in routes if not conflicts[route] & bits)


def _conflicts(demand: RouteDemand, first: dict[int, int]) -> list[int]:
    """Return for each route a bit set of the other routes with which it shares a colour.

    A route that has no colours yet has an empty set.
    """
    return [
        _bits(other_route for other_route in _sharers(demand, route, first[route], first) if other_route != route)
        if route in first
        else 0
        for route in range(len(demand.widths))
    ]


def _beside_pool(demand: RouteDemand, routes: Sequence[int], available: int, pool: int) -> dict[int, int] | None:
    """Return the first colour of each route, with a pool of shared colours of a given size.

    1. The most used routes get colours of their own, as many as the pool leaves.
    2. Each remaining route, most used first, gets colours of the pool. They are chosen such that no
       simultaneous route has them and the other routes with these colours are used least.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes to colour, most used first.
        available: Number of colours.
        pool: Number of colours that are shared.

    Returns:
        The first colours, or None if the pool is too small.
    """
    first: dict[int, int] = {}
    start = 0
    for route in routes:  # 1
        if start + demand.widths[route] <= available - pool:
            first[route] = start
            start += demand.widths[route]
    pool_colours: dict[int, int] = {}
    for route in (route for route in routes if route not in first):  # 2
        free = _free(demand, route, start, available, {**first, **pool_colours})
        if not free:
            return None
        pool_colours[route] = min(free, key=partial(_contention, demand, route, pool_colours))
    return {**first, **pool_colours}


def _with_prompts(demand: RouteDemand, available: int, placed_routes: dict[int, int]) -> dict[int, int] | None:
    """Add colours for the remaining routes, those of prompts, with the fewest conflicts.

    Return None if a route finds no colours.
    """
    first = dict(placed_routes)
    for route in range(len(demand.widths)):
        if route in first:
            continue
        free = _free(demand, route, 0, available, first)
        if not free:
            return None
        first[route] = min(free, key=partial(_contention, demand, route, first))
    return first


def _move_routes(
    demand: RouteDemand, routes: Sequence[int], available: int, placed_routes: dict[int, int]
) -> dict[int, int]:
    """Move routes one by one to the colours with the fewest route rewrites per token.

    The cost of a route depends on the routes that it shares colours with. Of all places with the
    same sharers, only the first is tried. A place whose sharers include all sharers of another
    place is not tried.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes to move.
        available: Number of colours.
        placed_routes: First colour of each route before.

    Returns:
        The first colour of each route afterwards.
    """
    first, conflicts = dict(placed_routes), _conflicts(demand, placed_routes)
    fewest_rewrites, previous_rewrites = _rewrites_of_tokens(demand, routes, conflicts), -1
    while fewest_rewrites not in (0, previous_rewrites):
        previous_rewrites = fewest_rewrites
        for route in routes:
            other_colours = {other_route: at for other_route, at in first.items() if other_route != route}
            places: dict[int, int] = {}
            for at in _free(demand, route, 0, available, other_colours):
                places.setdefault(_bits(_sharers(demand, route, at, other_colours)), at)
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
    """Return the number of route rewrites if each phase of generated tokens runs once.

    Args:
        demand: The routes of the stage.
        routes: Indices of the routes to which colours are being assigned.
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


def _bits(routes: Iterable[int]) -> int:
    """Return a set of routes as an integer whose bit i stands for route i."""
    return sum(1 << route for route in routes)


def _free(demand: RouteDemand, route: int, start: int, end: int, first: dict[int, int]) -> list[int]:
    """Return the possible first colours of a route that no simultaneous route uses.

    Args:
        demand: The routes of the stage.
        route: Index of the route.
        start, end: Range of colours to search, ``end`` exclusive.
        first: First colours of the routes that are placed already.
    """
    width, simultaneous = (
        demand.widths[route],
        {o: at for o, at in first.items() if demand.simultaneous_routes[route] >> o & 1},
    )
    return [at for at in range(start, end - width + 1) if not _sharers(demand, route, at, simultaneous)]


def _contention(demand: RouteDemand, route: int, first: dict[int, int], at: int) -> tuple[int, int]:
    """Return the total uses and the number of routes that would share a colour with a route.

    Args:
        demand: The routes of the stage.
        route: Index of the route.
        first: First colours of the other routes.
        at: First colour of the route.
    """
    sharers = _sharers(demand, route, at, first)
    return sum(demand.uses[other_route] for other_route in sharers), len(sharers)


def _sharers(demand: RouteDemand, route: int, at: int, first: dict[int, int]) -> list[int]:
    """Return the routes that would share a colour with a route whose first colour is ``at``."""
    end = at + demand.widths[route]
    return [
        other_route for other_route, start in first.items() if start < end and at < start + demand.widths[other_route]
    ]
