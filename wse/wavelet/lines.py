"""From the messages of a LineSchedule to routes, switches and vector operations along lines of PEs.

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

from dataclasses import dataclass, field

from wse.wavelet.line_plan import COMBINING, LinePlan, plan_line
from wse.wavelet.machine import STEP, Machine, Operation, Port, Position
from wse.wavelet.tables import F32
from wse_mappings.schedule import Arrival, LineSchedule

SENDS = 1_000_000  # the thread of sends where they run beside the main one; those of stores are 1 + colour


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a pattern's words lie in memory and are cut into parts."""

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
    """Lays patterns on a machine, one after another; a PE carries out its share of each in their order.

    Attributes:
        machine: What is being configured.
        gap_cycles: Between two vector operations on the main thread of a PE.
        main: The main thread's number; the other threads follow it. Patterns that run at the same time differ in it.
        busy: (PE, thread) that have an operation already.
        written: The last operation on another thread that writes each (PE, address).
        read: The last one that reads it.
        copies: (row, col, source, target, words) of what PEs keep.
    """

    machine: Machine
    gap_cycles: int
    main: int = 0
    busy: set[tuple[int, int]] = field(default_factory=set)
    written: dict[tuple[int, int], int] = field(default_factory=dict)
    read: dict[tuple[int, int], int] = field(default_factory=dict)
    copies: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def copied(self, memory: F32) -> F32:
        """``memory`` ``[rows, cols, words]`` as the run begins: local copies, which no wavelet makes, are done."""
        after = memory.copy()
        for row, col, source, target, words in self.copies:
            after[row, col, target : target + words] = memory[row, col, source : source + words]
        return after

    def rows(
        self, schedule: LineSchedule, words: int, *, source: int = 0, target: int = 0, round_: int = 0, colour: int = 0
    ) -> int:
        """One round of ``schedule`` on every row of the machine; see ``path``."""
        pes = [[(row, col) for col in range(self.machine.cols)] for row in range(self.machine.rows)]
        return self._all(pes, schedule, words, source, target, round_, colour)

    def columns(
        self, schedule: LineSchedule, words: int, *, source: int = 0, target: int = 0, round_: int = 0, colour: int = 0
    ) -> int:
        """One round of ``schedule`` on every column of the machine, index 0 at the north; see ``path``."""
        pes = [[(row, col) for row in range(self.machine.rows)] for col in range(self.machine.cols)]
        return self._all(pes, schedule, words, source, target, round_, colour)

    def _all(
        self,
        lines: list[list[tuple[int, int]]],
        schedule: LineSchedule,
        words: int,
        source: int,
        target: int,
        round_: int,
        colour: int,
    ) -> int:
        return max(
            self.path(schedule, pes, words, source=source, target=target, line=i, round_=round_, colour=colour)
            for i, pes in enumerate(lines)
        )

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
        """One round of line ``line`` of ``schedule`` along ``pes``, each a neighbour of the one before.

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
        channel, part = schedule.channel_of_line(line, round_), schedule.part_of_line(line, round_)
        plan = plan_line(schedule.of_line(line, round_), channel, part)
        numbers = [self.machine.pe(row, col) for row, col in pes]
        if source != target:
            kept = schedule.of_line(line, round_)
            kept = kept[kept[:, 2] == Arrival.KEEP, 0]
            self.copies += [(*pes[place], source, target, words) for place in kept.tolist()]
        self._routes(plan, pes, numbers, colour)
        self._operations(plan, numbers, _Cut(words, schedule.parts, source, target), colour)
        return colour + plan.channels

    def _routes(self, plan: LinePlan, pes: list[tuple[int, int]], numbers: list[int], colour: int) -> None:
        def port(place: int, step: int) -> Port:
            if step == 0:
                return Port.RAMP
            (row, col), (other_row, other_col) = pes[place], pes[place + step]
            return next(side for side, way in STEP.items() if way == (other_row - row, other_col - col))

        for (place, channel), turns in plan.turns.items():
            for i, turn in enumerate(turns):
                (side, sides), released = turn.config, turn.releases
                position = Position(
                    source=port(place, side),
                    targets=tuple(port(place, step) for step in sides),
                    controls=len(turn.flows) if i + 1 < len(turns) or released else 0,
                    held=turn.held,
                    releases=(colour + released[0], released[1]) if released else None,
                )
                self.machine.route(numbers[place], colour + channel, position)

    def _operations(self, plan: LinePlan, numbers: list[int], cut: _Cut, colour: int) -> None:
        first = len(self.machine.operations)
        for step in plan.steps:
            pe, part = numbers[step.place], step.flow.part
            words = cut.words_of(part)
            if words == 0:
                continue
            if step.receive and step.receive.arrival not in COMBINING:
                at = cut.address(part, cut.target)
                self._store(pe, colour + step.receive.channel, step.receive.arrival, at, words, first)
                continue
            address = cut.address(part, cut.source if step.send else cut.target)
            thread = self.main + (SENDS if step.send and cut.parts > 1 else 0)
            operation = Operation(
                receive=colour + step.receive.channel if step.receive else -1,
                send=colour + step.send.channel if step.send else -1,
                arrival=step.receive.arrival if step.receive else Arrival.REPLACE,
                address=address,
                words=words,
                after=self.written.get((pe, address), -1),
                mark=step.send is not None and plan.marked(step.send),
                gap_cycles=self.gap_cycles if (pe, thread) in self.busy else 0,
            )
            self.busy.add((pe, thread))
            number = self.machine.operate(pe, thread, operation)
            self.read[pe, address] = number
            if cut.parts > 1 and step.receive:
                self.written[pe, address] = number

    def _store(self, pe: int, colour: int, arrival: Arrival, address: int, words: int, first: int) -> None:
        """A receive beside the main thread, after the operation that still reads the words that it replaces.

        A multicast in the pattern that reduced those words needs not wait: each result follows its own operands.
        """
        reader = self.read.get((pe, address), -1)
        waits = arrival == Arrival.REPLACE or (arrival == Arrival.MULTICAST and reader < first)
        operation = Operation(
            receive=colour, arrival=arrival, address=address, words=words, after=reader if waits else -1
        )
        number = self.machine.operate(pe, self.main + 1 + colour, operation)
        if arrival != Arrival.DROP:
            self.written[pe, address] = number
