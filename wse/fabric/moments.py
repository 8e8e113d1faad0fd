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


class Stream(NamedTuple):
    """Words at the router of a PE: the first and the last of them, and the way that they have come.

    ``way``: the pieces since the words were in some PE's memory, and how long ago words that stream on without a stop
    left each one's source.
    """

    first: Moment
    last: Moment
    way: tuple[tuple[int, int], ...]

    def on(self, piece: int, hops: int, relays: int = 0, software: int = 0) -> Stream:
        """Behind a piece that takes so many cycles, and of software as many before the first word is relayed."""
        first = self.first.after(hops=hops, relays=relays + software)
        last = self.last.after(hops=hops, relays=relays + software)
        return Stream(first, last, tuple((before, ago + hops + relays) for before, ago in (*self.way, (piece, 0))))
