"""Streams of words on one line that have been computed so far, and the delays of later ones.

Each stream competes with the streams before it for links and ramps. A stream may also delay earlier
ones whose words are only stored at their destination.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse.backends.fabric.line.contention.conflicts import Conflict, Conflicts
from wse.backends.fabric.line.contention.delays import (
    Contender,
    Interleaving,
    SharedSpan,
    SharedSpans,
    delay_cycles,
    delays_of,
    wait_on_colour,
)
from wse.backends.fabric.line.event_times import (
    NEVER,
    EventTime,
    PieceArrival,
    StreamPath,
    Window,
    add_delay,
    advance,
    overlap_in_time,
)
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.segments import LinePlan


class LineStreams:
    """Times at which the words of messages travel on one line of PEs.

    The words of a message form a stream. Streams are computed one after another, in the order of
    the messages. A piece is a part of a message's path.

    Attributes:
        plan: Messages of the line, with the pieces and conflicts of their paths.
        words: Number of words of each message.
        costs: Cycle counts and queue sizes for words on a line of PEs.
        other_lines: Streams of other lines that use the same links or ramps, each with the
            conflicts of this line's pieces with the pieces of that line.
        tail: Cycles from the first to the last word of a stream without delays.
        contended: For each piece, whether it shares a link or ramp with another piece.
        arrivals: For each piece, when its words arrive; None until this has been computed.
        stored_ends: For each piece whose words are stored at its end, the time at which all of them
            are in SRAM. Delays by streams that were computed later are not included.
        max_streams: Maximum number of streams that shared a link or ramp at one time.
    """

    def __init__(
        self, plan: LinePlan, words: int, costs: LineCosts, other_lines: list[tuple[LineStreams, Conflicts]]
    ) -> None:
        self.plan, self.words, self.costs, self.other_lines = plan, words, costs, other_lines
        self.tail = costs.tail(words)
        self.contended = [bool(other_lines) or any(conflicts) for conflicts in zip(*plan.conflicts, strict=True)]
        self.arrivals: list[PieceArrival | None] = [None] * len(plan.pieces)
        self.stored_ends: dict[int, EventTime] = {}
        self.max_streams = 1
        self._shared_spans: dict[int, SharedSpans] = {}  # spans that a piece shares with earlier pieces
        self._later_spans: dict[int, SharedSpans] = {}  # spans that a stored piece shares with pieces computed after it

    def enter(
        self, pieces: Sequence[int], path: StreamPath, first: EventTime, last: EventTime
    ) -> tuple[EventTime, EventTime]:
        """Compute and record when the words of a message enter the next parts of their path.

        Args:
            pieces: Indices of these parts (pieces), which all start at the same router.
            path: Path of the words.
            first, last: Times of the first and last word at this router, without delays.

        Returns:
            Times of the first and last word at this router, delayed by other streams.
        """
        contention_cycles = 0.0
        if any(map(self.contended.__getitem__, pieces)):
            waiting_cycles = max(self.waiting_cycles(piece, first[0]) for piece in pieces)
            first, last = add_delay(first, waiting_cycles), add_delay(last, waiting_cycles)
            cycles = max(self.resolve_contention(piece, path, first[0], last[0]) for piece in pieces)
            delayed_last = max(last, add_delay(advance(first, self.tail), cycles))
            contention_cycles = delayed_last[0] - last[0]
            last = delayed_last
        for piece in pieces:
            self.arrivals[piece] = PieceArrival(
                path, path.age, path.room, path.operations, first[0], last[0], contention_cycles
            )
        return first, last

    def store(self, pieces: Sequence[int], path: StreamPath, first: EventTime, last: EventTime) -> None:
        """Compute and record when the words of a message are stored in the SRAM of their targets.

        The main threads of the targets do not receive these words, so no other operation waits for
        them. A piece is a part of the message's path.

        Args:
            pieces: Indices of the pieces that end at the targets. All start at the same router.
            path: Path of the words up to this router.
            first, last: Times of the first and last word at this router, before delays by other
                messages are added.
        """
        first, last = self.enter(pieces, path, first, last)
        for piece in pieces:
            self.stored_ends[piece] = advance(last, self.plan.hop_cycles[piece], self.costs.ramp + 1)

    def delayed_stored_ends(self) -> list[EventTime]:
        """Return when the last word of each stored message reaches SRAM.

        `stored_ends` has these times as they were when each message was computed. This method adds
        the delays by messages that were computed afterwards and compete for the same links.
        """
        ends = dict(self.stored_ends)
        for piece in self._later_spans:
            ends[piece] = add_delay(ends[piece], self._later_delay(piece))
        return list(ends.values())

    def waiting_cycles(self, piece: int, first: float) -> float:
        """Return how many cycles a message must wait for earlier messages of the same colour.

        Args:
            piece: Index of the piece (part of the message's path) that its words enter.
            first: Cycle at which the first word would leave without waiting.
        """
        conflicts = self.plan.conflicts.on_same_colour[piece]
        arrivals = [(self.arrivals[conflict.other_piece], conflict.shared_ends) for conflict in conflicts]
        ends = [(arrival.span()[1], shared_ends) for arrival, shared_ends in arrivals if arrival is not None]
        return wait_on_colour(first, [end for end in ends if end[0] < NEVER])

    def resolve_contention(self, piece: int, path: StreamPath, first: float, last: float) -> float:
        """Delay a message and its competitors on shared links, and return the message's delay.

        Only messages whose times are already known compete. A competitor is delayed only if its
        words are stored at its target. Otherwise, other times may already depend on its times.

        Args:
            piece: Index of the piece (part of the path) that the words enter.
            path: Path of the words.
            first, last: Cycles of the first and last word at the start of the piece.
        """
        contenders = self._contenders(self.plan.conflicts.on_other_colours[piece], path, first, last)
        for line, conflicts in self.other_lines:
            contenders += line._contenders(conflicts.on_other_colours[piece], None, first, last)
        if not contenders:
            return 0.0
        delays = delays_of(Window(first, last, self.words), contenders)
        self._shared_spans[piece] = delays.shared_spans
        cycles, streams = delay_cycles(delays.shared_spans)
        self.max_streams = max(self.max_streams, streams)
        for contender, effect in delays.effects_on_others:
            contender.owner._delay(contender.conflict, effect)
        return cycles

    def _delay(self, conflict: Conflict, effect: Interleaving) -> None:
        """Delay a message of this line because of a message that was computed later.

        Nothing is changed if the words of the earlier message are forwarded or added rather than
        stored, because other times already depend on them.

        Args:
            conflict: Links or ramps that the later message shares with the earlier one, whose path
                contains ``conflict.other_piece``.
            effect: Delay of the earlier message.
        """
        piece, arrival = conflict.other_piece, self.arrivals[conflict.other_piece]
        if piece not in self.stored_ends or arrival is None:
            return
        previous_delay = self._later_delay(piece)
        shared_spans = self._later_spans.setdefault(piece, {})
        shared_spans.setdefault(conflict.resource, []).append(SharedSpan(conflict.low, conflict.high, effect))
        cycles = self._later_delay(piece) - previous_delay
        self.arrivals[piece] = arrival._replace(
            last=arrival.last + cycles, contention_cycles=arrival.contention_cycles + cycles
        )

    def _later_delay(self, piece: int) -> float:
        """Return how long messages that were computed later delay a stored message, in cycles.

        This is the delay by all messages minus the delay by the messages that were computed before.

        Args:
            piece: Index of the last part (piece) of the stored message's path.
        """
        earlier_spans, spans_of_later_pieces = self._shared_spans.get(piece, {}), self._later_spans.get(piece, {})
        resources = {**earlier_spans, **spans_of_later_pieces}
        all_spans = {
            resource: earlier_spans.get(resource, []) + spans_of_later_pieces.get(resource, [])
            for resource in resources
        }
        return delay_cycles(all_spans)[0] - delay_cycles(earlier_spans)[0]

    def _contenders(
        self, conflicts: list[Conflict], path: StreamPath | None, first: float, last: float
    ) -> list[Contender[LineStreams]]:
        """Return the messages of this line that use a link or ramp when a new message needs it.

        Only messages whose times have already been computed are included.

        Args:
            conflicts: Links and ramps that the new message shares with pieces (parts of message
                paths) of this line.
            path: Path of the new message, or None if it is on another line.
            first, last: Cycles of the first and last word of the new message at the start of its
                own piece.
        """
        contenders = []
        for conflict in conflicts:
            arrival = self.arrivals[conflict.other_piece]
            if arrival is not None and overlap_in_time(first, last, *arrival.span(), conflict.shared_ends):
                window = arrival.window(self.words, self.costs)
                contenders.append(Contender(conflict, window, arrival.path is path, self))
        return contenders
