"""Path segments: the messages of a line, grouped so that each group needs one calculation.

A segment is one of the following:

- one message
- a run of messages between neighbours, where the PEs in between only receive and forward words
- the two directions of a multicast
- messages side by side, at most one per sender and receiver, that use no link twice

Words and times are not known here, so a plan is made once per pattern. Do not confuse path segments
with the ``segments`` of a pattern, which are sections of its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import I32, I64, Bools
from wse.backends.fabric.line.contention.conflicts import Conflicts, find_conflicts
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Pieces, Places, piece_side_by_side, pieces_of_messages
from wse_mappings.schedule import COMBINING, Arrival

_COMBINES: Final = np.isin(np.array(Arrival), COMBINING)  # whether each type of arrival combines values


class PathSegment(NamedTuple):
    """Send operation of one PE, with the path of its words to the next receiving PE.

    The words may first pass through a run of neighbouring PEs that relay them; this run is one
    piece of the path. One or two direct pieces follow: the last message of the run, the only
    message, or the two directions of a multicast.

    Attributes:
        source: PE that sends.
        run_piece: Index of the piece for the run of relays; -1 if there is none.
        run_hop_cycles, run_relay_cycles: Cycles spent on the hops and on the relays in this run.
            The software of the relays is included.
        run_age: Cycles that a word needs for this run if it never waits.
        run_room: Number of words that fit on this run, in queues and on wires.
        piece, end_piece: Index of the first direct piece, and the index after the last.
        hop_cycles, room: Cycles that the hops of the first direct piece take, and number of words
            that fit on that piece.
        target: PE that receives the words in its main thread; -1 if they are stored by another
            thread.
    """

    source: int
    run_piece: int
    run_hop_cycles: int
    run_relay_cycles: int
    run_age: int
    run_room: int
    piece: int
    end_piece: int
    hop_cycles: int
    room: int
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """Messages on one line of PEs, prepared once and timed for different word counts.

    A path segment is a send of one PE, with the path of its words to the next receiving PE. Each
    path is divided into pieces, on which words move at the same rate.

    Attributes:
        segments: Path segments, in the order in which they are timed.
        pieces: Pieces of all paths.
        hop_cycles: For each piece, the cycles in which a word crosses its links.
        colours: For each piece, its colour; -1 if no other piece uses the colour.
        conflicts: For each piece, the links and ramps (connections between router and PE) that it
            shares with earlier pieces.
    """

    segments: list[PathSegment]
    pieces: Pieces
    hop_cycles: list[int]
    colours: list[int]
    conflicts: Conflicts


def line_segments(messages: I32, costs: LineCosts, colours: I32 | None = None, places: Places = None) -> LinePlan:
    """Group the messages of one line into path segments, which are timed one by one.

    A path segment is a send operation of one PE with the path of its words to the next receiving
    PE. A piece is a part of a path.

    1. Copies within a PE are left out.
    2. If the other messages are independent of each other, they form one piece. Otherwise each
       message, or each run of messages through relays, is divided into pieces.
    3. The hops and relays of the pieces are converted to cycles and to the number of words that fit
       on the path.
    4. Conflicts between the pieces are found.

    Args:
        messages: int32 ``[m, 3]``: sending PE, receiving PE, effect at the receiver (Arrival).
        costs: Cycle counts and queue sizes for words on a line of PEs.
        colours: int32 ``[m]``, colours of the messages; None if they are not fixed.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
    """
    travels = (messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1])  # 1
    source, target, arrival = messages[travels].T.astype(np.int64)
    if _are_independent(source, target, arrival):  # 2
        pieces, numbers = piece_side_by_side(source, target, places), np.array([[source[0], -1, 0, 1, -1]])
    else:
        colour = np.full(len(source), -1) if colours is None else colours[travels].astype(np.int64)
        pieces, numbers = _in_runs(source, target, arrival, colour, places)
    sending, run_piece, piece, end_piece, receiving = numbers.T
    hop_cycles, relay_cycles = pieces.hops * costs.hop, pieces.relays * costs.relay_latency  # 3
    room = pieces.hops * costs.hop_room + pieces.relays * costs.relay_room
    properties = hop_cycles, relay_cycles + pieces.relays * costs.relay, hop_cycles + relay_cycles, room
    has_relays = run_piece >= 0
    columns = (
        sending,
        run_piece,
        *(values[run_piece] * has_relays for values in properties),
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
    """Divide the paths of a line's messages into pieces, and group the pieces into path segments.

    A piece is a part of a path on which words move at the same rate. A path segment is a send
    operation of one PE with the path of its words to the next receiving PE.

    1. Messages are grouped into runs. A run ends where no relay (a PE that only forwards) continues
       it with the next message.
    2. Each run has one piece for its relays, if there are any, and one for its last message.
    3. Each run begins a path segment, unless it is the second direction of a multicast.

    Args:
        source, target, arrival: int64 ``[m]``: source, target and Arrival of each message.
        colour: int64 ``[m]``: colour of each message, or -1.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.

    Returns:
        The pieces, and int64 ``[segments, 5]``, for each `PathSegment`: source, piece of the
        relays, first direct piece, one past the last direct piece, target.
    """
    is_multicast, combines = arrival == Arrival.MULTICAST, _COMBINES[arrival]
    is_second = np.zeros(len(source), bool)  # second direction of a multicast, which is not a send of its own
    is_second[1:] = is_multicast[1:] & is_multicast[:-1] & (source[1:] == source[:-1])
    ends = np.flatnonzero(~_is_relayed(source, target, combines, is_second))  # 1. the last message of each run
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    has_relays = ends > starts
    last_piece = (1 + has_relays).cumsum() - 1  # 2. index of the piece of each run's last message
    run = np.repeat(np.arange(len(ends)), 1 + has_relays)  # run of each piece
    relayed = np.ones(len(run), bool)
    relayed[last_piece] = False
    last = ends[run]
    enters_all = relayed | is_multicast[last]
    pieces = pieces_of_messages(
        np.where(relayed, source[starts[run]], source[last]),
        np.where(relayed, source[last], target[last]),
        places,
        relayed=relayed,
        enters_all=enters_all,
        main=combines[last],
        leaves=~is_second[last],
        colour=np.where(enters_all, -1, colour[last]),
    )
    first = np.flatnonzero(~is_second[starts])  # 3. first run of each segment
    run_piece = np.where(has_relays, last_piece - 1, -1)
    end_piece = np.append((last_piece - has_relays)[first[1:]], len(pieces))[: len(first)]
    receiving = np.where(combines[ends], target[ends], -1)
    columns = source[starts[first]], run_piece[first], last_piece[first], end_piece, receiving[first]
    return pieces, np.stack(columns, axis=1)


def _is_relayed(source: I64, target: I64, combines: Bools, is_second: Bools) -> Bools:
    """Return, for each message, whether its target sends the words on as the next message.

    This requires that both messages go to a neighbour in the same direction, and that the PE
    between them combines the words with its own, and receives and sends nothing else.

    Args:
        source, target: int64 ``[m]``: source and target of each message.
        combines: bool ``[m]``: whether the target combines the words.
        is_second: bool ``[m]``: whether the message is the second direction of a multicast.

    Returns:
        bool ``[m]``.
    """
    sends, receives = np.bincount(source[~is_second]), np.bincount(target[combines])
    is_relayed = np.zeros(len(source), bool)
    step = target - source
    follows = (
        combines[:-1] & combines[1:] & (source[1:] == target[:-1]) & (step[1:] == step[:-1]) & (abs(step[1:]) == 1)
    )
    relay_pes = target[:-1][follows]
    is_relayed[:-1][follows] = (sends[relay_pes] == 1) & (receives[relay_pes] == 1)
    return is_relayed


def _are_independent(source: I64, target: I64, arrival: I64) -> bool:
    """Return True if messages cannot delay each other, so their times can be computed together.

    Each message must only be stored where it arrives, no PE may send or receive two of the
    messages, and no link may be used twice.

    Args:
        source, target: int64 ``[m]``: sending and receiving PE of each message.
        arrival: int64 ``[m]``: effect of each message at its receiver (`Arrival`).
    """
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
