"""Cycle count of a pattern along one line of PEs: a max-plus recurrence over its messages.

A message is a *stream* of words. Its first word leaves the sender's router at some time and crosses
each hop in ``hop`` cycles. The other words follow at one per cycle, with pauses on machines whose
vector operations pause. The functions compute, message by message, when streams reach routers and
when PEs become free, by these rules:

1. An operation begins when the PE is free and the first word is in the PE, one ramp after it
   reached the router. It processes one word per cycle. Its results are at the router one ramp
   later: a word sent from SRAM is there one ramp and one cycle after the operation begins.
2. A receive that combines words (adds, or takes the maximum) and is followed by a send is one fused
   operation. Its first word leaves two ramps and one add after it arrived. A chain therefore costs
   hop + 2 ramp + 1 cycles per relay (6 on WSE-2), and words stream through it.
3. A launch gap separates the end of one operation of a PE from the start of the next. Words that
   arrive while another stream is received wait in a queue of the PE. They have already passed the
   ramp, and used ramp cycles of the stream that was being received.
4. A receive that only stores words does not delay the PE's own sends, because another microthread
   performs it.
5. Streams that are on a link or ramp at the same time share it
   (`wse.backends.fabric.line.contention.delays`). Streams are computed in the order of the pattern,
   each with the time windows of the streams before it. A stream may afterwards still delay earlier
   ones that are only stored; this lengthens their windows for later streams.
6. Words that wait at their destination fill the queues and wires along their path, from the
   destination back to the source. Only words that find no room there leave the source later.

Sources of the rules: published cycle logs in which the WSE-2 fabric simulator executes two reduce
algorithms, chain and two-phase (github.com/pr0f3ss/SpMM_Cerebras), and the model of Luczynski et
al., HPDC 2024 (arXiv 2404.15888). The additive form of that model is the closed form of this
recurrence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wse.arrays import I32
from wse.backends.fabric.causes import Cycles
from wse.backends.fabric.line.contention.conflicts import Conflicts
from wse.backends.fabric.line.event_times import (
    NEVER,
    START,
    EventTime,
    PieceArrival,
    Stream,
    StreamPath,
    add_delay,
    advance,
    next_launch,
)
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_streams import LineStreams
from wse.backends.fabric.line.segments import LinePlan, PathSegment, line_segments


@dataclass(frozen=True, slots=True)
class LineTime:
    """Time of the patterns that run on one line at the same time, in cycles.

    Attributes:
        cycles: Cycles by cause, from the start of the first operation to the end of the last.
        contention_cycles: Part of ``cycles.hops`` in which words waited for words of other
            messages.
        streams: Maximum number of messages that shared a link or ramp at one time; 1 if no words
            waited.
    """

    cycles: Cycles
    contention_cycles: float = 0.0
    streams: int = 1

    @classmethod
    def of(cls, ends: Sequence[LineEnd]) -> LineTime:
        """Return the time of a line of PEs, given the ends of all its sections.

        Args:
            ends: End of the last operation of each section (part of the line that no message
                leaves). The slowest section determines the cycles.
        """
        total, hops, relays, launch, contention = max((end.time for end in ends), default=START)
        streams = max(end.streams for end in ends) if contention else 1
        return cls(Cycles(total=total, hops=hops, relays=relays, launch=launch), contention, streams)


class LineEnd(NamedTuple):
    """End of the last operation on a line of PEs.

    Attributes:
        time: Cycle at which the operation ends, broken down by cause.
        streams: Maximum number of streams that shared a link or ramp at one time.
    """

    time: EventTime
    streams: int


def line_cycles(messages: I32, words: int, costs: LineCosts, colours: I32 | None = None) -> Cycles:
    """Return how many cycles one line needs to deliver its messages if all PEs are free at first.

    Args:
        messages: int32 ``[m, 3]``: sending PE, receiving PE, effect at the receiver (Arrival).
        words: Words of each message.
        costs: Cycle counts and queue sizes for words on a line of PEs.
        colours: int32 ``[m]``, colours of the messages, if the pattern fixes them.
    """
    return LineTime.of([lines_end([(line_segments(messages, costs, colours), words)], costs, {})]).cycles


def lines_end(
    transfers: Sequence[tuple[LinePlan, int]], costs: LineCosts, conflicts: Mapping[tuple[int, int], Conflicts]
) -> LineEnd:
    """Return when the last of several patterns ends, if they start together on the same PEs.

    The patterns run on the same line of PEs, or on lines that cross. They are timed in the order of
    ``transfers``, and each competes with the earlier ones for links and ramps.

    Args:
        transfers: (plan, words per message) of each pattern. A plan contains the messages of the
            pattern, grouped for the computation.
        costs: Cycle counts and queue sizes for words on a line of PEs.
        conflicts: Keys are (pattern, earlier pattern), as indices into ``transfers``; values are
            the places where the messages of the two patterns use the same link or ramp.
    """
    lines: list[_LineState] = []
    for i, (plan, words) in enumerate(transfers):
        other_lines = [(line.streams, conflicts[i, j]) for j, line in enumerate(lines) if (i, j) in conflicts]
        line = _LineState(plan, words, costs, other_lines)
        for segment in plan.segments:
            line.carry_out(segment)
        line.finish()
        lines.append(line)
    return LineEnd(max(line.end() for line in lines), max(line.streams.max_streams for line in lines))


class _LineState:
    """State of one line of PEs while its messages are timed.

    The state contains the time at which each PE becomes free, and the words that it has not yet
    received. Messages are timed in order, one path segment after another. A path segment is a send
    of one PE, with the path of its words to the next receiving PE.

    Numbers in comments refer to the rules in the docstring of the module.
    """

    def __init__(
        self, plan: LinePlan, words: int, costs: LineCosts, other_lines: list[tuple[LineStreams, Conflicts]]
    ) -> None:
        self.plan, self.words, self.costs = plan, words, costs
        self.streams = LineStreams(plan, words, costs, other_lines)
        self.ramp, self.gap, self.tail = costs.ramp, costs.gap, costs.tail(words)
        self.relay, self.relay_latency, self.relay_room = costs.relay, costs.relay_latency, costs.relay_room
        self.contended, self.arrivals = self.streams.contended, self.streams.arrivals
        self.free: dict[int, EventTime] = {}  # when a PE's last operation ended
        self.waiting: dict[int, list[Stream]] = {}  # combining receives of a PE before its next send, in order

    def carry_out(self, segment: PathSegment) -> None:
        """Compute when the words of one path segment leave their sender and reach the receiver.

        Args:
            segment: A send of one PE, with the path of its words to the next receiving PE.
        """
        pe, run_piece, run_hops, run_relays, run_age, run_room, piece, end_piece, hops, room, target = segment
        first, last, path = self._send(pe)  # 1, 2
        if run_piece >= 0:
            first, last = self.streams.enter((run_piece,), path, first, last)  # 5
            path.age += run_age
            path.room += run_room
        if target < 0:
            self.streams.store(range(piece, end_piece), path, first, last)  # 4, 5
            return
        self.arrivals[piece] = PieceArrival(path, path.age, path.room, path.operations, NEVER, NEVER)
        path.age += hops
        path.room += room
        first, last = (advance(time, run_hops + hops, run_relays) for time in (first, last))
        self.waiting.setdefault(target, []).append(Stream(first, last, path, piece, hops))

    def finish(self) -> None:
        """Compute the receives that are still pending, on PEs that send nothing afterwards."""
        for pe, streams in self.waiting.items():
            self._receive(pe, streams)

    def end(self) -> EventTime:
        """Return the time at which the last operation or store of the line ends."""
        return max([START, *self.free.values(), *self.streams.delayed_stored_ends()])

    def _send(self, pe: int) -> tuple[EventTime, EventTime, StreamPath]:
        """Compute the pending receives of a PE and then its next send.

        Returns:
            Times of the first and last word at the router of the PE, and their path.
        """
        streams = self.waiting.pop(pe, None)
        if streams:
            begin, last = self._receive(pe, streams, self.relay)
            path = streams[-1].path
            path.age += self.relay_latency
            path.room += self.relay_room
        else:
            path, free = StreamPath(), self.free.get(pe)
            begin = START if free is None else next_launch(free, self.gap)
            last = advance(begin, self.tail)
            self.free[pe] = advance(last, 0, 1)
        out = self.ramp + 1
        return advance(begin, 0, out), advance(last, 0, out), path

    def _receive(self, pe: int, streams: list[Stream], relay: int = 0) -> tuple[EventTime, EventTime]:
        """Compute when a PE receives the words that wait for it and combines them with its own.

        Args:
            pe: Index of the PE.
            streams: The waiting words of each message, in the order in which they are received.
            relay: Additional cycles before the last receive starts; 0 if its words are not sent on.

        Returns:
            Times of the first and last word of the last receive.
        """
        ramp, tail, free, count = self.ramp, self.tail, self.free.get(pe), len(streams)
        begin = last = START
        for i, (stream_first, stream_last, path, piece, age) in enumerate(streams, start=1):
            total, hops, relays, launch, contention = stream_first
            ready = total + ramp
            begin = (ready, hops, relays + ramp, launch, contention)
            if free is not None:
                begin = max(begin, next_launch(free, self.gap))  # 1
            if relay and i == count:
                begin = advance(begin, 0, relay)
            if self.contended[piece]:
                begin = add_delay(begin, self.streams.waiting_cycles(piece, begin[0] - ramp - age))
            total, hops, relays, launch, contention = begin
            start = total - ramp
            path.take(start, start + tail, total - ready)  # 6
            cycles: float = tail
            if self.contended[piece]:
                cycles += self.streams.resolve_contention(piece, path, start - age, start - age + tail)  # 5
            if i < count:
                cycles += self._lost_ramp_cycles(streams, i, total)  # 3
            last = (total + cycles, hops + cycles, relays, launch, contention + cycles - tail)
            total, hops, relays, launch, contention = stream_last
            last = max(last, (total + ramp, hops, relays + ramp, launch, contention))
            total, hops, relays, launch, contention = last
            path.end = total - ramp
            free = (total + 1, hops, relays + 1, launch, contention)
        assert free is not None
        self.free[pe] = free
        return begin, last

    def _lost_ramp_cycles(self, streams: list[Stream], i: int, begin: float) -> int:
        """Return how many cycles a receive loses because waiting words use the ramp into the PE.

        Words of a message that arrives during the receive use the ramp until they fill the queue of
        their colour, or until all of them have arrived.

        Args:
            streams: Words of each message that the PE receives, in order.
            i: Index of the first waiting message; message ``i - 1`` is being received.
            begin: Cycle at which this receive begins.
        """
        stream, colours = streams[i - 1], self.plan.colours
        end = max(begin + self.tail, stream.last[0] + self.ramp) - self.ramp
        queues, waiting_streams = {colours[stream.piece]}, 0
        for later_stream in streams[i:]:
            colour = colours[later_stream.piece]
            if colour >= 0 and colour in queues:
                continue  # queued behind words of the same colour, outside of the PE
            queues.add(colour)
            waiting_streams += begin - self.ramp <= later_stream.first[0] <= end
        self.streams.max_streams = max(self.streams.max_streams, 1 + waiting_streams)
        return waiting_streams * min(self.costs.waiting_words, self.words)
