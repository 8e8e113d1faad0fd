"""Cycles of a pattern along one line of PEs: a max-plus recurrence over its messages.

A message is a stream of words. Its first word leaves the sender's router at some time, crosses a hop in ``hop`` cycles,
and the rest follow one a cycle, with a pause where the machine's vector operations make one. A PE does its operations
in their order:

- an operation begins when its first word is in the PE, one ramp after it came to the router, and the PE is free; it
  does a word a cycle, and its results are at the router one ramp later: a word sent from memory one ramp and one cycle
  after the operation begins;
- a receive that combines and is followed by a send is one fused operation: the first word leaves two ramps and one
  add after it arrived, so a chain costs hop + 2 ramp + 1 a relay (6 on WSE-2) and streams;
- from the end of one operation of a PE to the start of the next lies a launch gap; words that wait meanwhile do so in
  the PE's queue and have the ramp behind them: they took it from the stream that was being received;
- a receive that only stores does not hold up the PE's own sends (another microthread takes it);
- streams that are on one link or one ramp at the same time share it (``wse.fabric.line.contention``).

Source of the rules: the cycle logs of chain and two-phase reduces of the WSE-2 fabric simulator
(github.com/pr0f3ss/SpMM_Cerebras) and the model of Luczynski et al., HPDC 2024 (arXiv 2404.15888), whose additive
form is the closed form of what this computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wse.fabric.causes import Cycles
from wse.fabric.line.conflicts import Meeting
from wse.fabric.line.contention import Met, Pace, Shares, Turns, Window, held_cycles, held_up, passed
from wse.fabric.line.event_times import START, Moment, Passed, Stream
from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.segments import I32, Leg, LinePlan, plan_legs


@dataclass(frozen=True, slots=True)
class LineTime:
    """What patterns on one line take.

    Attributes:
        cycles: From the start of the first operation to the end of the last, by cause.
        contention_cycles: Those of them, under hops, in which words waited for words of other messages.
        streams: The most messages on one link, or one ramp, in one window; 1 where none waited.
    """

    cycles: Cycles
    contention_cycles: float = 0.0
    streams: int = 1


Meetings = Mapping[tuple[int, int], list[list[Meeting]]]


def line_cycles(messages: I32, words: int, costs: LineCosts, channel: I32 | None = None) -> Cycles:
    """Cycles of the messages of one line, starting with all PEs free.

    Args:
        messages: int32 ``[m, 3]``: source, target, Arrival.
        words: Words of each message.
        costs: Constants.
        channel: int32 ``[m]``: their colours, where the pattern fixes them.
    """
    return lines_time([(plan_legs(messages, channel), words)], costs, {}).cycles


def lines_time(transfers: Sequence[tuple[LinePlan, int]], costs: LineCosts, meetings: Meetings) -> LineTime:
    """Cycles of patterns that run at the same time through the same PEs, the first one's threads before the others'.

    Args:
        transfers: (plan, words) of each.
        costs: Constants.
        meetings: Where pieces of a pattern meet those of an earlier one, by (pattern, earlier pattern).
    """
    lines: list[_Line] = []
    for i, (plan, words) in enumerate(transfers):
        others = [(line, meetings[i, j]) for j, line in enumerate(lines) if (i, j) in meetings]
        line = _Line(plan, words, costs, others)
        for leg in plan.legs:
            line.leg(leg)
        line.finish()
        lines.append(line)
    end = max((line.end() for line in lines), default=START)
    streams = max((line.streams for line in lines), default=1)
    cycles = Cycles(total=end.total, hops=end.hops, relays=end.relays, launch=end.launch)
    return LineTime(cycles, end.shared, streams if end.shared else 1)


class _Line:
    def __init__(
        self, plan: LinePlan, words: int, costs: LineCosts, others: list[tuple[_Line, list[list[Meeting]]]]
    ) -> None:
        self.plan, self.words, self.costs, self.others = plan, words, costs, others
        self.tail = costs.tail(words)
        self.pace = Pace(hop=costs.hop, relay=costs.fused, hop_room=costs.hop_room, relay_room=costs.relay_room)
        self.free: dict[int, Moment] = {}  # when a PE's last operation ended
        self.waiting: dict[int, list[Stream]] = {}  # combining receives of a PE before its next send, in order
        self.windows: list[Window | None] = [None] * len(plan.pieces)
        self.stored: dict[int, Moment] = {}  # when the words of a piece were in memory beside the main thread
        self.shares: dict[int, Shares] = {}  # of each piece with those before it
        self.later: dict[int, Shares] = {}  # of stored ones with those that were worked out after them
        self.streams = 1

    def leg(self, leg: Leg) -> None:
        """Carry out one leg."""
        costs, pieces = self.costs, self.plan.pieces
        stream = self._send(leg.source)
        if leg.relays >= 0:
            stream = self._through((leg.relays,), stream)
            hops, count = pieces[leg.relays].hops, pieces[leg.relays].relays
            room = hops * costs.hop_room + count * costs.relay_room
            times = {"hops": hops * costs.hop, "relays": count * costs.fused, "software": count * costs.relay}
            stream = self._by(leg.relays, stream).later(room, **times)
        if leg.target < 0:
            stream = self._through(leg.pieces, stream)
        for number in leg.pieces:
            count = pieces[number].hops
            arrived = self._by(number, stream).later(count * costs.hop_room, hops=count * costs.hop)
            if leg.target >= 0:
                self.waiting.setdefault(leg.target, []).append(arrived)
            else:
                self.stored[number] = arrived.last.after(relays=costs.ramp + 1)

    @staticmethod
    def _by(piece: int, stream: Stream) -> Stream:
        return stream._replace(way=(*stream.way, Passed(piece, 0, 0)))

    def finish(self) -> None:
        """Receives after which a PE sends no more end in its memory."""
        for pe in list(self.waiting):
            self._operate(pe, self.waiting.pop(pe))

    def end(self) -> Moment:
        """When the last operation ended."""
        stored = dict(self.stored)
        for piece, later in self.later.items():
            before = self.shares.get(piece, {})
            both = {over: before.get(over, []) + later.get(over, []) for over in {**before, **later}}
            stored[piece] = stored[piece].held(held_cycles(both)[0] - held_cycles(before)[0])
        return max([START, *self.free.values(), *stored.values()])

    def _send(self, pe: int) -> Stream:
        """A PE's next send, at its router; what it received before comes first."""
        received = self.waiting.pop(pe, [])
        begin, last = self._operate(pe, received, sends=True)
        fused, room = self.costs.fused, self.costs.relay_room
        way = tuple(Passed(piece, ago + fused, had + room) for piece, ago, had in received[-1].way) if received else ()
        out = self.costs.ramp + 1
        return Stream(begin.after(relays=out), last.after(relays=out), way)

    def _operate(self, pe: int, received: list[Stream], *, sends: bool = False) -> tuple[Moment, Moment]:
        """The cycles of the first and last word of the PE's last operation: the last receive, or words of its own."""
        costs, begin, last = self.costs, START, START
        for i, stream in enumerate(received):
            ready = stream.first.after(relays=costs.ramp)
            begin = max(self._free(pe), ready)
            if sends and i + 1 == len(received):
                begin = begin.after(relays=costs.relay)
            piece, ago, _ = stream.way[-1]
            before = begin.total - costs.ramp - ago
            behind = self._behind(piece, Window(before, before + self.tail, self.words))
            if behind > 0:
                begin, before = begin.held(behind), before + behind
            stall = begin.total - ready.total
            self._push_back(stream, begin.total, begin.total + self.tail, stall)
            held = self._held(stream.way, piece, Window(before, before + self.tail, self.words))
            taken = self._taken(stream, received[i + 1 :], begin)
            last = max(begin.after(hops=self.tail), stream.last.after(relays=costs.ramp))
            last = max(last, begin.after(hops=self.tail).held(held + taken))
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
        ramp = self.costs.ramp
        for piece, ago, room in stream.way:
            first, gone = begin - ramp - ago, ago + ramp + stall if stall > 0 else 0.0
            window = Window(first, last - ramp - ago, self.words, gone, room + self.costs.waiting_words)
            self.windows[piece] = window

    def _taken(self, stream: Stream, later: list[Stream], begin: Moment) -> int:
        """Words that streams that have yet to wait take from the ramp while this one is received."""
        ramp = self.costs.ramp
        end = max(begin.total + self.tail, stream.last.total + ramp) - ramp
        queues, others = {self._channel(stream)} - {-1}, 0
        for other in later:
            channel = self._channel(other)
            if channel in queues:
                continue  # behind words on the same colour, outside of the PE
            queues |= {channel} - {-1}
            others += begin.total - ramp <= other.first.total <= end
        self.streams = max(self.streams, 1 + others)
        return others * min(self.costs.waiting_words, self.words)

    def _channel(self, stream: Stream) -> int:
        return self.plan.pieces[stream.way[-1].piece].channel

    def _free(self, pe: int) -> Moment:
        """When the PE can start another operation."""
        free = self.free.get(pe)
        return START if free is None else free.after(launch=self.costs.gap)

    def _through(self, pieces: tuple[int, ...], stream: Stream) -> Stream:
        """The same words, still at the start of pieces which they take in step, when they share what those use."""
        alone = Window(stream.first.total, stream.last.total, self.words)
        behind = max(self._behind(piece, alone) for piece in pieces)
        if behind > 0:
            stream = stream._replace(first=stream.first.held(behind), last=stream.last.held(behind))
            alone = Window(stream.first.total, stream.last.total, self.words)
        cycles = max(self._held(stream.way, piece, alone) for piece in pieces)
        last = max(stream.last, stream.first.after(hops=self.tail).held(cycles))
        for piece in pieces:
            self.windows[piece] = Window(stream.first.total, last.total, self.words)
        return stream._replace(last=last)

    def _behind(self, piece: int, mine: Window) -> float:
        """Cycles for which words on the same colour are still before these."""
        return passed(mine, self._met(self.plan.meetings[piece], ()), self.pace)

    def _held(self, way: tuple[Passed, ...], piece: int, mine: Window) -> float:
        """Cycles that sharing adds to a piece's words; those that they share with are held up as well."""
        met = self._met(self.plan.meetings[piece], way)
        for line, meetings in self.others:
            met += line._met(meetings[piece], ())
        if not met:
            return 0.0
        held = held_up(mine, met, self.pace)
        self.shares[piece] = held.shares
        cycles, streams = held_cycles(held.shares)
        self.streams = max(self.streams, streams)
        for other, turns in held.others:
            other.line.hold(other.meeting, turns)
        return cycles

    def hold(self, meeting: Meeting, turns: Turns) -> None:
        """Hold up a stored piece, which was worked out without those that it meets there."""
        if meeting.other in self.stored:
            shares = self.later.setdefault(meeting.other, {})
            shares.setdefault(meeting.over, []).append((meeting.low, meeting.high, turns))

    def _met(self, meetings: list[Meeting], way: tuple[Passed, ...]) -> list[Met[_Line]]:
        feeding = {passed.piece for passed in way}
        known = ((m, self.windows[m.other]) for m in meetings)
        return [Met(m, window, m.other in feeding, self) for m, window in known if window is not None]
