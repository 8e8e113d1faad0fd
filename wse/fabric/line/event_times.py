"""Points in time with what was spent until then, and streams of words between two of them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Moment(NamedTuple):
    """A time, the total first, so that ``max`` finds the critical one; and what it was spent on.

    ``hops`` has the cycles that sharing adds in it; ``shared`` says how many they are.
    """

    total: float = 0.0
    hops: float = 0.0
    relays: float = 0.0
    launch: float = 0.0
    shared: float = 0.0

    def after(self, hops: float = 0.0, relays: float = 0.0, launch: float = 0.0) -> Moment:
        """So much later."""
        total, own, passed, launched, shared = self
        return Moment(total + hops + relays + launch, own + hops, passed + relays, launched + launch, shared)

    def held(self, cycles: float) -> Moment:
        """So much later for words of others."""
        total, own, passed, launched, shared = self
        return Moment(total + cycles, own + cycles, passed, launched, shared + cycles)


START: Final = Moment()


class Passed(NamedTuple):
    """A piece that words have come by.

    ``ago``: how long ago words that stream on without a stop left its source; ``room``: how many find place on the way
    from there, in queues and on wires, when they have to wait at its end.
    """

    piece: int
    ago: int
    room: int


class Stream(NamedTuple):
    """Words at the router of a PE: the first and the last of them, and the way from the memory that they come from."""

    first: Moment
    last: Moment
    way: tuple[Passed, ...]

    def later(self, room: int, hops: int = 0, relays: int = 0, software: int = 0) -> Stream:
        """Farther by so many cycles, and of software as many for the first word alone, with room for so many words."""
        spent = {"hops": hops, "relays": relays + software}
        way = tuple(Passed(piece, ago + hops + relays, had + room) for piece, ago, had in self.way)
        return Stream(self.first.after(**spent), self.last.after(**spent), way)
