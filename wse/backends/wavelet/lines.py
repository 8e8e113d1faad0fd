"""Lines: builder that adds communication patterns to the configuration of a WaveletMachine.

Messages and streams become routes, switch positions and vector operations:

- A message uses one colour from its source to its target. The two directions of a multicast leave
  the source as one stream.
- The messages of a colour that cross a router follow each other in order, as switch positions. The
  last word of a message carries the control bit if a switch must advance after it. If a PE receives
  and sends in one fused operation, both colours advance after the last word that the PE sends.
- A receive that combines words, followed by a send of the PE, becomes one fused operation. The sums
  are also stored, as the schedule says; without storing, the time would be the same.
- Receives that only store words run on threads of their own, one per colour, alongside the PE's
  main thread.
- If words are divided into parts, as in a ring all-reduce, nothing is fused, and sends have a
  thread of their own, so that all PEs can send before they receive. A send waits for the operation
  that wrote its part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from wse.arrays import I32, Bools
from wse.backends.wavelet.machine import STEP, Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.plan import Flow, Plan, plan_line, plan_plane
from wse_mappings.plane import PlaneSchedule
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

SENDS, STORES = 1, 2  # threads in addition to the main one: for separate sends, and for stores (one per colour)


@dataclass(frozen=True, slots=True)
class _WordParts:
    """Addresses of a pattern's words in the memory of a PE, and their division into parts.

    Attributes:
        words: Number of words.
        parts: Number of parts; 1 if the words are not divided.
        source: Address of the words that are sent.
        target: Address where words arrive.
    """

    words: int
    parts: int
    source: int
    target: int

    def address(self, part: int, base: int) -> int:
        """Return the address of the first word of a part, if all words begin at ``base``."""
        return base + part * self.words // self.parts

    def words_of(self, part: int) -> int:
        """Return the number of words of a part."""
        return self.address(part + 1, 0) - self.address(part, 0)


@dataclass(slots=True, kw_only=True)
class Lines:
    """Builder that adds communication patterns to a WaveletMachine, one after another.

    A PE executes its operations in the order in which they are added. Equal lines are planned once.

    Attributes:
        machine: The machine to configure.
        gap_cycles: Cycles between two vector operations on the main thread of a PE.
        relay_cycles: Cycles that software adds to a receive that is fused with a send.
        add_cycles: Cycles to add a stored message to a PE's own words, before its next operation.
        main: Number of the main thread; the other threads have the numbers after it. Patterns that
            run at the same time must have different main threads. Patterns that run one after
            another may use the same one.
        last_writes: Keys are addresses; values are int32 ``[PEs]``, the last operation on another
            thread that writes there, or -1.
        last_reads: Keys are addresses; values are int32 ``[PEs]``, the last operation that reads
            there, or -1.
        adding: bool ``[PEs]``: whether a PE's last operation on the main thread stored a message
            that must still be added.
        copies: (PEs, source, target, words) of words that PEs copy within their memory, without the
            fabric.
    """

    machine: WaveletMachine
    gap_cycles: int
    relay_cycles: int = 0
    add_cycles: int = 0
    main: int = 0
    last_writes: dict[int, I32] = field(default_factory=dict)
    last_reads: dict[int, I32] = field(default_factory=dict)
    copies: list[tuple[I32, int, int, int]] = field(default_factory=list)
    adding: Bools = field(init=False)

    def __post_init__(self) -> None:
        """Initialise ``adding``: no PE has a stored message that must still be added."""
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
        line_slice: slice = slice(None),
        transposed: bool = False,
    ) -> int:
        """Add one round of a pattern on rows, or columns, of the machine.

        Args:
            schedule: The pattern.
            words: Words of every message.
            source: Address of the words that are sent.
            target: Address of the words they are combined with, or where they are stored. For
                combining patterns it must equal ``source``.
            round_: Index of the round.
            colour: Colour of the machine that is used for the pattern's colour 0.
            line_slice: Selects the rows.
            transposed: Whether to use columns, with index 0 at the north, instead of rows.

        Returns:
            The first colour after those of the pattern.
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
        """Add one round of a pattern along a path of PEs, each a neighbour of the one before.

        Args:
            schedule: The pattern.
            pes: (row, col) of the line's PEs, in order.
            words: Words of every message.
            source: Address of the words that are sent.
            target: Address of the words they are combined with, or where they are stored. For
                combining patterns it must equal ``source``.
            line: Index of the pattern's line whose messages are sent.
            round_: Index of the round.
            colour: Colour of the machine that is used for the pattern's colour 0.

        Returns:
            The first colour after those of the pattern.
        """
        numbers = np.array([[self.machine.pe(row, col) for row, col in pes]], np.int32)
        return self._add_round(schedule, numbers, slice(line, line + 1), words, source, target, round_, colour)

    def plane(self, schedule: PlaneSchedule, words: int, *, target: int) -> int:
        """Add a pattern that covers the whole machine.

        Args:
            schedule: The pattern.
            words: Words of a stream, which a PE sends from address 0 on; the maximum if the streams
                have different numbers of words.
            target: Address at which the words are stored.

        Returns:
            Number of colours of the pattern, which begin with colour 0.
        """
        plan = plan_plane(schedule)
        numbers = self._grid().reshape(1, -1)
        self._routes(plan, numbers, 0, lambda _, side: Port(side))
        self._operations(plan, numbers, _WordParts(words, 1, 0, target), 0)
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
        """Add one round of a pattern on parallel lines.

        Args:
            schedule: The pattern.
            numbers: int32 ``[lines, places]``, PEs of the lines.
            lines: Indices of these lines in the pattern.
            words: Words of every message.
            source: Address of the words that are sent.
            target: Address of the words they are combined with, or where they are stored.
            round_: Index of the round.
            colour: Colour of the machine that is used for the pattern's colour 0.

        Returns:
            The first colour after those of the pattern.
        """
        free = colour
        variants = schedule.variants[round_ % len(schedule.variants), lines][: len(numbers)]
        for variant in np.unique(variants).tolist():
            messages, colours, part = schedule.variant_messages(variant)
            plan, lines_of_plan = (
                plan_line(messages, colours, part, store_and_forward=schedule.store_and_forward),
                numbers[variants == variant],
            )
            if source != target:
                copying_places = messages[messages[:, 2] == Arrival.COPY, 0]
                self.copies += [(lines_of_plan[:, place], source, target, words) for place in copying_places.tolist()]
            self._routes(plan, lines_of_plan, colour, partial(self._port, lines_of_plan[0]))
            self._operations(plan, lines_of_plan, _WordParts(words, schedule.parts, source, target), colour)
            free = max(free, colour + plan.colours)
        return free

    def _port(self, line: I32, place: int, step: int) -> Port:
        """Return the port through which words leave a PE for another PE of its line.

        Args:
            line: int32 ``[places]``, PEs of the line.
            place: Index of the PE on the line.
            step: 1 for the next PE of the line, -1 for the one before, 0 for the ramp into the PE.
        """
        if step == 0:
            return Port.RAMP
        cols, source, target = self.machine.cols, int(line[place]), int(line[place + step])
        direction = (target // cols - source // cols, target % cols - source % cols)
        return next(side for side, step in STEP.items() if step == direction)

    def _routes(self, plan: Plan, numbers: I32, colour: int, port: Callable[[int, int], Port]) -> None:
        """Add the switch positions of a planned pattern to the routers of parallel lines.

        Args:
            plan: Streams, switch positions and operations of the pattern.
            numbers: int32 ``[lines, places]``, PEs of the lines.
            colour: Colour of the machine that is used for the plan's colour 0.
            port: Function that returns the port of a PE's router, given the place of the PE on the
                line and a side.
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

    def _operations(self, plan: Plan, numbers: I32, word_parts: _WordParts, colour: int) -> None:
        """Add the operations of a planned pattern to the PEs of parallel lines.

        1. Operations without words are skipped.
        2. A receive that only stores runs on a thread of its own.
        3. Other operations run on the main thread. If words are divided into parts, sends run on
           the thread for sends.
        4. The operation is recorded as the last one that reads, and perhaps writes, its address.

        Args:
            plan: Streams, switch positions and operations of the pattern.
            numbers: int32 ``[lines, places]``, PEs of the lines.
            word_parts: Addresses of the words, and their division into parts.
            colour: Colour of the machine that is used for the plan's colour 0.
        """
        first = self.machine.operations
        for step in plan.operations:
            pes, part = numbers[:, step.place], step.flow.part
            words = word_parts.words_of(part) if step.flow.words is None else step.flow.words
            if words == 0:  # 1
                continue
            if step.receive and step.receive.arrival not in COMBINING:  # 2
                at = word_parts.address(part, word_parts.target) + step.receive.slot * word_parts.words
                self._store(pes, colour, step.receive, at, words, first)
                continue
            address = word_parts.address(part, word_parts.source if step.send else word_parts.target)
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
            thread = SENDS if step.send and word_parts.parts > 1 else 0  # 3
            numbers_of = self.machine.operate(
                pes, self.main + thread, operation, self._last(self.last_writes, address)[pes]
            )
            self.adding[pes] = step.send is None  # 4
            self._last(self.last_reads, address)[pes] = numbers_of
            if word_parts.parts > 1 and step.receive:
                self._last(self.last_writes, address)[pes] = numbers_of

    def _store(self, pes: I32, colour: int, flow: Flow, address: int, words: int, first: int) -> None:
        """Add a receive that only stores words, on a thread other than the main one.

        It waits for an earlier operation that still reads the words that it replaces. If this
        operation belongs to the same pattern and the words arrive by a multicast, no wait is
        needed: these words are results that depend on the words that were read.

        Args:
            pes: int32 ``[lines]``: PEs that receive.
            colour: Colour of the machine that is used for the pattern's colour 0.
            flow: The received stream.
            address: Address where the words are stored.
            words: Number of words.
            first: Number of the first operation of the pattern.
        """
        reader = self._last(self.last_reads, address)[pes]
        is_stored = flow.arrival != Arrival.DROP
        waits = is_stored & ((reader < first) | (flow.arrival == Arrival.REPLACE))
        operation = Operation(receive=colour + flow.colour, arrival=flow.arrival, address=address, words=words)
        stores = self.machine.operate(pes, self.main + STORES + flow.colour, operation, np.where(waits, reader, -1))
        if is_stored:
            self._last(self.last_writes, address)[pes] = stores

    def _last(self, last_by_address: dict[int, I32], address: int) -> I32:
        """Return the last operation of each PE that is recorded for an address, int32 ``[PEs]``.

        The value is -1 for a PE without such an operation.
        """
        if address not in last_by_address:
            last_by_address[address] = np.full(self.machine.rows * self.machine.cols, -1, np.int32)
        return last_by_address[address]
