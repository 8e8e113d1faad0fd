"""Conflicts: places where words of two messages use the same link of a line, or the same ramp.

Messages are divided into *pieces*, parts of their paths (`wse.backends.fabric.line.pieces`). The
messages of one line form a *plan*. Conflicts depend on neither times nor word counts, so they are
computed once per pattern. The conflicts of all pieces of a plan are found together:

1. Two pieces conflict on a type of link or ramp if the ranges of PEs at which they use it overlap.
2. If both pieces consist of one message, two places are recorded: the ends of the common range. The
   cycles from the start of each piece to these places are fixed, as a hop or a relay always costs
   the same.
3. If a piece consists of several messages side by side, every common place is recorded, with the
   cycles from the start of the message that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Pieces, Resource, each_hops_between

SharedEnd = tuple[int, int, int]
"""A place that the words of two pieces pass.

It consists of the cycles from the start of each piece to this place, and of the maximum number of
words of the second piece that wait between its start and this place.
"""


class Conflict(NamedTuple):
    """Range of PEs at which two messages use the same links or the same ramps.

    A ramp connects a PE and its router. A piece is a part of a message's path. A conflict is stored
    with the piece of one message and names the piece of the other one.

    Attributes:
        other_piece: Index of the other message's piece among all pieces of its line.
        resource: Type of the shared links or ramps, a `Resource`.
        low, high: First and last PE at which both pieces use them.
        shared_ends: PEs at which to compare the times of both pieces: the two ends of this range
            or, if a piece consists of several messages, all PEs where both use the link or ramp.
    """

    other_piece: int
    resource: int
    low: int
    high: int
    shared_ends: tuple[SharedEnd, ...]


class Conflicts(NamedTuple):
    """Conflicts of all pieces of a line; a piece is a part of a message's path.

    Two pieces conflict if they use the same link or ramp. Each attribute has one list of conflicts
    per piece.

    Attributes:
        on_other_colours: Conflicts with pieces on other colours. Words of the two pieces alternate
            on a link.
        on_same_colour: Conflicts with pieces on the same colour. Routers let the other piece pass
            first.
    """

    on_other_colours: list[list[Conflict]]
    on_same_colour: list[list[Conflict]]


def find_conflicts(
    pieces: Pieces, other_pieces: Pieces, costs: LineCosts, *, same_plan: bool, links: bool = True
) -> Conflicts:
    """Find all pairs of message paths that use the same link or ramp.

    A plan contains the messages of one line of PEs. Message paths are divided into pieces, and each
    pair of pieces with a common link or ramp is a conflict. Conflicts are listed for each piece of
    the first plan.

    Args:
        pieces: Pieces of the plan for which conflicts are returned.
        other_pieces: Pieces of a plan that runs at the same time. With ``same_plan``, ``pieces``.
        costs: Cycles per hop and per relay, and how many words can wait there.
        same_plan: Whether both plans are the same. In that case, only conflicts with earlier pieces
            count. Two pieces that the main thread of one PE processes never conflict, because the
            thread processes them sequentially.
        links: True if both plans are on the same line, so that they share links and ramps. False if
            their lines cross at each PE, so that they share only ramps.
    """
    resource, i, j = _pairs(pieces, other_pieces, same_plan=same_plan, links=links)
    has_several_messages = pieces.side_by_side or other_pieces.side_by_side
    conflicts = (_multi_message_conflicts if has_several_messages else _single_message_conflicts)(
        pieces, i, other_pieces, j, resource, costs
    )
    ordered = same_plan & (pieces.colour[i] >= 0) & (pieces.colour[i] == other_pieces.colour[j])
    by_piece = Conflicts([[] for _ in range(len(pieces))], [[] for _ in range(len(pieces))])
    for number, is_ordered, conflict in zip(i.tolist(), ordered.tolist(), conflicts, strict=True):
        if conflict is not None:
            by_piece[is_ordered][number].append(conflict)
    return by_piece


def _pairs(pieces: Pieces, other_pieces: Pieces, *, same_plan: bool, links: bool) -> I64:
    """Return all pairs of pieces (parts of message paths) that may use a common link or ramp.

    Both pieces of a pair use the same type of link or ramp, in overlapping ranges of PEs.

    Args:
        pieces, other_pieces: Pieces of the messages on two lines, or on the same line.
        same_plan: Whether ``pieces`` and ``other_pieces`` are the same. Each pair is then returned
            only once.
        links: True if links and ramps are compared, False for ramps only.

    Returns:
        int64 ``[3, n]``: for each pair, the `Resource`, the piece and the other piece.
    """
    kinds = slice(Resource.UP if links else Resource.INTO_PE, Resource.OUT_OF_PE if same_plan else None)
    (low, high), (start, end) = (piece_list.spans[kinds].swapaxes(0, 1) for piece_list in (pieces, other_pieces))
    resource, i, j = np.nonzero((low[:, :, None] <= end[:, None]) & (start[:, None] <= high[:, :, None]))  # 1
    resource += kinds.start
    if same_plan:  # earlier pieces only, and only if no main thread processes both one after another
        serial = (resource == Resource.INTO_PE) | (pieces.target[i] == pieces.target[j])
        has_conflict = (j < i) & ~(serial & pieces.main[i] & pieces.main[j])
        resource, i, j = resource[has_conflict], i[has_conflict], j[has_conflict]
    return np.stack([resource, i, j])


def _single_message_conflicts(
    pieces: Pieces, i: I64, other_pieces: Pieces, j: I64, resource: I64, costs: LineCosts
) -> Sequence[Conflict | None]:
    """Compute where the two pieces of each pair share links or ramps.

    A piece is a part of a message's path. This function is used if no piece consists of several
    messages. Pair k consists of piece ``i[k]`` and other piece ``j[k]``.

    Args:
        pieces, i: Pieces of all messages on one line, and int64 ``[n]``: the piece of each pair.
        other_pieces, j: The same for the other line, which may be the same line.
        resource: int64 ``[n]``: type of link or ramp of each pair.
        costs: Cycles per hop and per relay, and how many words can wait there.

    Returns:
        One item per pair.
    """
    (low, high), (start, end) = pieces.spans[resource, :, i].T, other_pieces.spans[resource, :, j].T
    low, high = np.maximum(low, start), np.minimum(high, end)
    place = np.stack([low, high])  # 2
    shift, _ = _offsets(pieces, i, pieces.source[i], place, resource, costs)
    other_offsets = _offsets(other_pieces, j, other_pieces.source[j], place, resource, costs)
    ends = (zip(*(values[end].tolist() for values in (shift, *other_offsets)), strict=True) for end in (0, 1))
    shared_ends = zip(*ends, strict=True)
    return list(map(Conflict, j.tolist(), resource.tolist(), low.tolist(), high.tolist(), shared_ends))


def _multi_message_conflicts(
    pieces: Pieces, i: I64, other_pieces: Pieces, j: I64, resource: I64, costs: LineCosts
) -> list[Conflict | None]:
    """Compute where the two pieces of each pair share links or ramps.

    A piece is a part of a message's path, or a group of messages that do not affect each other.
    This function is used if any piece is such a group. Pair k consists of piece ``i[k]`` and other
    piece ``j[k]``.

    Args:
        pieces, i: Pieces of all messages on one line, and int64 ``[n]``: the piece of each pair.
        other_pieces, j: The same for the other line, which may be the same line.
        resource: int64 ``[n]``: type of link or ramp of each pair.
        costs: Cycles per hop and per relay, and how many words can wait there.

    Returns:
        One item per pair. It is None if the messages of the pair have no link or ramp in common,
        although the ranges of PEs of the two pieces overlap.
    """
    conflicts: list[Conflict | None] = []
    for piece, other_piece, kind in zip(i.tolist(), j.tolist(), resource.tolist(), strict=True):
        low, high = pieces.spans[kind, :, piece].tolist()
        start, end = other_pieces.spans[kind, :, other_piece].tolist()
        places = np.arange(max(low, start), min(high, end) + 1)
        source, other_source = _sources(pieces, piece, places, kind), _sources(other_pieces, other_piece, places, kind)
        common_places = np.flatnonzero((source >= 0) & (other_source >= 0))  # 3
        shift, room = _offsets(pieces, piece, source[common_places], places[common_places], kind, costs)
        other_offsets = _offsets(
            other_pieces, other_piece, other_source[common_places], places[common_places], kind, costs
        )
        shared_ends = np.unique([shift, room, *other_offsets], axis=1)[[0, 2, 3]].T.tolist()
        if len(common_places):
            first, last = places[common_places[[0, -1]]].tolist()
            conflicts.append(Conflict(other_piece, kind, first, last, tuple(map(tuple, shared_ends))))
        else:
            conflicts.append(None)
    return conflicts


def _sources(pieces: Pieces, number: int, places: I64, resource: int) -> I64:
    """Return which PE sent the words that pass a link or ramp at each of the given PEs.

    Only the messages of one piece are considered. A piece is a part of a message's path, or a group
    of messages that do not affect each other.

    Args:
        pieces: All pieces of a line.
        number: Index of the piece.
        places: int64 ``[n]``: indices of the PEs.
        resource: Type of the link or ramp, a `Resource`.

    Returns:
        int64 ``[n]``: index of the sending PE; -1 where no message of the piece uses the link or
        ramp.
    """
    if not pieces.side_by_side:
        return np.full(len(places), pieces.source[number])
    user = np.full(int(max(pieces.source.max(), pieces.target.max(), places[-1])) + 1, -1)
    for source, target in zip(pieces.source.tolist(), pieces.target.tolist(), strict=True):
        if resource == Resource.OUT_OF_PE:
            user[source] = source
        elif resource == Resource.INTO_PE:
            user[target] = source
        elif (target > source) == (resource == Resource.UP):
            user[slice(source, target) if target > source else slice(target + 1, source + 1)] = source
    return user[places]


def _offsets(
    pieces: Pieces, numbers: I64 | int, source: I64, place: I64, resource: I64 | int, costs: LineCosts
) -> tuple[I64, I64]:
    """Return how long words travel from their source to a PE, and how many can wait on the way.

    Args:
        pieces: Pieces (parts of message paths) of a line.
        numbers: int64 ``[n]`` or one index: piece of each message.
        source, place: int64 ``[..., n]``: source of each message, and the PE on its path.
        resource: Type of the link or ramp that the words use at the PE.
        costs: Cycles per hop and per relay, and how many words can wait there.

    Returns:
        Number of cycles from the source until the words use the link or ramp, and number of words
        that fit in the queues and on the wires in between.
    """
    hops = each_hops_between(pieces.places, source, place)
    distance = np.abs(place - source) - (resource == Resource.INTO_PE)
    relays = np.where(pieces.relayed[numbers], distance, 0)
    return hops * costs.hop + relays * costs.relay_latency, hops * costs.hop_room + relays * costs.relay_room
