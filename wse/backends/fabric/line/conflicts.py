"""Conflicts: places where the words of two pieces use one link of the line, or one PE's ramp, for any times.

A piece is a stretch of a message's way (`wse.backends.fabric.line.pieces`). Neither times nor counts of words are known
here. Conflicts of all pieces of a plan are found at once:

1. Two pieces conflict on a resource where the spans of what they use there overlap.
2. Of two pieces of one message each, words pass the ends of what they share so many cycles after they left their
   sources: a hop or a relay each.
3. Of messages side by side every shared place counts, at the offset of the message that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Pieces, Resource, each_hops_between

SharedEnd = tuple[int, int, int]
"""A place where the words of a piece and of another one pass: cycles from the start of each until they do, and words of
the other that wait at most between its start and this place."""


class Conflict(NamedTuple):
    """A resource that two pieces share: places ``low`` to ``high``, and when words pass there.

    ``other_piece``: the other one's number in its plan. ``shared_ends``: the two ends of what they share.
    """

    other_piece: int
    resource: int
    low: int
    high: int
    shared_ends: tuple[SharedEnd, ...]


class Conflicts(NamedTuple):
    """The conflicts of each piece of a plan with pieces of the same or another plan, by the index of the piece.

    ``in_turn``: with pieces on other colours; ``in_order``: with pieces that come on the same one, whose switches let
    the other pass first.
    """

    in_turn: list[list[Conflict]]
    in_order: list[list[Conflict]]


def find_conflicts(
    pieces: Pieces, other_pieces: Pieces, costs: LineCosts, *, same: bool, links: bool = True
) -> Conflicts:
    """Find the conflicts of each piece of ``pieces`` with ``other_pieces``, in the ``same`` plan with earlier ones.

    Args:
        pieces: The pieces of a plan.
        other_pieces: Those of another one, or the same.
        costs: Cycles of a hop and of a relay, and words that wait there.
        same: Whether they are the same: then main threads keep their words apart.
        links: Whether both lie on the same line, or cross it at each of its PEs.
    """
    resource, i, j = _pairs(pieces, other_pieces, same=same, links=links)
    many = pieces.side_by_side or other_pieces.side_by_side
    conflicts = (_of_many if many else _of_messages)(pieces, i, other_pieces, j, resource, costs)
    ordered = same & (pieces.colour[i] >= 0) & (pieces.colour[i] == other_pieces.colour[j])
    by_piece = Conflicts([[] for _ in range(len(pieces))], [[] for _ in range(len(pieces))])
    for number, in_order, conflict in zip(i.tolist(), ordered.tolist(), conflicts, strict=True):
        if conflict is not None:
            by_piece[in_order][number].append(conflict)
    return by_piece


def _pairs(pieces: Pieces, other_pieces: Pieces, *, same: bool, links: bool) -> I64:
    """Return the resource and the two pieces of each pair that use it at the same PEs, int32 ``[3, n]``."""
    kinds = slice(Resource.UP if links else Resource.INTO_PE, Resource.OUT_OF_PE if same else None)
    (low, high), (start, end) = (each.spans[kinds].swapaxes(0, 1) for each in (pieces, other_pieces))
    resource, i, j = np.nonzero((low[:, :, None] <= end[:, None]) & (start[:, None] <= high[:, :, None]))  # 1
    resource += kinds.start
    if same:  # earlier ones, if no main thread takes both one after another
        serial = (resource == Resource.INTO_PE) | (pieces.target[i] == pieces.target[j])
        kept = (j < i) & ~(serial & pieces.main[i] & pieces.main[j])
        resource, i, j = resource[kept], i[kept], j[kept]
    return np.stack([resource, i, j])


def _of_messages(
    pieces: Pieces, i: I64, other_pieces: Pieces, j: I64, resource: I64, costs: LineCosts
) -> Sequence[Conflict | None]:
    """Return the conflicts ``[n]`` of pieces ``i`` with pieces ``j`` of the other plan, each of one message."""
    (low, high), (start, end) = pieces.spans[resource, :, i].T, other_pieces.spans[resource, :, j].T
    low, high = np.maximum(low, start), np.minimum(high, end)
    place = np.stack([low, high])  # 2
    shift, _ = _offsets(pieces, i, pieces.source[i], place, resource, costs)
    others = _offsets(other_pieces, j, other_pieces.source[j], place, resource, costs)
    near, far = (zip(*(each[end].tolist() for each in (shift, *others)), strict=True) for end in (0, 1))
    shared_ends = zip(near, far, strict=True)
    return list(map(Conflict, j.tolist(), resource.tolist(), low.tolist(), high.tolist(), shared_ends))


def _of_many(
    pieces: Pieces, i: I64, other_pieces: Pieces, j: I64, resource: I64, costs: LineCosts
) -> list[Conflict | None]:
    """Return the conflicts of pairs in which one piece has several messages; None where they do not conflict."""
    conflicts: list[Conflict | None] = []
    for piece, other, kind in zip(i.tolist(), j.tolist(), resource.tolist(), strict=True):
        (low, high), (start, end) = pieces.spans[kind, :, piece].tolist(), other_pieces.spans[kind, :, other].tolist()
        places = np.arange(max(low, start), min(high, end) + 1)
        source, other_source = _sources(pieces, piece, places, kind), _sources(other_pieces, other, places, kind)
        shared = np.flatnonzero((source >= 0) & (other_source >= 0))  # 3
        shift, room = _offsets(pieces, piece, source[shared], places[shared], kind, costs)
        others = _offsets(other_pieces, other, other_source[shared], places[shared], kind, costs)
        shared_ends = np.unique([shift, room, *others], axis=1)[[0, 2, 3]].T.tolist()
        if len(shared):
            first, last = places[shared[[0, -1]]].tolist()
            conflicts.append(Conflict(other, kind, first, last, tuple(map(tuple, shared_ends))))
        else:
            conflicts.append(None)
    return conflicts


def _sources(pieces: Pieces, number: int, places: I64, resource: int) -> I64:
    """Return the source of the message of a piece that uses a resource of each PE, int64 ``[n]``; -1 for none."""
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
    """Return the cycles from a message's start until its words use a resource, and the words waiting on the way."""
    hops = each_hops_between(pieces.places, source, place)
    passed = np.abs(place - source) - (resource == Resource.INTO_PE)
    relays = np.where(pieces.relayed[numbers], passed, 0)
    return hops * costs.hop + relays * costs.relay_latency, hops * costs.hop_room + relays * costs.relay_room
