"""The messages of a line as path segments, which take one calculation each.

A segment is one message; or a run of messages between neighbours whose PEs between do nothing but receive and send on;
or the two directions of a multicast; or messages side by side that are the only ones of their PEs and use no link
twice. Words and times are not known here: a plan is made once for a pattern. (The ``segments`` of a pattern are
stretches of its line, another matter.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import I32, I64, Bools
from wse.backends.fabric.line.conflicts import Conflicts, find_conflicts
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Pieces, Places, piece_side_by_side, pieces_of_messages
from wse_mappings.schedule import COMBINING, Arrival

_COMBINES: Final = np.isin(np.array(Arrival), COMBINING)  # by arrival


class PathSegment(NamedTuple):
    """A send and the messages that it starts.

    Attributes:
        source: The PE that sends.
        relays: The run of neighbours that it goes through first, a piece; -1 for none.
        relays_hop_cycles, relays_relay_cycles: Cycles of its hops, and of its relays with what software adds.
        relays_age, relays_room: Cycles of both for words that stream on without a stop, and words that wait on it.
        piece, end_piece: The last or only message of the segment, or the two directions of a multicast, as pieces
            from the first to before the last.
        hop_cycles, room: Cycles of the hops of the first of those, and words that wait on it.
        target: The PE that takes the words in its main thread; -1 where they are stored beside it.
    """

    source: int
    relays: int
    relays_hop_cycles: int
    relays_relay_cycles: int
    relays_age: int
    relays_room: int
    piece: int
    end_piece: int
    hop_cycles: int
    room: int
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """The plan of one line in one round of a pattern: its segments in order, their pieces, and their conflicts.

    ``hop_cycles``, ``colours``: of each piece; ``conflicts``: of each piece with earlier ones.
    """

    segments: list[PathSegment]
    pieces: Pieces
    hop_cycles: list[int]
    colours: list[int]
    conflicts: Conflicts


def line_segments(messages: I32, costs: LineCosts, colours: I32 | None = None, places: Places = None) -> LinePlan:
    """Return the segments of the messages ``[m, 3]`` of one line in order, on colours ``[m]`` where these are fixed.

    ``places`` has the hops of its PEs from the first.
    """
    travels = (messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1])
    source, target, arrival = messages[travels].T.astype(np.int64)
    if _independent(source, target, arrival):
        pieces, numbers = piece_side_by_side(source, target, places), np.array([[source[0], -1, 0, 1, -1]])
    else:
        colour = np.full(len(source), -1) if colours is None else colours[travels].astype(np.int64)
        pieces, numbers = _in_runs(source, target, arrival, colour, places)
    sending, relays, piece, end_piece, receiving = numbers.T
    hop_cycles, relay_cycles = pieces.hops * costs.hop, pieces.relays * costs.relay_latency
    room = pieces.hops * costs.hop_room + pieces.relays * costs.relay_room
    by_relays = hop_cycles, relay_cycles + pieces.relays * costs.relay, hop_cycles + relay_cycles, room
    has_relays = relays >= 0
    columns = (
        sending,
        relays,
        *(cycles[relays] * has_relays for cycles in by_relays),
        piece,
        end_piece,
        hop_cycles[piece],
        room[piece],
        receiving,
    )
    segments = list(map(PathSegment, *(column.tolist() for column in columns)))
    conflicts = find_conflicts(pieces, pieces, costs, same=True)
    return LinePlan(segments, pieces, hop_cycles.tolist(), pieces.colour.tolist(), conflicts)


def _in_runs(source: I64, target: I64, arrival: I64, colour: I64, places: Places) -> tuple[Pieces, I64]:
    """Return the pieces of consecutive messages, and the numbers that define each `PathSegment`, int64 ``[n, 5]``."""
    flood, combines = arrival == Arrival.MULTICAST, _COMBINES[arrival]
    second = np.zeros(len(source), bool)  # the other direction of a multicast, no send of its own
    second[1:] = flood[1:] & flood[:-1] & (source[1:] == source[:-1])
    ends = np.flatnonzero(~_passes(source, target, combines, second))  # the last message of each run
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    has_relays, everywhere = ends > starts, flood[starts]
    number = (1 + has_relays).cumsum() - 1  # of the piece of each run's last message
    run = np.repeat(np.arange(len(ends)), 1 + has_relays)  # of each piece
    relayed = np.ones(len(run), bool)
    relayed[number] = False
    last = ends[run]
    everywhere = relayed | flood[last]
    pieces = pieces_of_messages(
        np.where(relayed, source[starts[run]], source[last]),
        np.where(relayed, source[last], target[last]),
        places,
        relayed=relayed,
        everywhere=everywhere,
        main=combines[last],
        leaves=~second[last],
        colour=np.where(everywhere, -1, colour[last]),
    )
    first = np.flatnonzero(~second[starts])  # the first run of each segment: a multicast's second direction is none
    relays = np.where(has_relays, number - 1, -1)
    end_piece = np.append((number - has_relays)[first[1:]], len(pieces))[: len(first)]
    receiving = np.where(combines[ends], target[ends], -1)
    return pieces, np.stack([source[starts[first]], relays[first], number[first], end_piece, receiving[first]], axis=1)


def _passes(source: I64, target: I64, combines: Bools, second: Bools) -> Bools:
    """Return whether each message continues as the next one from a PE that does nothing else, bool ``[m]``."""
    sends, receives = np.bincount(source[~second]), np.bincount(target[combines])
    passes = np.zeros(len(source), bool)
    way = target - source
    follows = combines[:-1] & combines[1:] & (source[1:] == target[:-1]) & (way[1:] == way[:-1]) & (abs(way[1:]) == 1)
    between = target[:-1][follows]
    passes[:-1][follows] = (sends[between] == 1) & (receives[between] == 1)
    return passes


def _independent(source: I64, target: I64, arrival: I64) -> bool:
    """Return whether all messages are stored, each PE has only one, and no link is used twice."""
    if not len(source) or _COMBINES[arrival].any() or (arrival == Arrival.MULTICAST).any():
        return False
    size = int(max(source.max(), target.max())) + 2
    if max(np.bincount(source).max(), np.bincount(target).max()) > 1:
        return False
    for rises in (target > source, target < source):
        low, high = np.minimum(source, target)[rises], np.maximum(source, target)[rises]
        change = np.bincount(low, minlength=size) - np.bincount(high, minlength=size)
        if change.cumsum().max() > 1:
            return False
    return True
