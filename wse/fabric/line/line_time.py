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
5. Streams that are on one link or one ramp at the same time share it (`wse.fabric.line.contention`). A stream is worked
   out when its turn in the pattern comes, with the windows of those before it; it delays stored ones afterwards.
6. Words that wait at their end fill the queues and wires of their way back to where they come from; only what finds no
   room there leaves later.

Source of the rules: the cycle logs of chain and two-phase reduces of the WSE-2 fabric simulator
(github.com/pr0f3ss/SpMM_Cerebras) and the model of Luczynski et al., HPDC 2024 (arXiv 2404.15888), whose additive
form is the closed form of what this computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wse.arrays import I32
from wse.fabric.causes import Cycles
from wse.fabric.line.conflicts import Conflict
from wse.fabric.line.contention import (
    Contender,
    Interleaving,
    Pace,
    Share,
    Shares,
    Window,
    delay_cycles,
    delays_of,
    wait_on_colour,
)
from wse.fabric.line.event_times import START, EventTime, PassedPiece, Stream
from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.segments import LinePlan, PathSegment, plan_line


@dataclass(frozen=True, slots=True)
class LineTime:
    """Cycles of patterns on one line.

    Attributes:
        cycles: From the start of the first operation to the end of the last, by cause.
        contention_cycles: Those of them, under hops, in which words waited for words of other messages.
        streams: The most messages on one link, or one ramp, in one window; 1 where none waited.
    """

    cycles: Cycles
    contention_cycles: float = 0.0
    streams: int = 1


Conflicts = Mapping[tuple[int, int], list[list[Conflict]]]


def line_cycles(messages: I32, words: int, costs: LineCosts, colours: I32 | None = None) -> Cycles:
    """Cycles of the messages of one line, starting with all PEs free.

    Args:
        messages: int32 ``[m, 3]``: source, target, Arrival.
        words: Words of each message.
        costs: Constants.
        colours: int32 ``[m]``: colours of the messages, where the pattern fixes them.
    """
    return lines_time([(plan_line(messages, colours), words)], costs, {}).cycles


def lines_time(transfers: Sequence[tuple[LinePlan, int]], costs: LineCosts, conflicts: Conflicts) -> LineTime:
    """Cycles of patterns that run at the same time through the same PEs, the first one's threads before the others'.

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
    end = max((line.end() for line in lines), default=START)
    streams = max((line.streams for line in lines), default=1)
    cycles = Cycles(total=end.total, hops=end.hops, relays=end.relays, launch=end.launch)
    return LineTime(cycles, end.contention, streams if end.contention else 1)


class _LineState:
    def __init__(
        self, plan: LinePlan, words: int, costs: LineCosts, other_lines: list[tuple[_LineState, list[list[Conflict]]]]
    ) -> None:
        self.plan, self.words, self.costs, self.other_lines = plan, words, costs, other_lines
        self.tail = costs.tail(words)
        self.pace = Pace(hop=costs.hop, relay=costs.relay_latency, hop_room=costs.hop_room, relay_room=costs.relay_room)
        self.free: dict[int, EventTime] = {}  # when a PE's last operation ended
        self.waiting: dict[int, list[Stream]] = {}  # combining receives of a PE before its next send, in order
        self.windows: list[Window | None] = [None] * len(plan.pieces)
        self.stored: dict[int, EventTime] = {}  # when the words of a piece were in memory beside the main thread
        self.shares: dict[int, Shares] = {}  # of each piece with those before it
        self.later: dict[int, Shares] = {}  # of stored ones with those that were worked out after them
        self.streams = 1

    def carry_out(self, segment: PathSegment) -> None:
        """Carry out one segment: its send, its relays, and its arrivals."""
        costs, pieces = self.costs, self.plan.pieces
        stream = self._send(segment.source)  # 1, 2
        if segment.relays >= 0:
            stream = self._through((segment.relays,), stream)  # 5
            hops, count = pieces[segment.relays].hops, pieces[segment.relays].relays
            room = hops * costs.hop_room + count * costs.relay_room
            times = {"hops": hops * costs.hop, "relays": count * costs.relay_latency, "software": count * costs.relay}
            stream = self._by(segment.relays, stream).farther(room, **times)
        if segment.target < 0:
            stream = self._through(segment.pieces, stream)
        for number in segment.pieces:
            count = pieces[number].hops
            arrived = self._by(number, stream).farther(count * costs.hop_room, hops=count * costs.hop)
            if segment.target >= 0:
                self.waiting.setdefault(segment.target, []).append(arrived)
            else:  # 4
                self.stored[number] = arrived.last.after(relays=costs.ramp + 1)

    @staticmethod
    def _by(piece: int, stream: Stream) -> Stream:
        return Stream(stream.first, stream.last, (*stream.way, PassedPiece(piece, 0, 0)))

    def finish(self) -> None:
        """Receives after which a PE sends no more end in its memory."""
        for pe in list(self.waiting):
            self._operate(pe, self.waiting.pop(pe))

    def end(self) -> EventTime:
        """The time at which the last operation ended."""
        stored = dict(self.stored)
        for piece, later in self.later.items():
            before = self.shares.get(piece, {})
            both = {resource: before.get(resource, []) + later.get(resource, []) for resource in {**before, **later}}
            stored[piece] = stored[piece].delay(delay_cycles(both)[0] - delay_cycles(before)[0])
        return max([START, *self.free.values(), *stored.values()])

    def _send(self, pe: int) -> Stream:
        """A PE's next send, at its router; what it received before comes first."""
        received = self.waiting.pop(pe, [])
        begin, last = self._operate(pe, received, sends=True)
        fused, room = self.costs.relay_latency, self.costs.relay_room
        way = (
            tuple(PassedPiece(piece, age + fused, had + room) for piece, age, had in received[-1].way)
            if received
            else ()
        )
        out = self.costs.ramp + 1
        return Stream(begin.after(relays=out), last.after(relays=out), way)

    def _operate(self, pe: int, received: list[Stream], *, sends: bool = False) -> tuple[EventTime, EventTime]:
        """The cycles of the first and last word of the PE's last operation: the last receive, or words of its own."""
        costs, begin, last = self.costs, START, START
        for i, stream in enumerate(received):
            ready = stream.first.after(relays=costs.ramp)
            begin = max(self._free(pe), ready)  # 1
            if sends and i + 1 == len(received):
                begin = begin.after(relays=costs.relay)
            piece, age, _ = stream.way[-1]
            before = begin.total - costs.ramp - age
            behind = self._behind(piece, Window(before, before + self.tail, self.words))
            if behind > 0:
                begin, before = begin.delay(behind), before + behind
            stall = begin.total - ready.total
            self._push_back(stream, begin.total, begin.total + self.tail, stall)  # 6
            delay = self._delay(stream.way, piece, Window(before, before + self.tail, self.words))  # 5
            taken = self._words_taken(stream, received[i + 1 :], begin)  # 3
            last = max(begin.after(hops=self.tail), stream.last.after(relays=costs.ramp))
            last = max(last, begin.after(hops=self.tail).delay(delay + taken))
            self._push_back(stream, begin.total, last.total, stall)
            self.free[pe] = last.after(relays=1)
        if not received:
            begin = self._free(pe)
            last = begin.after(hops=self.tail)
            self.free[pe] = last.after(relays=1)
        return begin, last

    def _push_back(self, stream: Stream, begin: float, last: float, stall: float) -> None:
        """Words go as the operation takes them, all the way from the memory that they come from.

        While they wait for it to begin they fill the room on the way; only what finds none there still has to come.
        """
        ramp, words, waiting_words = self.costs.ramp, self.words, self.costs.waiting_words
        for piece, age, room in stream.way:
            first, departed_words = begin - ramp - age, age + ramp + stall if stall > 0 else 0.0
            self.windows[piece] = Window(first, last - ramp - age, words, departed_words, room + waiting_words)

    def _words_taken(self, stream: Stream, later: list[Stream], begin: EventTime) -> int:
        """Words that streams that have yet to wait take from the ramp while this one is received."""
        ramp = self.costs.ramp
        end = max(begin.total + self.tail, stream.last.total + ramp) - ramp
        queues, waiting_streams = {self._colour(stream)} - {-1}, 0
        for later_stream in later:
            colour = self._colour(later_stream)
            if colour in queues:
                continue  # behind words on the same colour, outside of the PE
            queues |= {colour} - {-1}
            waiting_streams += begin.total - ramp <= later_stream.first.total <= end
        self.streams = max(self.streams, 1 + waiting_streams)
        return waiting_streams * min(self.costs.waiting_words, self.words)

    def _colour(self, stream: Stream) -> int:
        return self.plan.pieces[stream.way[-1].piece].colour

    def _free(self, pe: int) -> EventTime:
        """The time at which the PE can start another operation."""
        free = self.free.get(pe)
        return START if free is None else free.after(launch=self.costs.gap)

    def _through(self, pieces: tuple[int, ...], stream: Stream) -> Stream:
        """The stream, still at the start of pieces that it takes in step, with the delays of what it shares there."""
        alone = Window(stream.first.total, stream.last.total, self.words)
        behind = max(self._behind(piece, alone) for piece in pieces)
        if behind > 0:
            stream = Stream(stream.first.delay(behind), stream.last.delay(behind), stream.way)
            alone = Window(stream.first.total, stream.last.total, self.words)
        cycles = max(self._delay(stream.way, piece, alone) for piece in pieces)
        last = max(stream.last, stream.first.after(hops=self.tail).delay(cycles))
        for piece in pieces:
            self.windows[piece] = Window(stream.first.total, last.total, self.words)
        return Stream(stream.first, last, stream.way)

    def _behind(self, piece: int, window: Window) -> float:
        """Cycles for which words on the same colour are still before these."""
        return wait_on_colour(window, self._contenders(self.plan.conflicts[piece], ()), self.pace)

    def _delay(self, way: tuple[PassedPiece, ...], piece: int, window: Window) -> float:
        """Cycles that contention adds to a piece's words; those that it shares with are delayed as well."""
        contenders = self._contenders(self.plan.conflicts[piece], way)
        for line, conflicts in self.other_lines:
            contenders += line._contenders(conflicts[piece], ())
        if not contenders:
            return 0.0
        delays = delays_of(window, contenders, self.pace)
        self.shares[piece] = delays.shares
        cycles, streams = delay_cycles(delays.shares)
        self.streams = max(self.streams, streams)
        for contender, effect in delays.effects_on_others:
            contender.owner.delay(contender.conflict, effect)
        return cycles

    def delay(self, conflict: Conflict, effect: Interleaving) -> None:
        """Hold up a stored piece, which was worked out without those that it meets there."""
        if conflict.other_piece in self.stored:
            shares = self.later.setdefault(conflict.other_piece, {})
            shares.setdefault(conflict.resource, []).append(Share(conflict.low, conflict.high, effect))

    def _contenders(self, conflicts: list[Conflict], way: tuple[PassedPiece, ...]) -> list[Contender[_LineState]]:
        if not conflicts:
            return []
        feeding = {passed.piece for passed in way}
        known = ((conflict, self.windows[conflict.other_piece]) for conflict in conflicts)
        return [
            Contender(conflict, window, conflict.other_piece in feeding, self)
            for conflict, window in known
            if window is not None
        ]
