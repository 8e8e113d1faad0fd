"""Routes that the steps of a block need.

A route is the configuration of some colours for a transfer, in the routers of all PEs on its lines.
Patterns that differ only in what a PE does with arriving words have the same routes.
"""

from __future__ import annotations

from collections.abc import Iterator

from wse.compiler.state import State
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

    def __init__(self, state: State, first_with_routes: list[int]) -> None:
        self._patterns, self._first_with_routes = state.patterns, first_with_routes
        self._of_blocks: dict[Block, list[tuple[Key, int] | None]] = {}
        self._visits: dict[Block, list[tuple[int, Key, int]]] = {}

    def of(self, block: Block) -> list[tuple[Key, int] | None]:
        """Return the route of each step of a block and its number of colours, or None.

        A route is identified by a tuple of indices: kind of transfer, pattern, and axis. The item
        is None for a step that needs no route.
        """
        if block not in self._of_blocks:
            self._of_blocks[block] = [self._route_of_step(step) for step in block.steps]
        return self._of_blocks[block]

    def visits(self, block: Block) -> list[tuple[int, Key, int]]:
        """List the uses of routes in a block of steps, in execution order.

        A route is the configuration of some colours for a transfer. A step in a loop of several
        iterations occurs twice in the list: once for the first iteration, and once for all others.

        Returns:
            For each use: index of the step, route, and number of repetitions.
        """
        if block not in self._visits:
            needs = self.of(block)
            self._visits[block] = [
                (index, need[0], times) for index, times in _visits(block) if (need := needs[index]) is not None
            ]
        return self._visits[block]

    def _route_of_step(self, step: SymStep) -> tuple[Key, int] | None:
        """Return the route of a step and its number of colours; None if the step needs no route.

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
