"""The messages of a line as path segments, which take one calculation each.

A segment is one message; or a run of messages between neighbours whose PEs between do nothing but receive and send on;
or messages side by side that are the only ones of their PEs and use no link twice. Words, costs and times are not known
here: a plan is made once for a pattern. (The ``segments`` of a pattern are stretches of its line, another matter.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wse.arrays import I32
from wse.fabric.line.conflicts import Conflict, find_conflicts
from wse.fabric.line.pieces import Piece, Places, one_message, side_by_side
from wse_mappings.schedule import COMBINING, Arrival


@dataclass(frozen=True, slots=True)
class PathSegment:
    """A send and the messages that it starts.

    Attributes:
        source: The PE that sends.
        relays: The run of neighbours that it goes through first, a piece; -1 for none.
        pieces: The last or only message of the segment, or the two directions of a multicast, as pieces.
        target: The PE that takes the words in its main thread; -1 where they are stored beside it.
    """

    source: int
    relays: int
    pieces: tuple[int, ...]
    target: int


@dataclass(slots=True)
class LinePlan:
    """The plan of one line in one round of a pattern: segments in order, their pieces, and the conflicts of those."""

    segments: list[PathSegment] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    conflicts: list[list[Conflict]] = field(default_factory=list)  # of each piece with earlier ones

    def add(self, piece: Piece) -> int:
        """Append a piece; its number."""
        self.pieces.append(piece)
        return len(self.pieces) - 1


def plan_line(messages: I32, colours: I32 | None = None, places: Places = None) -> LinePlan:
    """The segments of the messages ``[m, 3]`` of one line, in their order, on colours ``[m]`` where those are fixed.

    ``places`` has the hops of its PEs from the first.
    """
    travels = (messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1])
    plan = LinePlan()
    if travels.any():
        colours = np.full(len(messages), -1, np.int32) if colours is None else colours
        _Planning(messages[travels], colours[travels], places, plan).all()
        plan.conflicts = find_conflicts(plan.pieces, plan.pieces, same=True)
    return plan


class _Planning:
    def __init__(self, wire: I32, colours: I32, places: Places, plan: LinePlan) -> None:
        self.plan, self.colours, self.places = plan, colours, places
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
            self.plan.add(
                one_message(source, target, self.places, relayed=False, everywhere=True, main=False, leaves=n == 0)
            )
            for n, target in enumerate(self.target[i:end].tolist())
        )
        self.plan.segments.append(PathSegment(source, -1, pieces, -1))
        return end

    def _run(self, i: int, last: int) -> int:
        source, main = int(self.source[i]), bool(self.combines[i])
        before, target = int(self.source[last]), int(self.target[last])
        relays = -1
        if last > i:
            relays = self.plan.add(one_message(source, before, self.places, relayed=True, everywhere=True, main=True))
        colour = int(self.colours[last])
        last_piece = one_message(before, target, self.places, relayed=False, everywhere=False, main=main, colour=colour)
        piece = self.plan.add(last_piece)
        self.plan.segments.append(PathSegment(source, relays, (piece,), target if main else -1))
        return last + 1

    def _independent(self) -> bool:
        """Whether all messages are stored, the only ones of their PEs, and use no link twice."""
        source, target = self.source, self.target
        if (self.arrival == Arrival.MULTICAST).any() or (self.sends > 1).any() or len(np.unique(target)) < len(target):
            return False
        size = len(self.sends) + 1
        for forward in (True, False):
            same_way = (target > source) == forward
            low, high = np.minimum(source, target)[same_way], np.maximum(source, target)[same_way]
            change = np.bincount(low, minlength=size) - np.bincount(high, minlength=size)
            if change.cumsum().max(initial=0) > 1:
                return False
        return True

    def _side_by_side(self) -> None:
        piece = self.plan.add(side_by_side(self.source.tolist(), self.target.tolist(), self.places))
        self.plan.segments.append(PathSegment(int(self.source[0]), -1, (piece,), -1))
