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

import numpy as np
import numpy.typing as npt

from wse.wavelet.machine import STEP, Machine, Operation, Port, Position
from wse_mappings.schedule import Arrival, LineSchedule

I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
Config = tuple[int, tuple[int, ...]]  # on a line: from and to, -1 toward index 0, 1 toward the end, 0 the PE itself

SENDS = 1_000_000  # the thread of sends where they run beside the main one; those of stores are 1 + colour
COMBINING = (Arrival.ADD, Arrival.LARGER, Arrival.LARGER_PAIR)


@dataclass(slots=True)
class Flow:
    """One stream: a message, or the messages of a multicast that leave together."""

    source: int
    arrival: Arrival
    targets: list[int]
    channel: int = -1
    part: int = 0

    def configs(self) -> dict[int, Config]:
        """How each PE on the way routes it."""
        sides = tuple(sorted(1 if target > self.source else -1 for target in self.targets))
        found: dict[int, Config] = {self.source: (0, sides)}
        for target in self.targets:
            step = 1 if target > self.source else -1
            here = (0,) if self.arrival == Arrival.MULTICAST else ()
            for pe in range(self.source + step, target, step):
                found[pe] = (-step, (*here, step))
            found[target] = (-step, (0,))
        return found

    def receivers(self) -> list[int]:
        """The PEs that take its words."""
        if self.arrival != Arrival.MULTICAST:
            return self.targets
        return [pe for pe in self.configs() if pe != self.source]


@dataclass(frozen=True, slots=True)
class Step:
    """One vector operation of a PE: the stream that it receives, the one that it sends, or both at once."""

    place: int
    flow: Flow  # either of them: both carry the same words
    receive: Flow | None
    send: Flow | None


@dataclass(slots=True)
class Turn:
    """A switch position on a line: its sides, the streams that cross it, and what ends with it."""

    config: Config
    flows: list[Flow]
    held: bool = False
    releases: tuple[int, int] | None = None


@dataclass(slots=True)
class LinePlan:
    """The streams of one line, the operations of its PEs in order, and the turns of each (PE, channel)."""

    flows: list[Flow]
    steps: list[Step] = field(default_factory=list)
    turns: dict[tuple[int, int], list[Turn]] = field(default_factory=dict)
    channels: int = 0

    def marked(self, flow: Flow) -> bool:
        """Whether a switch on its way counts the stream's control bit."""
        return any(self._counts(pe, flow.channel) for pe in flow.configs())

    def _counts(self, pe: int, channel: int) -> bool:
        turns = self.turns[pe, channel]
        return len(turns) > 1 or turns[0].releases is not None


def plan_line(messages: I32, channel: I32 | None = None, part: I32 | None = None) -> LinePlan:
    """Streams, operations, colours and switch positions of the messages ``[m, 3]`` of one line."""
    plan = LinePlan(_flows(messages, channel, part))
    if channel is None:
        _choose_channels(plan.flows)
    for flow in plan.flows:
        for pe, config in flow.configs().items():
            turns = plan.turns.setdefault((pe, flow.channel), [])
            if not turns or turns[-1].config != config:
                turns.append(Turn(config, []))
            turns[-1].flows.append(flow)
    plan.steps = _steps(plan.flows, fuse=part is None)
    _hold(plan)
    plan.channels = max((flow.channel + 1 for flow in plan.flows), default=0)
    return plan


def _steps(flows: list[Flow], *, fuse: bool) -> list[Step]:
    """What each PE does, in order; where they ``fuse``, a receive that combines and the next send are one."""
    steps: list[Step] = []
    waiting: dict[int, Flow] = {}
    for flow in flows:
        steps.append(Step(flow.source, flow, waiting.pop(flow.source, None), flow))
        for place in flow.receivers():
            if not fuse or flow.arrival not in COMBINING:
                steps.append(Step(place, flow, flow, None))
                continue
            before = waiting.pop(place, None)
            if before:
                steps.append(Step(place, before, before, None))
            waiting[place] = flow
    return steps + [Step(place, flow, flow, None) for place, flow in waiting.items()]


def _hold(plan: LinePlan) -> None:
    """Where a PE's receive is fused with its send, its receive colour moves on behind the last word sent."""
    for step in plan.steps:
        if step.receive is None or step.send is None:
            continue
        receiving = plan.turns[step.place, step.receive.channel]
        sending = plan.turns[step.place, step.send.channel]
        at = next(i for i, turn in enumerate(receiving) if step.receive in turn.flows)
        by = next(turn for turn in sending if step.send in turn.flows)
        lasts = receiving[at].flows[-1] is step.receive and by.flows[-1] is step.send
        if lasts and at + 1 < len(receiving) and by.releases is None:
            receiving[at].held = True
            by.releases = (step.receive.channel, at + 1)


def _flows(messages: I32, channel: I32 | None, part: I32 | None) -> list[Flow]:
    flows: list[Flow] = []
    for i, (source, target, arrival) in enumerate(messages.tolist()):
        if arrival == Arrival.KEEP or source == target:
            continue
        before = flows[-1] if flows else None
        if arrival == Arrival.MULTICAST and before and (before.source, before.arrival) == (source, arrival):
            before.targets.append(target)
        else:
            chosen, carried = -1 if channel is None else int(channel[i]), 0 if part is None else int(part[i])
            flows.append(Flow(source, Arrival(arrival), [target], chosen, carried))
    return flows


def _choose_channels(flows: list[Flow]) -> None:
    """The lowest colour on which no PE of the way is configured otherwise; from low indices on, which needs fewest.

    What is combined and what is stored come on different colours, because different threads take them.
    """
    used: dict[tuple[int, int], tuple[Config, bool]] = {}
    for flow in sorted(flows, key=lambda flow: min(flow.source, *flow.targets)):
        uses = {pe: (config, flow.arrival in COMBINING) for pe, config in flow.configs().items()}
        flow.channel = 0
        while any(used.get((pe, flow.channel), use) != use for pe, use in uses.items()):
            flow.channel += 1
        used |= {(pe, flow.channel): use for pe, use in uses.items()}


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
