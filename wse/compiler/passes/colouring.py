"""Colours for the routes of a stage: which keep some of their own, and which take turns with which others.

Routes of generated tokens come first, those used most before others. Where they need more colours than there are, the
least used share a pool, the smallest for which there is room; then one route after another is moved wherever fewer
rewrites in a token are left. Routes of prompts alone get what is left by each other and by none that runs at the same
time, on colours of tokens as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

Visits = tuple[tuple[int, int], ...]
"""Routes in the order in which steps need them, each with how often it is needed so."""


class RouteDemand(NamedTuple):
    """The routes of a stage by index, the most used first, and which of them are in use at the same time.

    Attributes:
        widths: Colours that each needs.
        of_tokens: Whether each is used in generated tokens, or in passes over several of them; in prompts where there
            are no such phases.
        uses: How often each is used, in prompts alone where tokens' routes come first.
        beside: The routes that run at the same time as each, as bits.
        together: The most colours of routes that run at the same time, of tokens and of all.
        tokens: For each of these phases what it visits, and how often in a row; none where routes stay where the pool
            is, and those of the pool are rewritten in every run.
    """

    widths: tuple[int, ...]
    of_tokens: tuple[bool, ...]
    uses: tuple[int, ...]
    beside: tuple[int, ...]
    together: tuple[int, int]
    tokens: tuple[tuple[tuple[Visits, int], ...], ...]

    def of_phases(self) -> Iterator[tuple[list[int], int]]:
        """The routes to colour, with those that run at the same time: first for tokens, then for all phases."""
        every = list(range(len(self.widths)))
        of_tokens = [route for route in every if self.of_tokens[route]]
        yield of_tokens, self.together[0]
        if of_tokens != every:
            yield every, self.together[1]


class Colouring(NamedTuple):
    """The result of colouring: the first colour of each route, the routes that keep their colours, and conflicts.

    Sets of routes are bit sets.
    """

    first: tuple[int, ...]
    own: int
    conflicts: tuple[int, ...]


def colouring(demand: RouteDemand, available: int) -> Colouring | None:
    """Return colours for all routes, or None where routes that run at the same time need more colours than available.

    1. Routes of tokens get ranges beside the smallest pool for which there are some, and are moved as long as fewer
       rewrites are left.
    2. Those of prompts get the ranges that prompts want least. Where there are none, all routes are as those of tokens.
    """
    for routes, together in demand.of_phases():
        widths = sum(demand.widths[route] for route in routes)
        for pool in range(0 if widths <= available else together, available + 1):
            first = _beside_pool(demand, routes, available, pool)  # 1
            if first is None:
                continue
            for placed in (_move_routes(demand, routes, available, first) if pool else first, first):
                with_prompts = _with_prompts(demand, available, placed)  # 2
                if with_prompts is not None:
                    conflicts = _conflicts(demand, with_prompts)
                    numbered = tuple(with_prompts[route] for route in range(len(demand.widths)))
                    apart = _bits(route for route in routes if first[route] + demand.widths[route] <= available - pool)
                    own = _own_routes(routes, conflicts) if demand.tokens else apart
                    return Colouring(numbered, own, tuple(conflicts))
    return None


def repaint_count(visits: Visits, painted: int, conflicts: Sequence[int]) -> tuple[int, int]:
    """Return the number of route rewrites in a sequence of visits, and the routes that are set afterwards."""
    count = 0
    for route, times in visits:
        if not painted >> route & 1:
            painted = painted & ~conflicts[route] | 1 << route
            count += times
    return count, painted


def _own_routes(routes: Sequence[int], conflicts: Sequence[int]) -> int:
    """Return the routes that share colours with no other route, and those that share none with ``routes``."""
    alone, bits = _bits(route for route, others in enumerate(conflicts) if not others), _bits(routes)
    return alone | _bits(route for route in routes if not conflicts[route] & bits)


def _conflicts(demand: RouteDemand, first: dict[int, int]) -> list[int]:
    """Return for each route a bit set of the routes that share a colour with it."""
    return [
        _bits(other for other in _sharers(demand, route, first[route], first) if other != route)
        if route in first
        else 0
        for route in range(len(demand.widths))
    ]


def _beside_pool(demand: RouteDemand, routes: Sequence[int], available: int, pool: int) -> dict[int, int] | None:
    """Return the first colour of each route outside a pool of shared colours; None where the pool is too small.

    1. The routes that are used most get colours of their own, as many as the pool leaves.
    2. Each other one, those used most first, gets the range of the pool that is wanted least by others, and by none
       that runs at the same time.
    """
    first: dict[int, int] = {}
    start = 0
    for route in routes:  # 1
        if start + demand.widths[route] <= available - pool:
            first[route] = start
            start += demand.widths[route]
    sharing: dict[int, int] = {}
    for route in (route for route in routes if route not in first):  # 2
        free = _free(demand, route, start, available, {**first, **sharing})
        if not free:
            return None
        sharing[route] = min(free, key=partial(_contention, demand, route, sharing))
    return {**first, **sharing}


def _with_prompts(demand: RouteDemand, available: int, placed: dict[int, int]) -> dict[int, int] | None:
    """Return the first colours, with the routes of prompts added where they conflict with the fewest others."""
    first = dict(placed)
    for route in range(len(demand.widths)):
        if route in first:
            continue
        free = _free(demand, route, 0, available, first)
        if not free:
            return None
        first[route] = min(free, key=partial(_contention, demand, route, first))
    return first


def _move_routes(demand: RouteDemand, routes: Sequence[int], available: int, placed: dict[int, int]) -> dict[int, int]:
    """Return the first colours after moving routes one by one to where the fewest rewrites per token remain.

    What a route costs goes by the others that it shares colours with: of the places with the same others the first is
    counted, and of those with the same and more none.
    """
    first, conflicts = dict(placed), _conflicts(demand, placed)
    fewest, before = _rewrites_of_tokens(demand, routes, conflicts), -1
    while fewest not in (0, before):
        before = fewest
        for route in routes:
            others = {other: at for other, at in first.items() if other != route}
            places: dict[int, int] = {}
            for at in _free(demand, route, 0, available, others):
                places.setdefault(_bits(_sharers(demand, route, at, others)), at)
            for sharing, at in places.items():
                if any(less & sharing == less for less in places if less != sharing):
                    continue
                moved = [
                    sharing if other == route else bits & ~(1 << route) | (sharing >> other & 1) << route
                    for other, bits in enumerate(conflicts)
                ]
                count = _rewrites_of_tokens(demand, routes, moved)
                if count < fewest:
                    first, conflicts, fewest = {**first, route: at}, moved, count
    return first


def _rewrites_of_tokens(demand: RouteDemand, routes: Sequence[int], conflicts: Sequence[int]) -> int:
    """Return the route rewrites in one run of each phase of tokens."""
    own, total = _own_routes(routes, conflicts), 0
    for phase in demand.tokens:
        painted = own
        for visits, times in phase:
            count, painted = repaint_count(visits, painted, conflicts)
            total += count
            if times > 1:
                count, painted = repaint_count(visits, painted, conflicts)
                total += count * (times - 1)
    return total


def _bits(routes: Iterable[int]) -> int:
    return sum(1 << route for route in routes)


def _free(demand: RouteDemand, route: int, start: int, end: int, first: dict[int, int]) -> list[int]:
    """Return the possible first colours of a route that no simultaneous route uses."""
    width, beside = demand.widths[route], {o: at for o, at in first.items() if demand.beside[route] >> o & 1}
    return [at for at in range(start, end - width + 1) if not _sharers(demand, route, at, beside)]


def _contention(demand: RouteDemand, route: int, first: dict[int, int], at: int) -> tuple[int, int]:
    """Return how often the routes that share a colour with a route at ``at`` are used, and their number."""
    others = _sharers(demand, route, at, first)
    return sum(demand.uses[other] for other in others), len(others)


def _sharers(demand: RouteDemand, route: int, at: int, first: dict[int, int]) -> list[int]:
    """Return the routes that would share a colour with a route at ``at``."""
    end = at + demand.widths[route]
    return [other for other, start in first.items() if start < end and at < start + demand.widths[other]]
