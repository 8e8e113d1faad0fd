"""Cycles of a pattern along one line of PEs: a max-plus recurrence over its messages.

A message is a stream of words. Its first word leaves the sender's router at some time, crosses a hop in ``hop`` cycles,
and the rest follow one a cycle, with a pause where the machine's vector operations make one. A PE does its operations
in their order:

1. An operation begins when its first word is in the PE, one ramp after it came to the router, and the PE is free; it
   does a word a cycle, and its results are at the router one ramp later: a word sent from memory one ramp and one cycle
   after the operation begins.
2. A receive that combines and is followed by a send is one fused operation: the first word leaves two ramps and one add
   after it arrived, so a chain costs hop + 2 ramp + 1 a relay (6 on WSE-2) and streams.
3. From the end of one operation of a PE to the start of the next lies a launch gap; words that wait meanwhile do so in
   the PE's queue and have the ramp behind them: they took it from the stream that was being received.
4. A receive that only stores does not hold up the PE's own sends: another microthread takes it.
5. Streams that are on one link or one ramp at the same time share it (`wse.backends.fabric.line.contention`). A stream
   is computed when its turn in the pattern comes, with the windows of those before it; it delays stored ones
   afterwards, whose windows are longer then for those that come next.
6. Words that wait at their end fill the queues and wires of their way back to where they come from; only what finds no
   room there leaves later.

Source of the rules: the cycle logs of chain and two-phase reduces of the WSE-2 fabric simulator
(github.com/pr0f3ss/SpMM_Cerebras) and the model of Luczynski et al., HPDC 2024 (arXiv 2404.15888), whose additive
form is the closed form of what this computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wse.arrays import I32
from wse.backends.fabric.causes import Cycles
from wse.backends.fabric.line.conflicts import Conflict, Conflicts
from wse.backends.fabric.line.contention import (
    Contender,
    Interleaving,
    Share,
    Shares,
    Window,
    delay_cycles,
    delays_of,
    meet,
    wait_on_colour,
)
from wse.backends.fabric.line.event_times import (
    NEVER,
    START,
    Entry,
    EventTime,
    Stream,
    Way,
    add_delay,
    advance,
    next_launch,
)
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.segments import LinePlan, PathSegment, line_segments


@dataclass(frozen=True, slots=True)
class LineTime:
    """Times of patterns on one line, in cycles.

    Attributes:
        cycles: From the start of the first operation to the end of the last, by cause.
        contention_cycles: Those of them, under hops, in which words waited for words of other messages.
        streams: The most messages on one link, or one ramp, in one window; 1 where none waited.
    """

    cycles: Cycles
    contention_cycles: float = 0.0
    streams: int = 1

    @classmethod
    def of(cls, ends: Sequence[LineEnd]) -> LineTime:
        """Return the time of segments of a line that share no PE or link."""
        total, hops, relays, launch, contention = max((end.time for end in ends), default=START)
        streams = max(end.streams for end in ends) if contention else 1
        return cls(Cycles(total=total, hops=hops, relays=relays, launch=launch), contention, streams)


class LineEnd(NamedTuple):
    """The time at which the last operation of a line ended, and the maximum number of streams on one link or ramp."""

    time: EventTime
    streams: int


def line_cycles(messages: I32, words: int, costs: LineCosts, colours: I32 | None = None) -> Cycles:
    """Return the cycles of the messages of one line, starting with all PEs free.

    Args:
        messages: int32 ``[m, 3]``: source, target, Arrival.
        words: Words of each message.
        costs: Constants.
        colours: int32 ``[m]``: colours of the messages, where the pattern fixes them.
    """
    return LineTime.of([lines_end([(line_segments(messages, costs, colours), words)], costs, {})]).cycles


def lines_end(
    transfers: Sequence[tuple[LinePlan, int]], costs: LineCosts, conflicts: Mapping[tuple[int, int], Conflicts]
) -> LineEnd:
    """Return the end of patterns that run at the same time through the same PEs.

    Args:
        transfers: (plan, words) of each.
        costs: Constants.
        conflicts: Where pieces of a pattern meet those of an earlier one, by (pattern, earlier pattern).
    """
    lines: list[_LineState] = []
    for i, (plan, words) in enumerate(transfers):
        other_lines = [(line, conflicts[i, j]) for j, line in enumerate(lines) if (i, j) in conflicts]
        line = _LineState(plan, words, costs, other_lines)
        for segment in plan.segments:
            line.carry_out(segment)
        line.finish()
        lines.append(line)
    return LineEnd(max(line.end() for line in lines), max(line.streams for line in lines))


class _LineState:
    def __init__(
        self, plan: LinePlan, words: int, costs: LineCosts, other_lines: list[tuple[_LineState, Conflicts]]
    ) -> None:
        self.plan, self.words, self.costs, self.other_lines = plan, words, costs, other_lines
        self.ramp, self.gap, self.tail = costs.ramp, costs.gap, costs.tail(words)
        self.relay, self.relay_age, self.relay_room = costs.relay, costs.relay_latency, costs.relay_room
        self.contended = [bool(other_lines) or bool(turn or order) for turn, order in zip(*plan.conflicts, strict=True)]
        self.free: dict[int, EventTime] = {}  # when a PE's last operation ended
        self.waiting: dict[int, list[Stream]] = {}  # combining receives of a PE before its next send, in order
        self.entries: list[Entry | None] = [None] * len(plan.pieces)  # of those that streams have come to
        self.stored: dict[int, EventTime] = {}  # when the words of a piece were in memory beside the main thread
        self.shares: dict[int, Shares] = {}  # of each piece with those before it
        self.later: dict[int, Shares] = {}  # of stored ones with those that were computed after them
        self.streams = 1

    def carry_out(self, segment: PathSegment) -> None:
        """Compute one segment: its send, its relays, and its arrivals."""
        pe, relays, relays_hops, relays_relays, relays_age, relays_room, piece, end_piece, hops, room, target = segment
        first, last, way = self._send(pe)  # 1, 2
        if relays >= 0:
            held = 0.0
            if self.contended[relays]:
                first, last, held = self._share((relays,), way, first, last)  # 5
            self.entries[relays] = Entry(way, way.age, way.room, way.operations, first[0], last[0], held)
            way.age += relays_age
            way.room += relays_room
        if target < 0:
            self._store(range(piece, end_piece), way, first, last)
            return
        self.entries[piece] = Entry(way, way.age, way.room, way.operations, NEVER, NEVER)
        way.age += hops
        way.room += room
        first, last = (advance(time, relays_hops + hops, relays_relays) for time in (first, last))
        self.waiting.setdefault(target, []).append(Stream(first, last, way, piece, hops))

    def _store(self, pieces: Sequence[int], way: Way, first: EventTime, last: EventTime) -> None:
        """Store the words of pieces in the memory of the PEs that they reach, beside their main threads."""
        held = 0.0
        if any(map(self.contended.__getitem__, pieces)):
            first, last, held = self._share(pieces, way, first, last)  # 5
        for number in pieces:  # 4
            self.entries[number] = Entry(way, way.age, way.room, way.operations, first[0], last[0], held)
            self.stored[number] = advance(last, self.plan.hop_cycles[number], self.ramp + 1)

    def finish(self) -> None:
        """Finish the receives after which a PE sends nothing."""
        for pe, received in self.waiting.items():
            self._receive(pe, received)

    def end(self) -> EventTime:
        """Return the time at which the last operation ended."""
        stored = dict(self.stored)
        for piece in self.later:
            stored[piece] = add_delay(stored[piece], self._later_delay(piece))
        return max([START, *self.free.values(), *stored.values()])

    def _later_delay(self, piece: int) -> float:
        """Return the cycles that a stored piece is delayed by pieces that were computed after it."""
        before, others_later = self.shares.get(piece, {}), self.later.get(piece, {})
        resources = {**before, **others_later}
        both = {resource: before.get(resource, []) + others_later.get(resource, []) for resource in resources}
        return delay_cycles(both)[0] - delay_cycles(before)[0]

    def _send(self, pe: int) -> tuple[EventTime, EventTime, Way]:
        """Return the first and last word of a PE's next send at its router, and their path.

        What it received comes first.
        """
        received = self.waiting.pop(pe, None)
        if received:
            begin, last = self._receive(pe, received, self.relay)
            way = received[-1].way
            way.age += self.relay_age
            way.room += self.relay_room
        else:
            way, free = Way(), self.free.get(pe)
            begin = START if free is None else next_launch(free, self.gap)
            last = advance(begin, self.tail)
            self.free[pe] = advance(last, 0, 1)
        out = self.ramp + 1
        return advance(begin, 0, out), advance(last, 0, out), way

    def _receive(self, pe: int, received: list[Stream], relay: int = 0) -> tuple[EventTime, EventTime]:
        """Return the first and last word of a PE's last receive, which costs ``relay`` more if it is sent on."""
        ramp, tail, free, count = self.ramp, self.tail, self.free.get(pe), len(received)
        begin = last = START
        for i, (stream_first, stream_last, way, piece, age) in enumerate(received, start=1):
            total, hops, relays, launch, contention = stream_first
            ready = total + ramp
            begin = (ready, hops, relays + ramp, launch, contention)
            if free is not None:
                begin = max(begin, next_launch(free, self.gap))  # 1
            if relay and i == count:
                begin = advance(begin, 0, relay)
            if self.contended[piece]:
                begin = add_delay(begin, self._waiting_cycles(piece, begin[0] - ramp - age))
            total, hops, relays, launch, contention = begin
            start = total - ramp
            way.take(start, start + tail, total - ready)  # 6
            cycles: float = tail
            if self.contended[piece]:
                cycles += self._delay(piece, way, start - age, start - age + tail)  # 5
            if i < count:
                cycles += self._words_taken(received, i, total)  # 3
            last = (total + cycles, hops + cycles, relays, launch, contention + cycles - tail)
            total, hops, relays, launch, contention = stream_last
            last = max(last, (total + ramp, hops, relays + ramp, launch, contention))
            total, hops, relays, launch, contention = last
            way.end = total - ramp
            free = (total + 1, hops, relays + 1, launch, contention)
        assert free is not None
        self.free[pe] = free
        return begin, last

    def _words_taken(self, received: list[Stream], i: int, begin: float) -> int:
        """Return the words that waiting streams from ``i`` on take from the ramp while the one before is received."""
        stream, colours = received[i - 1], self.plan.colours
        end = max(begin + self.tail, stream.last[0] + self.ramp) - self.ramp
        queues, waiting_streams = {colours[stream.piece]}, 0
        for later_stream in received[i:]:
            colour = colours[later_stream.piece]
            if colour >= 0 and colour in queues:
                continue  # behind words on the same colour, outside of the PE
            queues.add(colour)
            waiting_streams += begin - self.ramp <= later_stream.first[0] <= end
        self.streams = max(self.streams, 1 + waiting_streams)
        return waiting_streams * min(self.costs.waiting_words, self.words)

    def _share(
        self, pieces: Sequence[int], way: Way, first: EventTime, last: EventTime
    ) -> tuple[EventTime, EventTime, float]:
        """Return a stream at the start of its pieces, with the delays of what it shares there.

        And the cycles by which others draw it out.
        """
        behind = max(self._waiting_cycles(number, first[0]) for number in pieces)
        first, last = add_delay(first, behind), add_delay(last, behind)
        cycles = max(self._delay(number, way, first[0], last[0]) for number in pieces)
        drawn_out = max(last, add_delay(advance(first, self.tail), cycles))
        return first, drawn_out, drawn_out[0] - last[0]

    def _waiting_cycles(self, piece: int, first: float) -> float:
        """Return the cycles for which earlier words on the same colour block a piece whose first word comes at
        ``first``.
        """
        conflicts = self.plan.conflicts.in_order[piece]
        entries = [(self.entries[conflict.other_piece], conflict.shared_ends) for conflict in conflicts]
        ends = [(entry.span()[1], shared_ends) for entry, shared_ends in entries if entry is not None]
        return wait_on_colour(first, [before for before in ends if before[0] < NEVER]) if conflicts else 0.0

    def _delay(self, piece: int, way: Way, first: float, last: float) -> float:
        """Return the cycles that contention adds to a piece's words, and delay the pieces that share with it."""
        contenders = self._contenders(self.plan.conflicts.in_turn[piece], way, first, last)
        for line, conflicts in self.other_lines:
            contenders += line._contenders(conflicts.in_turn[piece], None, first, last)
        if not contenders:
            return 0.0
        delays = delays_of(Window(first, last, self.words), contenders)
        self.shares[piece] = delays.shares
        cycles, streams = delay_cycles(delays.shares)
        self.streams = max(self.streams, streams)
        for contender, effect in delays.effects_on_others:
            contender.owner.delay(contender.conflict, effect)
        return cycles

    def delay(self, conflict: Conflict, effect: Interleaving) -> None:
        """Delay a stored piece that was computed without the conflicting piece."""
        piece, entry = conflict.other_piece, self.entries[conflict.other_piece]
        if piece not in self.stored or entry is None:
            return
        before = self._later_delay(piece)
        shares = self.later.setdefault(piece, {})
        shares.setdefault(conflict.resource, []).append(Share(conflict.low, conflict.high, effect))
        cycles = self._later_delay(piece) - before
        self.entries[piece] = entry._replace(last=entry.last + cycles, held=entry.held + cycles)

    def _contenders(
        self, conflicts: list[Conflict], way: Way | None, first: float, last: float
    ) -> list[Contender[_LineState]]:
        """Return the pieces that conflict with a stream; of this line only those that were computed before."""
        contenders = []
        for conflict in conflicts:
            entry = self.entries[conflict.other_piece]
            if entry is not None and meet(first, last, *entry.span(), conflict.shared_ends):
                window = entry.window(self.words, self.costs)
                contenders.append(Contender(conflict, window, entry.way is way, self))
        return contenders
