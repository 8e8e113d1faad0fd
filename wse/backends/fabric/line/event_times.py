"""Times of events with their causes, and time windows of streams of words along their paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from wse.backends.fabric.line.contention.conflicts import SharedEnd
from wse.backends.fabric.line.line_costs import LineCosts


class Window(NamedTuple):
    """Time window in which the words of a message leave one router on their path.

    Words that arrive before the receiver is ready wait between this router and the receiver. Their
    number is limited by ``departed_words`` and ``room``.

    Attributes:
        first, last: Cycles at which the first and the last word leave this router.
        words: Number of words.
        departed_words: Maximum number of words that can have left this router before the receiving
            operation starts; 0 if words do not wait.
        room: Number of words that fit between this router and the receiver, in queues and on
            wires; used only if words wait.
        contention_cycles: Part of the window in which words wait for words of other streams.
    """

    first: float
    last: float
    words: int
    departed_words: float = 0.0
    room: int = 0
    contention_cycles: float = 0.0

    @property
    def rate(self) -> float:
        """Mean words per cycle from the first to the last word, including cycles spent waiting."""
        return self.words / (self.last - self.first + 1)

    @property
    def pace(self) -> float:
        """Mean words per cycle, without the cycles spent waiting for words of other streams."""
        return self.words / (self.last - self.contention_cycles - self.first + 1)

    def first_at(self, shift: int, room: int) -> float:
        """Return the cycle from which words pass a place on their path at a constant rate.

        If the receiver is not ready, some words pass the place early and wait for the receiver. The
        result is then the cycle in which the next word after them passes the place.

        Args:
            shift: Cycles that a word needs from the start of the path to the place.
            room: Number of words that fit between the start and the place.
        """
        if not self.departed_words:
            return self.first + shift
        waiting_words = max(0.0, min(self.departed_words - shift, self.room - room))
        return self.first + shift + waiting_words / self.rate


def overlap_in_time(
    first: float, last: float, other_first: float, other_last: float, shared_ends: Sequence[SharedEnd]
) -> bool:
    """Return True if two streams of words may be at the same place at the same time.

    The result is False only if, at every place, the same stream has passed before the other one
    arrives.

    Args:
        first, last: Cycles of the first and the last word of one stream at its source.
        other_first, other_last: Cycles of the first and the last word of the other stream at its
            source.
        shared_ends: Places that both streams pass.
    """
    always_before = always_after = True
    for shift, other_shift, _ in shared_ends:
        always_before = always_before and last + shift < other_first + other_shift
        always_after = always_after and first + shift > other_last + other_shift
    return not (always_before or always_after)


EventTime = tuple[float, float, float, float, float]
"""Cycle of an event: the total, and the parts due to hops, relays, launches and contention.

The total comes first, so that ``max`` finds the critical time. The cycles from contention are also
counted as hops.
"""

START: Final[EventTime] = (0.0, 0.0, 0.0, 0.0, 0.0)
NEVER: Final = float("inf")


def advance(time: EventTime, hops: float = 0.0, relays: float = 0.0) -> EventTime:
    """Return a time plus the cycles of some hops and relays, broken down by cause.

    Args:
        time: The time, broken down by cause.
        hops: Cycles in which words move over links.
        relays: Cycles in which PEs receive and forward words.
    """
    total, in_hops, in_relays, launch, contention = time
    return total + hops + relays, in_hops + hops, in_relays + relays, launch, contention


def next_launch(time: EventTime, gap: int) -> EventTime:
    """Return the earliest time at which a PE can start its next operation.

    Args:
        time: End of the last operation of the PE.
        gap: Cycles that a PE needs between two operations.
    """
    total, hops, relays, launch, contention = time
    return total + gap, hops, relays, launch + gap, contention


def add_delay(time: EventTime, cycles: float) -> EventTime:
    """Return a time plus the cycles that words wait for the words of other messages.

    These cycles count both as contention and as hops.
    """
    total, hops, relays, launch, contention = time
    return total + cycles, hops + cycles, relays, launch, contention + cycles


class StreamPath:
    """Path of a stream of words, from the sending SRAM through all PEs that relay the words.

    The words move at the same rate on the whole path: the rate of the last operation that received
    them. If words have to wait for this operation, they fill the queues and wires along the path.
    Only words that do not fit there leave later. Because a later operation can change the rate, the
    times of a piece of the path are looked up here, even after the stream has moved on.

    Attributes:
        age: Cycles from the start of the path to its present end, for words that never wait.
        room: Number of words that fit on the path so far, in queues and on wires.
        operations: Number of operations that have received the words so far.
        begin, end: Cycles at which the first and last word reached the router of the PE with the
            last of these operations.
        stall: Cycles that words waited for that operation.
        taken_age, taken_room: Age and room of the path at that operation.
    """

    __slots__ = ("age", "begin", "end", "operations", "room", "stall", "taken_age", "taken_room")

    def __init__(self) -> None:
        self.age = self.room = self.operations = 0

    def take(self, begin: float, end: float, stall: float) -> None:
        """Record that an operation of a PE receives the words, and when.

        Args:
            begin: Cycle of the first word at the router of the PE.
            end: Cycle of the last word there.
            stall: Cycles that the words waited there.
        """
        self.operations += 1
        self.begin, self.end, self.stall = begin, end, stall
        self.taken_age, self.taken_room = self.age, self.room


class PieceArrival(NamedTuple):
    """Times at which the words of a message enter one piece (part) of their path.

    Attributes:
        path: The whole path. It also records the last operation of a PE that received the words.
        age: Cycles that a word needs from the start of the path to this point if it never waits.
        room: Number of words that fit on the path up to this point, in queues and on wires.
        operations: Number of receive operations on the path before this point.
        first, last: Cycles at which the first and last word leave the router at this point, before
            later receive operations are timed. Infinite if the piece ends at a PE that receives the
            words in an operation. Use `span`, which takes later operations into account.
        contention_cycles: Cycles by which words of other streams delay the last word.
    """

    path: StreamPath
    age: int
    room: int
    operations: int
    first: float
    last: float
    contention_cycles: float = 0.0

    def span(self) -> tuple[float, float]:
        """Return when the first and the last word leave the router at the start of this piece.

        Returns:
            Two times in cycles; infinite if the operation that receives the words has not been
            timed yet.
        """
        path = self.path
        if path.operations == self.operations:
            return self.first, self.last
        age = path.taken_age - self.age
        return path.begin - age, path.end - age

    def window(self, words: int, costs: LineCosts) -> Window:
        """Return when the words leave the router at the start of this piece, as a time window.

        A piece is a part of the words' path. If the words have to wait further along the path, the
        window also says how many words wait there.

        Args:
            words: Number of words of the message.
            costs: Cycles and queue sizes of hops, ramps and relays.
        """
        path = self.path
        first, last = self.span()
        if path.operations == self.operations:
            return Window(first, last, words, contention_cycles=self.contention_cycles)
        if path.stall <= 0:
            return Window(first, last, words)
        departed_words = path.taken_age - self.age + costs.ramp + path.stall
        return Window(first, last, words, departed_words, path.taken_room - self.room + costs.waiting_words)


class Stream(NamedTuple):
    """Words of a message that have reached the router of a PE and wait to be received by the PE.

    Attributes:
        first, last: Times of the first and last word at the router.
        path: Path of the words so far.
        piece: Index of the last piece (part) of the path.
        age: Cycles from the start of this piece to the router.
    """

    first: EventTime
    last: EventTime
    path: StreamPath
    piece: int
    age: int
