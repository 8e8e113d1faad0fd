"""The messages of a line as legs, which take one calculation each, and where the words of two legs meet.

A leg is one message; or a run of messages between neighbours whose PEs between do nothing but receive and send on; or
messages side by side that are the first of their PEs and use no link twice. Pieces of legs meet where both use a link
of the line, or a PE's ramp. Words, costs and times are not known here: a plan is made once for a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse_mappings.schedule import Arrival

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

COMBINING = (Arrival.ADD, Arrival.LARGER, Arrival.LARGER_PAIR)


class Over(IntEnum):
    """What two pieces may share."""

    UP = 0  # links toward higher indices
    DOWN = 1
    INTO_PE = 2
    OUT_OF_PE = 3


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Words on their way along the line, at one pace.

    Attributes:
        sources, targets: int64 ``[messages]``; more than one where a leg has messages side by side.
        relayed: Whether the PEs between receive and send on, and do not just pass.
        everywhere: Whether the words go into every PE on the way, or into the last alone.
        main: Whether the receiver takes them in its main thread, which does one operation after another.
        leaves: Whether they leave the PE by its ramp on their own; the second direction of a multicast does not.
        channel: The colour that they come on, -1 for one of their own.
    """

    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    relayed: bool
    everywhere: bool
    main: bool
    leaves: bool
    channel: int

    @property
    def hops(self) -> int:
        """Links of the longest message."""
        return int(np.abs(self.targets - self.sources).max())

    def span(self, over: Over) -> tuple[int, int]:
        """First and last PE of what it uses: links are numbered by the PE that they leave. Empty: (0, -1)."""
        low, high = int(min(self.sources.min(), self.targets.min())), int(max(self.sources.max(), self.targets.max()))
        if over == Over.OUT_OF_PE:
            if not self.leaves:
                return 0, -1
            if not self.relayed:
                return int(self.sources.min()), int(self.sources.max())
            return (low, high - 1) if self.targets[0] > self.sources[0] else (low + 1, high)
        if over == Over.INTO_PE:
            if not self.everywhere:
                return int(self.targets.min()), int(self.targets.max())
            return (low + 1, high) if self.targets[0] > self.sources[0] else (low, high - 1)
        forward = self.targets > self.sources
        mine = forward if over == Over.UP else ~forward
        if not mine.any():
            return 0, -1
        ends = self.sources[mine], self.targets[mine]
        low, high = int(np.minimum(*ends).min()), int(np.maximum(*ends).max())
        return (low, high - 1) if over == Over.UP else (low + 1, high)


def _piece(
    sources: I32 | list[int],
    targets: I32 | list[int],
    *,
    relayed: bool,
    everywhere: bool,
    main: bool,
    leaves: bool = True,
    channel: int = -1,
) -> Piece:
    ends = np.asarray(sources, np.int64), np.asarray(targets, np.int64)
    return Piece(*ends, relayed, everywhere, main, leaves, channel)


class Offset(NamedTuple):
    """How far behind the start of a piece its words are somewhere: hops, and relays passed."""

    hops: int
    relays: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where a piece shares something with an ``other`` one: places ``low`` to ``high``, and the words' offsets there.

    ``offsets``: (mine, the other's); along a stretch of the line those at its two ends. ``in_order``: both come on one
    colour, whose switches let the other pass first.
    """

    other: int
    over: Over
    low: int
    high: int
    offsets: tuple[tuple[Offset, Offset], ...]
    in_order: bool


@dataclass(frozen=True, slots=True)
class Leg:
    """One send, and what comes of it.

    Attributes:
        source: The PE that sends.
        relays: The run of neighbours that it goes through first, a piece; -1 for none.
        pieces: The last or only message of the leg, or the two directions of a multicast, as pieces.
        target: The PE that takes the words in its main thread; -1 where they are stored beside it.
    """

    source: int
    relays: int
    pieces: tuple[int, ...]
    target: int


@dataclass(slots=True)
class LinePlan:
    """What one line does in one round of a pattern: legs in order, their pieces, and where those meet."""

    legs: list[Leg] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    meetings: list[list[Meeting]] = field(default_factory=list)  # of each piece with earlier ones

    def add(self, piece: Piece) -> int:
        """Append a piece; its number."""
        self.pieces.append(piece)
        return len(self.pieces) - 1


def plan_legs(messages: I32, channel: I32 | None = None) -> LinePlan:
    """The legs of the messages ``[m, 3]`` of one line, in their order, on colours ``[m]`` where those are fixed."""
    travels = (messages[:, 2] != Arrival.KEEP) & (messages[:, 0] != messages[:, 1])
    plan = LinePlan()
    if travels.any():
        colours = np.full(len(messages), -1, np.int32) if channel is None else channel
        _Planning(messages[travels], colours[travels], plan).all()
        plan.meetings = meetings(plan, plan, same=True)
    return plan


class _Planning:
    def __init__(self, wire: I32, channel: I32, plan: LinePlan) -> None:
        self.plan, self.channel = plan, channel
        self.source, self.target, self.arrival = wire.T
        size = int(max(self.source.max(), self.target.max())) + 1
        self.combines = np.isin(self.arrival, COMBINING)
        second = np.zeros(len(wire), bool)  # the other direction of a multicast, no send of its own
        flood = self.arrival == Arrival.MULTICAST
        second[1:] = flood[1:] & flood[:-1] & (self.source[1:] == self.source[:-1])
        self.second = second
        self.sends = np.bincount(self.source[~second], minlength=size)
        self.receives = np.bincount(self.target[self.combines], minlength=size)
        way = self.target - self.source
        alone = (self.receives[self.target] == 1) & (self.sends[self.target] == 1)
        passes = self.combines & alone & (np.abs(way) == 1)
        passes[:-1] &= self.combines[1:] & (self.source[1:] == self.target[:-1]) & (way[1:] == way[:-1])
        passes[-1] = False
        self.passes = passes  # message i goes on as message i + 1

    def all(self) -> None:
        count, i = len(self.source), 0
        ends = np.flatnonzero(~self.passes)  # the last message of each run
        if not self.combines.any() and self._independent():
            self._side_by_side()
            return
        while i < count:
            if self.arrival[i] == Arrival.MULTICAST:
                i = self._multicast(i)
            else:
                i = self._run(i, int(ends[np.searchsorted(ends, i)]))

    def _multicast(self, i: int) -> int:
        end = i + 1
        while end < len(self.source) and self.second[end]:
            end += 1
        source = int(self.source[i])
        pieces = tuple(
            self.plan.add(_piece([source], [target], relayed=False, everywhere=True, main=False, leaves=n == 0))
            for n, target in enumerate(self.target[i:end].tolist())
        )
        self.plan.legs.append(Leg(source, -1, pieces, -1))
        return end

    def _run(self, i: int, last: int) -> int:
        source, main = int(self.source[i]), bool(self.combines[i])
        before, target = int(self.source[last]), int(self.target[last])
        relays = -1
        if last > i:
            relays = self.plan.add(_piece([source], [before], relayed=True, everywhere=True, main=True))
        channel = int(self.channel[last])
        last_piece = _piece([before], [target], relayed=False, everywhere=False, main=main, channel=channel)
        piece = self.plan.add(last_piece)
        self.plan.legs.append(Leg(source, relays, (piece,), target if main else -1))
        return last + 1

    def _independent(self) -> bool:
        """Whether all messages are stored, the only ones of their PEs, and use no link twice."""
        source, target = self.source, self.target
        if (self.arrival == Arrival.MULTICAST).any() or (self.sends > 1).any() or len(np.unique(target)) < len(target):
            return False
        size = len(self.sends) + 1
        for forward in (True, False):
            mine = (target > source) == forward
            low, high = np.minimum(source, target)[mine], np.maximum(source, target)[mine]
            change = np.bincount(low, minlength=size) - np.bincount(high, minlength=size)
            if change.cumsum().max(initial=0) > 1:
                return False
        return True

    def _side_by_side(self) -> None:
        piece = self.plan.add(_piece(self.source, self.target, relayed=False, everywhere=False, main=False))
        self.plan.legs.append(Leg(int(self.source[0]), -1, (piece,), -1))


def meetings(mine: LinePlan, other: LinePlan, *, same: bool, links: bool = True) -> list[list[Meeting]]:
    """For each piece of ``mine``: the pieces of ``other`` that it may meet; only earlier ones in the ``same`` plan.

    Args:
        mine: A plan.
        other: Another one, or the same.
        same: Whether they are the same: then main threads keep their words apart.
        links: Whether both lie on the same line, or cross it at each of its PEs.
    """
    found: list[list[Meeting]] = [[] for _ in mine.pieces]
    for over in Over:
        if (over in (Over.UP, Over.DOWN) and not links) or (same and over == Over.OUT_OF_PE):
            continue
        (low, high), (start, end) = _spans(mine, over).T, _spans(other, over).T
        touch = (low[:, None] <= end) & (start <= high[:, None]) & (low <= high)[:, None] & (start <= end)
        if same:
            touch &= np.tri(len(low), k=-1, dtype=bool) & ~_serial(mine, over)
        for i, j in np.argwhere(touch).tolist():
            a, b = mine.pieces[i], other.pieces[j]
            in_order = same and a.channel >= 0 and a.channel == b.channel
            meeting = _meeting(a, b, j, over, in_order=in_order)
            if meeting:
                found[i].append(meeting)
    return found


def _spans(plan: LinePlan, over: Over) -> npt.NDArray[np.int64]:
    return np.array([piece.span(over) for piece in plan.pieces], np.int64).reshape(-1, 2)


def _serial(plan: LinePlan, over: Over) -> Bools:
    """Pieces of one plan that a main thread takes one after another."""
    main = np.array([piece.main for piece in plan.pieces])
    both: Bools = main[:, None] & main[None, :]
    if over != Over.INTO_PE:
        into = np.array([int(piece.targets[0]) for piece in plan.pieces])
        both &= into[:, None] == into[None, :]
    return both


def _meeting(mine: Piece, theirs: Piece, number: int, over: Over, *, in_order: bool) -> Meeting | None:
    (a, b), (c, d) = mine.span(over), theirs.span(over)
    low, high = max(a, c), min(b, d)
    if len(mine.sources) == len(theirs.sources) == 1:
        ends = (low, high) if low < high else (low,)
        offsets = tuple((_offset(mine, p, over), _offset(theirs, p, over)) for p in ends)
        return Meeting(number, over, low, high, offsets, in_order)
    places = [p for p in range(low, high + 1) if _uses(mine, p, over) and _uses(theirs, p, over)]
    if not places:
        return None
    pairs = {(_offset(mine, p, over), _offset(theirs, p, over)): None for p in places}
    return Meeting(number, over, places[0], places[-1], tuple(pairs), in_order)


def _user(piece: Piece, place: int, over: Over) -> int:
    """Which message of a piece uses something of a PE; -1 for none."""
    if over == Over.OUT_OF_PE:
        found = np.flatnonzero(piece.sources == place)
    elif over == Over.INTO_PE:
        found = np.flatnonzero(piece.targets == place)
    elif over == Over.UP:
        found = np.flatnonzero((piece.sources <= place) & (place < piece.targets))
    else:
        found = np.flatnonzero((piece.targets < place) & (place <= piece.sources))
    return int(found[0]) if len(found) else -1


def _uses(piece: Piece, place: int, over: Over) -> bool:
    low, high = piece.span(over)
    return low <= place <= high if len(piece.sources) == 1 else _user(piece, place, over) >= 0


def _offset(piece: Piece, place: int, over: Over) -> Offset:
    i = 0 if len(piece.sources) == 1 else _user(piece, place, over)
    hops = abs(place - int(piece.sources[i]))
    if not piece.relayed:
        return Offset(hops, 0)
    return Offset(hops, hops - 1 if over == Over.INTO_PE else hops)
