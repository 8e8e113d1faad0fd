"""Lines: builder that adds communication patterns to the configuration of a WaveletMachine.

Messages and streams become routes, switch positions and vector operations:

- A message uses one colour from its source to its target. The two directions of a multicast leave
  the source as one stream.
- The messages of a colour that cross a router follow each other in order, as switch positions. The
  last word of a message carries the control bit if a switch must advance after it. If a PE receives
  and sends in one fused operation, both colours advance after the last word that the PE sends.
- The vector operations of PEs are added by `wse.backends.wavelet.pe_operations`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from wse.arrays import I32
from wse.backends.wavelet.machine import STEP, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.pe_operations import PeOperations, WordParts
from wse.backends.wavelet.plan import Plan, plan_line, plan_plane
from wse_mappings.plane import PlaneSchedule
from wse_mappings.schedule import Arrival, LineSchedule


class Lines:
    """Builder that adds communication patterns to a simulated machine, one after another.

    A PE executes its operations in the order in which they are added. Lines of PEs that send the
    same messages are planned only once.

    Args:
        machine: The machine (routes and vector operations of PEs) to which patterns are added.
        gap_cycles: Cycles between two vector operations on the main thread of a PE.
        relay_cycles: Cycles that software adds to a receive that is fused with a send.
        add_cycles: Cycles to add a stored message to a PE's own words, before its next operation.
        main: Number of the main thread; the other threads have the numbers after it. Patterns that
            run at the same time must have different main threads. Patterns that run one after
            another may use the same one.

    Attributes:
        operations: Builder of the operations of PEs.
        copies: (PEs, source, target, words) of words that PEs copy within their memory, without the
            fabric.
    """

    def __init__(
        self, *, machine: WaveletMachine, gap_cycles: int, relay_cycles: int = 0, add_cycles: int = 0, main: int = 0
    ) -> None:
        self.machine = machine
        self.operations = PeOperations(
            machine=machine, gap_cycles=gap_cycles, relay_cycles=relay_cycles, add_cycles=add_cycles, main=main
        )
        self.copies: list[tuple[I32, int, int, int]] = []

    def rows(
        self,
        schedule: LineSchedule,
        words: int,
        *,
        source: int = 0,
        target: int = 0,
        round_: int = 0,
        colour: int = 0,
        line_slice: slice = slice(None),
        transposed: bool = False,
    ) -> int:
        """Add one round (one iteration) of a communication pattern on rows or columns of the machine.

        Args:
            schedule: Messages of the pattern.
            words: Number of words in every message.
            source: Address, in each PE's memory, of the words that are sent.
            target: Address at which received words are stored or combined with the words there. If
                the pattern combines words, it must equal ``source``.
            round_: Index of the round.
            colour: First colour to use, which is added to each colour number of the pattern.
            line_slice: Rows (or columns) of the machine on which the pattern runs.
            transposed: Whether the lines are columns, which begin at the north, instead of rows.

        Returns:
            The first colour after the colours that the pattern uses.
        """
        numbers = self._grid().T if transposed else self._grid()
        return self._add_round(schedule, numbers[line_slice], line_slice, words, source, target, round_, colour)

    def path(
        self,
        schedule: LineSchedule,
        pes: list[tuple[int, int]],
        words: int,
        *,
        source: int = 0,
        target: int = 0,
        line: int = 0,
        round_: int = 0,
        colour: int = 0,
    ) -> int:
        """Add one round (one iteration) of a communication pattern along a path of neighbouring PEs.

        Args:
            schedule: Messages of the pattern.
            pes: (row, col) of the PEs on the path, in order.
            words: Number of words in every message.
            source: Address, in each PE's memory, of the words that are sent.
            target: Address at which received words are stored or combined with the words there. If
                the pattern combines words, it must equal ``source``.
            line: Index of the line whose messages are sent, because the lines of a pattern may
                differ.
            round_: Index of the round.
            colour: First colour to use, which is added to each colour number of the pattern.

        Returns:
            The first colour after the colours that the pattern uses.
        """
        numbers = np.array([[self.machine.pe(row, col) for row, col in pes]], np.int32)
        return self._add_round(schedule, numbers, slice(line, line + 1), words, source, target, round_, colour)

    def plane(self, schedule: PlaneSchedule, words: int, *, target: int) -> int:
        """Add a communication pattern that covers all PEs of the machine.

        Args:
            schedule: Streams of the pattern.
            words: Number of words of a stream, or of the longest stream. A PE sends them from
                address 0 of its memory.
            target: Address at which the words are stored.

        Returns:
            Number of colours that the pattern uses. The first is colour 0.
        """
        plan = plan_plane(schedule)
        numbers = self._grid().reshape(1, -1)
        self._routes(plan, numbers, 0, lambda _, side: Port(side))
        self.operations.add(plan, numbers, WordParts(words, 1, 0, target), 0)
        return plan.colours

    def _grid(self) -> I32:
        """Return the indices of the machine's PEs, int32 ``[rows, cols]``."""
        machine = self.machine
        return np.arange(machine.rows * machine.cols, dtype=np.int32).reshape(machine.rows, machine.cols)

    def _add_round(
        self,
        schedule: LineSchedule,
        numbers: I32,
        lines: slice,
        words: int,
        source: int,
        target: int,
        round_: int,
        colour: int,
    ) -> int:
        """Add one round (one iteration) of a communication pattern on parallel lines of PEs.

        Args:
            schedule: Messages of the pattern.
            numbers: int32 ``[lines, places]``: indices of the PEs of each line, in order.
            lines: Indices of these lines in the pattern.
            words: Number of words in every message.
            source: Address, in each PE's memory, of the words that are sent.
            target: Address at which received words are stored or combined with the words there.
            round_: Index of the round.
            colour: First colour to use, which is added to each colour number of the pattern.

        Returns:
            The first colour after the colours that the pattern uses.
        """
        free = colour
        variants = schedule.variants[round_ % len(schedule.variants), lines][: len(numbers)]
        for variant in np.unique(variants).tolist():
            messages, colours, part = schedule.variant_messages(variant)
            plan = plan_line(messages, colours, part, store_and_forward=schedule.store_and_forward)
            lines_of_plan = numbers[variants == variant]
            if source != target:
                copying_places = messages[messages[:, 2] == Arrival.COPY, 0]
                self.copies += [(lines_of_plan[:, place], source, target, words) for place in copying_places.tolist()]
            self._routes(plan, lines_of_plan, colour, partial(self._port, lines_of_plan[0]))
            self.operations.add(plan, lines_of_plan, WordParts(words, schedule.parts, source, target), colour)
            free = max(free, colour + plan.colours)
        return free

    def _port(self, line: I32, place: int, step: int) -> Port:
        """Return the port through which words leave a PE for another PE of its line.

        Args:
            line: int32 ``[places]``, PEs of the line.
            place: Index of the PE on the line.
            step: 1 for the next PE of the line, -1 for the previous PE, 0 for the ramp into the PE
                itself.
        """
        if step == 0:
            return Port.RAMP
        cols, source, target = self.machine.cols, int(line[place]), int(line[place + step])
        direction = (target // cols - source // cols, target % cols - source % cols)
        return next(side for side, step in STEP.items() if step == direction)

    def _routes(self, plan: Plan, numbers: I32, colour: int, port: Callable[[int, int], Port]) -> None:
        """Add the switch positions of a planned pattern to the routers of parallel lines.

        A switch position is a setting of a router for one colour.

        Args:
            plan: Streams, switch positions and operations of the pattern.
            numbers: int32 ``[lines, places]``, PEs of the lines.
            colour: First colour to use, which is added to each colour number of the plan.
            port: Function that returns the port of a router, given the place of its PE on the line
                and the side (the direction along the line) that the plan specifies.
        """
        for (place, pattern_colour), positions in plan.positions.items():
            for i, planned_position in enumerate(positions):
                (side, sides), release = planned_position.config, planned_position.releases
                position = SwitchPosition(
                    source=port(place, side),
                    targets=tuple(port(place, step) for step in sides),
                    controls=len(planned_position.flows) if i + 1 < len(positions) or release else 0,
                    waits_for_release=planned_position.waits_for_release,
                    releases=(colour + release[0], release[1]) if release else None,
                )
                self.machine.route(numbers[:, place], colour + pattern_colour, position)
