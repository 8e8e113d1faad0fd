"""Patterns laid on a Machine: messages and streams become routes, switch positions and vector operations.

- A message takes one colour from its source to its target; a multicast's two directions leave as one stream.
- On each PE and colour the messages that cross the router follow each other in their order, as switch positions; the
  last word of a message carries the control bit where a switch has to advance behind it. Where a PE's receive is fused
  with its send, both its colours advance behind the last word that it sends.
- A receive that combines and whose PE sends next is one fused operation. It leaves its sums in memory too, as the
  schedule says; a machine that does not takes the same time.
- Receives that only store run on threads of their own, one a colour, beside the PE's main thread.
- Where the words are cut into parts, as in a ring, nothing is fused and sends have a thread of their own: everybody
  sends before it receives. A send waits for the operation that wrote its part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from wse.arrays import I32, Bools
from wse.backends.wavelet.machine import STEP, Machine, Operation, Port, SwitchPosition
from wse.backends.wavelet.plan import Flow, Plan, plan_line, plan_plane
from wse_mappings.plane import PlaneSchedule
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

SENDS, STORES = 1, 2  # threads beside the main one: of sends where it only receives, and of stores, one a colour


@dataclass(frozen=True, slots=True)
class _Cut:
    """The address of a pattern's words, and their division into parts."""

    words: int
    parts: int
    source: int
    target: int

    def address(self, part: int, base: int) -> int:
        return base + part * self.words // self.parts

    def words_of(self, part: int) -> int:
        return self.address(part + 1, 0) - self.address(part, 0)


@dataclass(slots=True, kw_only=True)
class Lines:
    """A builder that adds patterns to a machine; a PE executes its operations in the order in which they are added.

    Lines that do the same are planned once.

    Attributes:
        machine: What is being configured.
        gap_cycles: Between two vector operations on the main thread of a PE.
        relay_cycles: What software adds to a receive that is fused with a send.
        add_cycles: Of adding a stored message to a PE's own words, before its next operation.
        main: The main thread's number; the other threads follow it. Patterns that run at the same time differ in it,
            those that follow one another use the same threads again.
        written: By address, int32 ``[PE]``: the last operation on another thread that writes there, or -1.
        read: By address, int32 ``[PE]``: the last operation that reads there, or -1.
        adding: bool ``[PE]``: whether a PE's last operation on the main thread stored a message that is to be added.
        copies: (PEs, source, target, words) of what PEs keep.
    """

    machine: Machine
    gap_cycles: int
    relay_cycles: int = 0
    add_cycles: int = 0
    main: int = 0
    written: dict[int, I32] = field(default_factory=dict)
    read: dict[int, I32] = field(default_factory=dict)
    copies: list[tuple[I32, int, int, int]] = field(default_factory=list)
    adding: Bools = field(init=False)

    def __post_init__(self) -> None:
        """Start without pending additions on any PE."""
        self.adding = np.zeros(self.machine.rows * self.machine.cols, bool)

    def rows(
        self,
        schedule: LineSchedule,
        words: int,
        *,
        source: int = 0,
        target: int = 0,
        round_: int = 0,
        colour: int = 0,
        chosen: slice = slice(None),
    ) -> int:
        """Add one round of ``schedule`` on the ``chosen`` rows of the machine. Arguments are those of ``path``."""
        return self._lay(schedule, self._grid()[chosen], chosen, words, source, target, round_, colour)

    def columns(
        self,
        schedule: LineSchedule,
        words: int,
        *,
        source: int = 0,
        target: int = 0,
        round_: int = 0,
        colour: int = 0,
        chosen: slice = slice(None),
    ) -> int:
        """Add one round of ``schedule`` on the ``chosen`` columns, index 0 at the north.

        Arguments are those of ``path``.
        """
        return self._lay(schedule, self._grid().T[chosen], chosen, words, source, target, round_, colour)

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
        """Add one round of line ``line`` of ``schedule`` along ``pes``, each a neighbour of the one before.

        Args:
            schedule: The pattern.
            pes: (row, col) of the line's PEs in order.
            words: Words of every message.
            source: Address of the words that are sent.
            target: Address of what they meet; combining patterns work in place, at one address.
            line: Which line of the schedule.
            round_: Which round.
            colour: The pattern's colour 0 is this one.

        Returns:
            The first colour that the pattern leaves free.
        """
        numbers = np.array([[self.machine.pe(row, col) for row, col in pes]], np.int32)
        return self._lay(schedule, numbers, slice(line, line + 1), words, source, target, round_, colour)

    def plane(self, schedule: PlaneSchedule, words: int, *, source: int = 0, target: int = 0, colour: int = 0) -> int:
        """Add ``schedule``, which covers the machine. Arguments are those of ``path``."""
        plan = plan_plane(schedule)
        numbers = self._grid().reshape(1, -1)
        self._routes(plan, numbers, colour, lambda _, side: Port(side))
        self._operations(plan, numbers, _Cut(words, 1, source, target), colour)
        return colour + plan.colours

    def _grid(self) -> I32:
        machine = self.machine
        return np.arange(machine.rows * machine.cols, dtype=np.int32).reshape(machine.rows, machine.cols)

    def _lay(
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
        """Add a round on parallel lines with PEs ``numbers`` ``[line, place]``."""
        free = colour
        variants = schedule.variants[round_ % len(schedule.variants), lines][: len(numbers)]
        for variant in np.unique(variants).tolist():
            messages, colours, part = schedule.of_variant(variant)
            plan, lines_of_plan = (
                plan_line(messages, colours, part, store_and_forward=schedule.store_and_forward),
                numbers[variants == variant],
            )
            if source != target:
                copied = messages[messages[:, 2] == Arrival.COPY, 0]
                self.copies += [(lines_of_plan[:, place], source, target, words) for place in copied.tolist()]
            self._routes(plan, lines_of_plan, colour, partial(self._port, lines_of_plan[0]))
            self._operations(plan, lines_of_plan, _Cut(words, schedule.parts, source, target), colour)
            free = max(free, colour + plan.colours)
        return free

    def _port(self, line: I32, place: int, step: int) -> Port:
        """Return the port of a place for a step along its line."""
        if step == 0:
            return Port.RAMP
        cols, source, target = self.machine.cols, int(line[place]), int(line[place + step])
        way = (target // cols - source // cols, target % cols - source % cols)
        return next(side for side, step in STEP.items() if step == way)

    def _routes(self, plan: Plan, numbers: I32, colour: int, port: Callable[[int, int], Port]) -> None:
        for (place, pattern_colour), turns in plan.positions.items():
            for i, turn in enumerate(turns):
                (side, sides), released = turn.config, turn.releases
                position = SwitchPosition(
                    source=port(place, side),
                    targets=tuple(port(place, step) for step in sides),
                    controls=len(turn.flows) if i + 1 < len(turns) or released else 0,
                    waits_for_release=turn.waits_for_release,
                    releases=(colour + released[0], released[1]) if released else None,
                )
                self.machine.route(numbers[:, place], colour + pattern_colour, position)

    def _operations(self, plan: Plan, numbers: I32, cut: _Cut, colour: int) -> None:
        first = self.machine.operations
        for step in plan.operations:
            pes, part = numbers[:, step.place], step.flow.part
            words = cut.words_of(part) if step.flow.words is None else step.flow.words
            if words == 0:
                continue
            if step.receive and step.receive.arrival not in COMBINING:
                at = cut.address(part, cut.target) + step.receive.slot * cut.words
                self._store(pes, colour, step.receive, at, words, first)
                continue
            address = cut.address(part, cut.source if step.send else cut.target)
            operation = Operation(
                receive=colour + step.receive.colour if step.receive else -1,
                send=colour + step.send.colour if step.send else -1,
                arrival=step.receive.arrival if step.receive else Arrival.REPLACE,
                address=address,
                words=words,
                mark=step.send is not None and plan.carries_control_bit(step.send),
                gap_cycles=self.gap_cycles + (self.add_cycles if self.adding[pes].any() else 0),
                delay_cycles=self.relay_cycles if step.receive and step.send else 0,
            )
            thread = SENDS if step.send and cut.parts > 1 else 0
            numbers_of = self.machine.operate(
                pes, self.main + thread, operation, self._last(self.written, address)[pes]
            )
            self.adding[pes] = step.send is None
            self._last(self.read, address)[pes] = numbers_of
            if cut.parts > 1 and step.receive:
                self._last(self.written, address)[pes] = numbers_of

    def _store(self, pes: I32, colour: int, flow: Flow, address: int, words: int, first: int) -> None:
        """Add a receive beside the main thread, after the operation that still reads the words that it replaces.

        A multicast in the pattern that reduced those words needs not wait: each result follows its own operands.
        """
        reader = self._last(self.read, address)[pes]
        stored = flow.arrival != Arrival.DROP
        waits = stored & ((reader < first) | (flow.arrival == Arrival.REPLACE))
        operation = Operation(receive=colour + flow.colour, arrival=flow.arrival, address=address, words=words)
        stores = self.machine.operate(pes, self.main + STORES + flow.colour, operation, np.where(waits, reader, -1))
        if stored:
            self._last(self.written, address)[pes] = stores

    def _last(self, last_by_address: dict[int, I32], address: int) -> I32:
        """Return the last operations ``[PE]`` recorded for an address."""
        if address not in last_by_address:
            last_by_address[address] = np.full(self.machine.rows * self.machine.cols, -1, np.int32)
        return last_by_address[address]
