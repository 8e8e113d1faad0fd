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
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from wse.fabric.line.conflicts import Meeting, Offset
from wse.fabric.line.pieces import Over

Line = TypeVar("Line")
"""Whatever the caller keeps a line's pieces in."""


class Turns(NamedTuple):
    """What taking turns with another stream does: cycles of being held up, in which it brings so many words."""

    cycles: float
    words: float


Shares = dict[Over, list[tuple[int, int, Turns]]]
"""By what is shared: first and last place of each stretch where a stream meets another, and what that does."""


class Window(NamedTuple):
    """When a piece's words leave its source's router: the first, the last, and how many there are.

    They go as an operation takes them at the end of their way. Where they have stood before it, ``gone`` words at most
    have left the source until then, and no more than find ``room`` on the way.
    """

    first: float
    last: float
    words: int
    gone: float = 0.0
    room: int = 0

    @property
    def rate(self) -> float:
        """Words a cycle."""
        return self.words / (self.last - self.first + 1)

    def left_after(self, offset: Offset, pace: Pace) -> tuple[float, float]:
        """When words begin to flow there as the operation takes them, and when the last comes."""
        shift = pace.at(offset)
        filled = max(0.0, min(self.gone - shift, self.room - pace.room(offset)))
        return self.first + shift + filled / self.rate, self.last + shift


class Met(NamedTuple, Generic[Line]):
    """Another piece that a stream meets: where and when, whether it ``feeds`` this one, and the line that it is on."""

    meeting: Meeting
    window: Window
    feeds: bool
    line: Line


class Held(NamedTuple, Generic[Line]):
    """What a stream shares, and what it does to others that it meets."""

    shares: Shares
    others: list[tuple[Met[Line], Turns]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Cycles of a hop and of a relay, and words that wait on each."""

    hop: int
    relay: int
    hop_room: int
    relay_room: int

    def at(self, offset: Offset) -> float:
        """How long after a piece's start its words are at an offset."""
        return offset.hops * self.hop + offset.relays * self.relay

    def room(self, offset: Offset) -> int:
        """Words that wait at most between a piece's start and an offset."""
        return offset.hops * self.hop_room + offset.relays * self.relay_room


def held_up(mine: Window, met: Sequence[Met[Line]], pace: Pace) -> Held[Line]:
    """What sharing adds to a stream that would be at its source's router as ``mine`` says, were it alone."""
    shares: Shares = {}
    others: list[tuple[Met[Line], Turns]] = []
    after = {(each.line, each.meeting.other) for each in met if each.meeting.over == Over.OUT_OF_PE}
    for each in met:
        meeting = each.meeting
        if meeting.in_order:
            continue
        own, its = _worst(mine, each, pace)
        if own.cycles > 0:
            shares.setdefault(meeting.over, []).append((meeting.low, meeting.high, own))
        if its.cycles > 0 and (each.line, meeting.other) not in after:
            others.append((each, its))
    return Held(shares, others)


def held_cycles(shares: Shares) -> tuple[float, int]:
    """Cycles that others hold up a stream, and how many streams are where that is worst.

    One leaves the pauses that it makes; with more than one the link has none, and waits for all words of the others.
    """
    worst = (0.0, 1)
    for among in shares.values():
        for low, _, _ in among:  # the sum is greatest where some stretch begins
            here = [turns for a, b, turns in among if a <= low <= b]
            pauses = [turns.words - turns.cycles for turns in here]
            cycles = sum(turns.words for turns in here) - max(pauses)
            worst = max(worst, (cycles, 1 + len(here)))
    return worst


def passed(mine: Window, met: Sequence[Met[Line]], pace: Pace) -> float:
    """Cycles that a stream waits for those before it on its own colour to pass."""
    behind = [
        theirs.last + pace.at(there) + 1 - mine.first - pace.at(here)
        for meeting, theirs, _, _ in met
        if meeting.in_order
        for here, there in meeting.offsets
    ]
    return max([0.0, *behind])


def _worst(mine: Window, other: Met[Line], pace: Pace) -> tuple[Turns, Turns]:
    """What two streams do to each other where that is worst.

    A stream that is fed by the one that it meets comes some lag behind it. What holds up the other makes gaps in this
    one when it comes round, which the other fills while they last, until as many words as take half of the lag are on
    their way; those still come at half the rate when the other has ended.
    """
    most = Turns(0.0, 0.0), Turns(0.0, 0.0)
    theirs = other.window
    in_order = other.meeting.over == Over.OUT_OF_PE
    for first, last, their_first, their_last, lag in _places(mine, other, pace):
        both = max(first, their_first)
        if both > min(last, their_last):
            continue
        left, its = mine.rate * (last - both + 1), theirs.rate * (their_last - both + 1)
        turns = _turns(mine.rate, left, theirs.rate, its, in_order=in_order)
        if other.feeds:
            cycles, words = turns[0]
            behind = min(cycles, lag / 2)
            turns = Turns(cycles + behind, words + behind), turns[1]
        most = max(most, turns)
    return most


def _places(mine: Window, other: Met[Line], pace: Pace) -> list[tuple[float, ...]]:
    """First and last word of both, and the other's lead, where they meet, and between where both come at once."""
    found: list[tuple[float, ...]] = []
    for here, there in other.meeting.offsets:
        lag = mine.first + pace.at(here) - other.window.first - pace.at(there)
        found.append((*mine.left_after(here, pace), *other.window.left_after(there, pace), lag))
    for one, two in pairwise(tuple(found)):
        before, behind = one[0] - one[2], two[0] - two[2]
        if before * behind < 0:
            part = before / (before - behind)
            found.append(tuple(a + part * (b - a) for a, b in zip(one, two, strict=True)))
    return found


def _turns(rate: float, words: float, other_rate: float, other_words: float, *, in_order: bool) -> tuple[Turns, Turns]:
    """What two streams do to each other that have so many words left, and bring so many a cycle where they are alone.

    While both are there each gets half, or what the other leaves, and the other all it can do where it goes first.
    """
    share = min(rate, 1 - other_rate if in_order else max(0.5, 1 - other_rate))
    other_share = min(other_rate, max(other_rate if in_order else 0.5, 1 - rate))
    both = other_words / other_share
    if share > 0:
        both = min(both, words / share)
    mine = Turns(both * (1 - share / rate), both * other_share)
    return mine, Turns(both * (1 - other_share / other_rate), both * share)
