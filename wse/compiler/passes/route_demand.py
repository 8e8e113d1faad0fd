"""Routes of the steps of a block, and the colours that the routes of a stage need.

A route is the configuration of some colours for a transfer, in the routers of all PEs on its lines.
Patterns that differ only in what a PE does with arriving words have the same routes. Sets of routes
are integers whose bit i represents route i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from wse.compiler.symbolic import Block, SymStep
from wse.program.steps import StepKind
from wse.program.transfers.transfer_types import TRANSFERS
from wse_mappings.schedule import Arrival, LineSchedule

Key = tuple[int, int, int]
"""A route: index of its kind of transfer, index of its pattern (or NO_PATTERN), and axis."""

NO_PATTERN = -1


class BlockRoutes:
    """Lookup of the routes that the steps of each block need; each block is analysed only once.

    A route is the configuration of some colours for a transfer, in the routers of all PEs on its
    lines. Patterns with the same routes (`same_routes`) count as one.
    """

    def __init__(self, patterns: tuple[LineSchedule, ...]) -> None:
        """Create a lookup for blocks whose steps refer to the given patterns by index."""
        self._patterns, self._first_with_routes = patterns, same_routes(patterns)
        self._of_blocks: dict[Block, list[tuple[Key, int] | None]] = {}
        self._visits: dict[Block, list[tuple[int, Key, int]]] = {}

    def of(self, block: Block) -> list[tuple[Key, int] | None]:
        """Return, for each step of a block, its route and how many colours the route needs.

        A route is identified by a tuple of indices: kind of transfer, pattern, and axis. The item
        is None for a step that needs no route.
        """
        if block not in self._of_blocks:
            self._of_blocks[block] = [self._route_of_step(step) for step in block.steps]
        return self._of_blocks[block]

    def visits(self, block: Block) -> list[tuple[int, Key, int]]:
        """List the uses of routes in a block of steps: (step index, route, number of uses).

        The list is in execution order. A route is the configuration of some colours for a transfer.
        A step in a loop of several iterations occurs twice in the list: once for the first
        iteration, and once for all other iterations.
        """
        if block not in self._visits:
            needs = self.of(block)
            self._visits[block] = [
                (index, need[0], times) for index, times in _visits(block) if (need := needs[index]) is not None
            ]
        return self._visits[block]

    def _route_of_step(self, step: SymStep) -> tuple[Key, int] | None:
        """Return the route of a step and how many colours it needs; None if the step needs no route.

        A route is identified by a tuple of indices: kind of transfer, pattern, and axis.
        """
        if step.kind != StepKind.TRANSFER:
            return None
        has_pattern = step.pattern >= 0
        colours = TRANSFERS[step.code].colours(self._patterns[step.pattern] if has_pattern else None)
        pattern = self._first_with_routes[step.pattern] if has_pattern else NO_PATTERN
        return ((step.code, pattern, step.axis), colours) if colours else None


def _visits(block: Block) -> Iterator[tuple[int, int]]:
    """Yield the steps of a block in execution order, as (step index, number of repetitions).

    The steps of a loop of several iterations are yielded twice: with 1 for the first iteration, and
    with the number of remaining iterations, which are all equal.
    """
    index = 0
    while index < len(block.steps):
        loop = block.steps[index].loop
        first, end, iterations = (index, index + 1, 1) if loop < 0 else block.loops[loop]
        for iteration in range(min(iterations, 2)):
            for index_in_loop in range(first, end):
                yield index_in_loop, 1 if iteration == 0 else iterations - 1
        index = end


def same_routes(patterns: tuple[LineSchedule, ...]) -> list[int]:
    """Return, for each pattern, the index of the first pattern that uses the same routes.

    Patterns with the same routes send words along the same paths and can use the same colours. They
    differ only in what a PE does with arriving words, such as adding them or taking their maximum.
    """
    first: dict[tuple[object, ...], int] = {}
    same_routes = []
    for code, pattern in enumerate(patterns):
        links = pattern.messages.copy()
        links[:, 2] = links[:, 2] == Arrival.MULTICAST
        arrays = (links, pattern.first, pattern.variants)
        same_routes.append(
            first.setdefault((pattern.length, pattern.colours, *(array.tobytes() for array in arrays)), code)
        )
    return same_routes


Visits = tuple[tuple[int, int], ...]
"""Routes in the order in which the steps of a block need them, as (index, number of times)."""


class RouteDemand(NamedTuple):
    """The routes of a stage that need colours, and which of them run concurrently.

    A route is the configuration of some colours for a transfer, in the routers of all PEs on its
    lines. The most used route has index 0. Token phases are decode and verification, or the prompt
    phases if no others are compiled.

    Attributes:
        widths: Number of consecutive colours that each route needs.
        is_in_tokens: Whether each route is used in token phases.
        uses: How often each route is used. If token routes have priority, only uses in prompts are
            counted.
        simultaneous_routes: For each route, the routes that are used concurrently, as a bit set.
        max_widths: Maximum number of colours needed concurrently, by the routes of token phases and
            by all routes.
        tokens: For each token phase and each of its blocks of steps: the routes in the order in
            which the steps need them, and the number of consecutive runs of the block. Empty for
            the baseline schedule, which does not improve the first assignment of colours, and
            rewrites the routes in the shared pool in every run.
    """

    widths: tuple[int, ...]
    is_in_tokens: tuple[bool, ...]
    uses: tuple[int, ...]
    simultaneous_routes: tuple[int, ...]
    max_widths: tuple[int, int]
    tokens: tuple[tuple[tuple[Visits, int], ...], ...]

    def routes_by_phase(self) -> Iterator[tuple[list[int], int]]:
        """Yield the routes that get their colours first, and the number of colours they need.

        A route (router configuration for a transfer) that gets its colours early shares them less.
        The first item therefore contains only the routes used in decode and verification. If this
        leaves too few colours for the routes of prompts, the second item is used: all routes.

        Yields:
            Indices of the routes, and the maximum total number of colours that concurrently used
            routes need.
        """
        all_routes = list(range(len(self.widths)))
        token_routes = [route for route in all_routes if self.is_in_tokens[route]]
        yield token_routes, self.max_widths[0]
        if token_routes != all_routes:
            yield all_routes, self.max_widths[1]

    def free_colours(self, route: int, start: int, end: int, first: dict[int, int]) -> list[int]:
        """Return the colours that a route could have as its first colour without conflicts.

        A route is the configuration of routers for a transfer. It uses consecutive colours (virtual
        channels of the routers), and must not share them with routes in use at the same time.

        Args:
            route: Index of the route.
            start, end: Range of colours to search, ``end`` exclusive.
            first: First colours of the routes that already have colours.
        """
        simultaneous = self.simultaneous_routes[route]
        return [at for at, sharers in self.sharers_by_colour(route, start, end, first) if not sharers & simultaneous]

    def sharers_by_colour(self, route: int, start: int, end: int, first: dict[int, int]) -> list[tuple[int, int]]:
        """Return the routes that would share a colour with a route, for each possible first colour.

        A route occupies one or more consecutive colours.

        Args:
            route: Index of the route.
            start, end: Range of colours to search, ``end`` exclusive.
            first: First colours of the routes to compare with.

        Returns:
            (first colour, sharing routes as a bit set) pairs.
        """
        users = [0] * end  # routes of each colour, as bit sets
        for other_route, at in first.items():
            for colour in range(at, min(end, at + self.widths[other_route])):
                users[colour] |= 1 << other_route
        width = self.widths[route]
        return [(at, reduce(or_, users[at : at + width])) for at in range(start, end - width + 1)]

    def contention(self, route: int, first: dict[int, int], at: int) -> tuple[int, int]:
        """Return how often other routes use the colours that a route would get.

        Colours with few uses are the best ones to share.

        Args:
            route: Index of the route.
            first: First colours of the other routes.
            at: First colour that the route would get.

        Returns:
            Total number of uses of the routes that share a colour, and the number of these routes.
        """
        sharers = self.sharers(route, at, first)
        return sum(self.uses[other_route] for other_route in sharers), len(sharers)

    def conflicts(self, first: dict[int, int]) -> list[int]:
        """For each route, return the other routes that share a colour with it, as a bit set.

        Args:
            first: First colour of each route that already has colours. The set is empty for a route
                without colours.
        """
        return [
            bit_set(other_route for other_route in self.sharers(route, first[route], first) if other_route != route)
            if route in first
            else 0
            for route in range(len(self.widths))
        ]

    def sharers(self, route: int, at: int, first: dict[int, int]) -> list[int]:
        """Return the routes that would share a colour with a route that starts at colour ``at``.

        A route occupies one or more consecutive colours.

        Args:
            route: Index of the route.
            at: Its first colour.
            first: First colours of the routes to compare with.
        """
        end = at + self.widths[route]
        return [
            other_route for other_route, start in first.items() if start < end and at < start + self.widths[other_route]
        ]


def bit_set(routes: Iterable[int]) -> int:
    """Return a set of routes as an integer whose bit i represents route i."""
    return sum(1 << route for route in routes)
