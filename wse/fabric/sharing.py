"""Words of several messages over one link, or one ramp, in one window: who waits for how many of whose.

A link and a ramp carry a word a cycle. Colours that want one take it in turn, so while two streams are there each gets
half of it: a stream is held up by every word that another brings in the time that both are there, which is the smaller
of what each of them still has to bring when the later one comes (processor sharing). Out of a PE the thread that was
started first goes first. A stream that cannot do a word a cycle leaves some to the others. On one colour there are no
turns: switches let one stream pass behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wse.fabric.legs import Meeting, Offset, Over


class Window(NamedTuple):
    """When a piece's words leave its source's router: the first, the last, and how many there are."""

    first: float
    last: float
    words: int


class Held(NamedTuple):
    """Cycles that sharing adds to a stream, and how many streams are on the busiest link then."""

    cycles: float
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Cycles of a hop, of a relay, and words a cycle of a vector operation."""

    hop: int
    relay: int
    words_per_cycle: float

    def at(self, offset: Offset) -> float:
        """How long after a piece's start its words are at an offset."""
        return offset.hops * self.hop + offset.relays * self.relay


def held_up(mine: Window, meetings: Sequence[tuple[Meeting, Window]], pace: Pace) -> Held:
    """What sharing adds to a stream that would be at its source's router as ``mine`` says.

    Args:
        mine: When it would be there alone.
        meetings: Where it meets others, and when those are at their sources.
        pace: Costs.
    """
    shares: dict[Over, list[tuple[int, int, float]]] = {}
    for meeting, theirs in meetings:
        words = 0.0 if meeting.in_order else _words(mine, theirs, meeting, pace)
        if words > 0:
            shares.setdefault(meeting.over, []).append((meeting.low, meeting.high, words))
    held = Held(0.0, 1)
    for over, among in shares.items():
        for low, _, _ in among:  # the sum is greatest where some stretch begins
            here = [words for a, b, words in among if a <= low <= b]
            cycles = _cycles(here, pace.words_per_cycle, in_order=over == Over.OUT_OF_PE)
            held = max(held, Held(cycles, 1 + len(here)))
    return held


def passed(mine: Window, meetings: Sequence[tuple[Meeting, Window]], pace: Pace) -> float:
    """Cycles that a stream waits for those before it on its own colour to pass; arguments as of ``held_up``."""
    behind = [
        theirs.last + pace.at(there) + 1 - mine.first - pace.at(here)
        for meeting, theirs in meetings
        if meeting.in_order
        for here, there in meeting.offsets
    ]
    return max([0.0, *behind])


def _cycles(words: list[float], rate: float, *, in_order: bool) -> float:
    """Cycles for other streams' words. Two that take turns leave each other no more pauses than they would make."""
    if in_order:
        return sum(words) * (2 * rate - 1) / rate**2
    return sum(words) - max(words) * (1 / rate - 1)


def _words(mine: Window, theirs: Window, meeting: Meeting, pace: Pace) -> float:
    """Words of the other stream that hold up this one, where that is worst."""
    most = 0.0
    sooner = None
    for here, there in meeting.offsets:
        shift = pace.at(here)
        first, last = mine.first + shift, mine.last + shift
        shift = pace.at(there)
        other_first, other_last = theirs.first + shift, theirs.last + shift
        if sooner is not None and sooner != (first <= other_first):
            return float(min(mine.words, theirs.words))  # between these places both come at once
        sooner = first <= other_first
        both = max(first, other_first)
        if both > min(last, other_last):
            continue
        left = theirs.words * (other_last - both + 1) / (other_last - other_first + 1)
        if meeting.over != Over.OUT_OF_PE:
            left = min(left, mine.words * (last - both + 1) / (last - first + 1))
        most = max(most, left)
    return most
