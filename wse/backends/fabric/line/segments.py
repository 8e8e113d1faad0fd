"""Messages of a line as path segments, each of which needs one calculation.

A segment is one of the following:

- one message
- a run of messages between neighbours, where the PEs in between only receive and send on
- the two directions of a multicast
- messages side by side that are the only ones of their PEs and use no link twice

Words and times are not known here, so a plan is made once per pattern. The ``segments`` of a
pattern are something else: sections of its line.
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

_COMBINES: Final = np.isin(np.array(Arrival), COMBINING)  # whether each type of arrival combines values


class PathSegment(NamedTuple):
    """A send and the messages that it starts.

    Attributes:
        source: PE that sends.
        relays: Index of the piece for the run of neighbours that the words pass first; -1 if there
            is none.
        relays_hop_cycles, relays_relay_cycles: Cycles of the hops of this run, and of its relays
            including those of software.
        relays_age, relays_room: Cycles of this run for words that never wait, and words that fit on
            it.
        piece, end_piece: Range of the other pieces: the last message of a run, the only message, or
            the two directions of a multicast.
        hop_cycles, room: Cycles of the hops of the first of these pieces, and words that fit on it.
        target: PE that receives the words in its main thread; -1 if they are stored by another
            thread.
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
    """Plan of the messages of one line, for one variant of a pattern.

    Attributes:
        segments: Path segments, in order.
        pieces: Pieces (parts of message paths) of the segments.
        hop_cycles: Cycles of the hops of each piece.
        colours: Colour of each piece.
        conflicts: Conflicts of each piece with earlier pieces.
    """

    segments: list[PathSegment]
    pieces: Pieces
    hop_cycles: list[int]
    colours: list[int]
    conflicts: Conflicts


def line_segments(messages: I32, costs: LineCosts, colours: I32 | None = None, places: Places = None) -> LinePlan:
    """Return the path segments of the messages of one line.

    1. Copies within a PE are left out.
    2. The other messages become one piece, if they are side by side and independent, or else pieces
       of one message or run each.
    3. Hops and relays of the pieces are converted to cycles and to the number of words that fit on
       the path.
    4. Conflicts between the pieces are found.

    Args:
        messages: int32 ``[m, 3]``: source, target, Arrival.
        costs: Costs of words on a line.
        colours: int32 ``[m]``, colours of the messages if they are fixed.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
    """
    travels = (messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1])  # 1
    source, target, arrival = messages[travels].T.astype(np.int64)
    if _independent(source, target, arrival):  # 2
        pieces, numbers = piece_side_by_side(source, target, places), np.array([[source[0], -1, 0, 1, -1]])
    else:
        colour = np.full(len(source), -1) if colours is None else colours[travels].astype(np.int64)
        pieces, numbers = _in_runs(source, target, arrival, colour, places)
    sending, relays, piece, end_piece, receiving = numbers.T
    hop_cycles, relay_cycles = pieces.hops * costs.hop, pieces.relays * costs.relay_latency  # 3
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
    conflicts = find_conflicts(pieces, pieces, costs, same_plan=True)  # 4
    return LinePlan(segments, pieces, hop_cycles.tolist(), pieces.colour.tolist(), conflicts)


def _in_runs(source: I64, target: I64, arrival: I64, colour: I64, places: Places) -> tuple[Pieces, I64]:
    """Return the pieces of consecutive messages, and the indices that define each `PathSegment`.

    1. Messages are grouped to runs. A run ends where the next message is not a direct continuation.
    2. Each run has a piece for its relays, if there are any, and a piece for its last message.
    3. A run begins a segment, unless it is the second direction of a multicast.

    The indices are int64 ``[n, 5]``: source, relays, piece, end piece, target.
    """
    flood, combines = arrival == Arrival.MULTICAST, _COMBINES[arrival]
    second = np.zeros(len(source), bool)  # second direction of a multicast, which is not a send of its own
    second[1:] = flood[1:] & flood[:-1] & (source[1:] == source[:-1])
    ends = np.flatnonzero(~_passes(source, target, combines, second))  # 1. the last message of each run
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    has_relays = ends > starts
    number = (1 + has_relays).cumsum() - 1  # 2. index of the piece of each run's last message
    run = np.repeat(np.arange(len(ends)), 1 + has_relays)  # run of each piece
    relayed = np.ones(len(run), bool)
    relayed[number] = False
    last = ends[run]
    enters_all = relayed | flood[last]
    pieces = pieces_of_messages(
        np.where(relayed, source[starts[run]], source[last]),
        np.where(relayed, source[last], target[last]),
        places,
        relayed=relayed,
        enters_all=enters_all,
        main=combines[last],
        leaves=~second[last],
        colour=np.where(enters_all, -1, colour[last]),
    )
    first = np.flatnonzero(~second[starts])  # 3. first run of each segment
    relays = np.where(has_relays, number - 1, -1)
    end_piece = np.append((number - has_relays)[first[1:]], len(pieces))[: len(first)]
    receiving = np.where(combines[ends], target[ends], -1)
    return pieces, np.stack([source[starts[first]], relays[first], number[first], end_piece, receiving[first]], axis=1)


def _passes(source: I64, target: I64, combines: Bools, second: Bools) -> Bools:
    """Return which messages continue as the next message, through a relay, as bool ``[m]``.

    The PE in between must do nothing else. The two messages then belong to the same run.
    """
    sends, receives = np.bincount(source[~second]), np.bincount(target[combines])
    passes = np.zeros(len(source), bool)
    step = target - source
    follows = (
        combines[:-1] & combines[1:] & (source[1:] == target[:-1]) & (step[1:] == step[:-1]) & (abs(step[1:]) == 1)
    )
    relay_pes = target[:-1][follows]
    passes[:-1][follows] = (sends[relay_pes] == 1) & (receives[relay_pes] == 1)
    return passes


def _independent(source: I64, target: I64, arrival: I64) -> bool:
    """Return True if all messages are stored, each PE has only one, and no link is used twice."""
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
