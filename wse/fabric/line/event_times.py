"""Points in time with what was spent until then, and streams of words between two of them."""

from __future__ import annotations

from typing import Final, NamedTuple


class EventTime(NamedTuple):
    """A time, the total first, so that ``max`` finds the critical one; and what it was spent on.

    ``hops`` has the cycles that contention adds in it; ``contention`` says how many they are.
    """

    total: float = 0.0
    hops: float = 0.0
    relays: float = 0.0
    launch: float = 0.0
    contention: float = 0.0

    def after(self, hops: float = 0.0, relays: float = 0.0, launch: float = 0.0) -> EventTime:
        """The time so much later."""
        total, in_hops, in_relays, in_launch, contention = self
        return EventTime(
            total + hops + relays + launch, in_hops + hops, in_relays + relays, in_launch + launch, contention
        )

    def delay(self, cycles: float) -> EventTime:
        """The time so much later, because of words of others."""
        total, hops, relays, launch, contention = self
        return EventTime(total + cycles, hops + cycles, relays, launch, contention + cycles)


START: Final = EventTime()


class PassedPiece(NamedTuple):
    """A piece that a stream has passed on its way.

    ``age``: cycles since words that stream on without a stop left its source; ``room``: how many find place on the way
    from there, in queues and on wires, when they have to wait at its end.
    """

    piece: int
    age: int
    room: int


class Stream(NamedTuple):
    """Words at the router of a PE: the first and the last of them, and the way from the memory that they come from."""

    first: EventTime
    last: EventTime
    way: tuple[PassedPiece, ...]

    def farther(self, room: int, hops: int = 0, relays: int = 0, software: int = 0) -> Stream:
        """The stream so many cycles farther on, ``software`` cycles for its first word alone, past ``room`` words."""
        first, last = self.first.after(hops, relays + software), self.last.after(hops, relays + software)
        return Stream(first, last, self.farther_back(hops + relays, room))

    def farther_back(self, cycles: int, room: int) -> tuple[PassedPiece, ...]:
        """The way, so many cycles and room for so many words farther from here."""
        return tuple(PassedPiece(piece, age + cycles, before + room) for piece, age, before in self.way)
