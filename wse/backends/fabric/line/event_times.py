"""Points in time with what was spent until then, and the ways that streams of words have behind them."""

from __future__ import annotations

from typing import Final, NamedTuple

from wse.backends.fabric.line.contention import Window
from wse.backends.fabric.line.line_costs import LineCosts

EventTime = tuple[float, float, float, float, float]
"""Cycles in all, so that ``max`` finds the critical time; those of hops, of relays and of launch among them; and those
of hops, last, that contention adds."""

START: Final[EventTime] = (0.0, 0.0, 0.0, 0.0, 0.0)
NEVER: Final = float("inf")


def advance(time: EventTime, hops: float = 0.0, relays: float = 0.0) -> EventTime:
    """Return a time that is later by the cycles of ``hops`` and of ``relays``."""
    total, in_hops, in_relays, launch, contention = time
    return total + hops + relays, in_hops + hops, in_relays + relays, launch, contention


def next_launch(time: EventTime, gap: int) -> EventTime:
    """Return the time at which a PE whose last operation ended at ``time`` can start another one."""
    total, hops, relays, launch, contention = time
    return total + gap, hops, relays, launch + gap, contention


def add_delay(time: EventTime, cycles: float) -> EventTime:
    """Return a time that is later by cycles of contention."""
    total, hops, relays, launch, contention = time
    return total + cycles, hops + cycles, relays, launch, contention + cycles


class Way:
    """The path of a stream from the memory that its words come from, through relays.

    All pieces on it go at the pace of the last operation that took the words in: where words have to wait for it, they
    fill the queues and wires of all of the way, and only what finds no room there leaves later.

    Attributes:
        age: Cycles that words which stream on without a stop have taken so far.
        room: Words that find place on the way so far, in queues and on wires.
        operations: Operations that have taken the words in.
        begin, end: When the first and last word came to the router of the PE of the last of them.
        stall: How long words had to wait for it.
        taken_age, taken_room: Age and room there.
    """

    __slots__ = ("age", "begin", "end", "operations", "room", "stall", "taken_age", "taken_room")

    def __init__(self) -> None:
        self.age = self.room = self.operations = 0

    def take(self, begin: float, end: float, stall: float) -> None:
        """Take the words from the router of a PE from ``begin`` to ``end``, after they waited there for ``stall``
        cycles.
        """
        self.operations += 1
        self.begin, self.end, self.stall = begin, end, stall
        self.taken_age, self.taken_room = self.age, self.room


class Entry(NamedTuple):
    """A piece of the path of a stream, as it was when the stream arrived.

    ``age``, ``room``, ``operations``: those of the way until then; ``first``, ``last``: when words leave the source's
    router as long as no operation has taken them in since, which is not known of the last piece before one. ``held``:
    cycles by which words of others draw it out.
    """

    way: Way
    age: int
    room: int
    operations: int
    first: float
    last: float
    held: float = 0.0

    def span(self) -> tuple[float, float]:
        """Return the first and last word at the router of the source; from infinity where that is unknown."""
        way = self.way
        if way.operations == self.operations:
            return self.first, self.last
        age = way.taken_age - self.age
        return way.begin - age, way.end - age

    def window(self, words: int, costs: LineCosts) -> Window:
        """Return the window in which the words are at the router of the source."""
        way = self.way
        first, last = self.span()
        if way.operations == self.operations:
            return Window(first, last, words, held=self.held)
        if way.stall <= 0:
            return Window(first, last, words)
        departed_words = way.taken_age - self.age + costs.ramp + way.stall
        return Window(first, last, words, departed_words, way.taken_room - self.room + costs.waiting_words)


class Stream(NamedTuple):
    """Words at the router of a PE: the times of the first and the last one, and their path.

    ``piece``: the last piece of the way; ``age``: the cycles that it took.
    """

    first: EventTime
    last: EventTime
    way: Way
    piece: int
    age: int
