"""Conflicts: places where the words of two pieces use one link of the line, or one PE's ramp, whatever the times.

A piece is a stretch of a message's way (`wse.fabric.line.pieces`). Neither times nor counts of words are known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wse.arrays import I64, Bools
from wse.fabric.line.pieces import Piece, Resource, hops_between


class Offset(NamedTuple):
    """The distance from the start of a piece to a place on its way: hops, and relays passed."""

    hops: int
    relays: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """A resource that a piece and another one share: places ``low`` to ``high``, and the words' offsets there.

    ``other_piece``: the other one's index in its plan. ``offsets``: (its own, the other's); along a stretch of the
    line those at its two ends. ``in_order``: both come on one colour, whose switches let the other pass first.
    """

    other_piece: int
    resource: Resource
    low: int
    high: int
    offsets: tuple[tuple[Offset, Offset], ...]
    in_order: bool


def find_conflicts(
    pieces: Sequence[Piece], other_pieces: Sequence[Piece], *, same: bool, links: bool = True
) -> list[list[Conflict]]:
    """Find the conflicts of each piece of ``pieces`` with ``other_pieces``; with earlier ones in the ``same`` plan.

    Args:
        pieces: The pieces of a plan.
        other_pieces: Those of another one, or the same.
        same: Whether they are the same: then main threads keep their words apart.
        links: Whether both lie on the same line, or cross it at each of its PEs.
    """
    by_piece: list[list[Conflict]] = [[] for _ in pieces]
    if same and len(pieces) == 1:
        return by_piece
    for resource in Resource:
        if (resource in (Resource.UP, Resource.DOWN) and not links) or (same and resource == Resource.OUT_OF_PE):
            continue
        (low, high), (start, end) = _spans(pieces, resource).T, _spans(other_pieces, resource).T
        touch = (low[:, None] <= end) & (start <= high[:, None]) & (low <= high)[:, None] & (start <= end)
        if same:
            touch &= np.tri(len(low), k=-1, dtype=bool) & ~_serial(pieces, resource)
        for i, j in np.argwhere(touch).tolist():
            a, b = pieces[i], other_pieces[j]
            in_order = same and a.colour >= 0 and a.colour == b.colour
            conflict = _conflict(a, b, j, resource, in_order=in_order)
            if conflict:
                by_piece[i].append(conflict)
    return by_piece


def _spans(pieces: Sequence[Piece], resource: Resource) -> I64:
    return np.array([piece.spans[resource] for piece in pieces], np.int64).reshape(-1, 2)


def _serial(pieces: Sequence[Piece], resource: Resource) -> Bools:
    """Pieces of one plan that a main thread takes one after another."""
    main = np.array([piece.main for piece in pieces])
    is_serial: Bools = main[:, None] & main[None, :]
    if resource != Resource.INTO_PE:
        into = np.array([piece.targets[0] for piece in pieces])
        is_serial &= into[:, None] == into[None, :]
    return is_serial


def _conflict(piece: Piece, other_piece: Piece, number: int, resource: Resource, *, in_order: bool) -> Conflict | None:
    (a, b), (c, d) = piece.spans[resource], other_piece.spans[resource]
    low, high = max(a, c), min(b, d)
    if len(piece.sources) == len(other_piece.sources) == 1:
        ends = (low, high) if low < high else (low,)
        offsets = tuple(
            (_at(piece, piece.sources[0], p, resource), _at(other_piece, other_piece.sources[0], p, resource))
            for p in ends
        )
        return Conflict(number, resource, low, high, offsets, in_order)
    offsets_at = np.concatenate([_offsets(piece, resource, low, high), _offsets(other_piece, resource, low, high)])
    places = np.flatnonzero((offsets_at[0] >= 0) & (offsets_at[2] >= 0))
    if not len(places):
        return None
    pairs = np.unique(offsets_at[:, places], axis=1).T.tolist()
    offsets = tuple((Offset(*pair[:2]), Offset(*pair[2:])) for pair in pairs)
    return Conflict(number, resource, low + int(places[0]), low + int(places[-1]), offsets, in_order)


def _offsets(piece: Piece, resource: Resource, low: int, high: int) -> I64:
    """int64 ``[2, n]``: offsets of the message that uses something of each PE from ``low`` to ``high``; -1 for none."""
    if len(piece.sources) == 1:
        away = np.abs(np.arange(low, high + 1) - piece.sources[0])
        hops = away if piece.places is None else np.abs(piece.places[low : high + 1] - piece.places[piece.sources[0]])
        return np.stack([hops, away - (resource == Resource.INTO_PE) if piece.relayed else np.zeros_like(away)])
    offsets = np.full((2, high - low + 1), -1, np.int64)
    for source, target in zip(piece.sources, piece.targets, strict=True):
        if resource == Resource.OUT_OF_PE:
            link_places = range(source, source + 1)
        elif resource == Resource.INTO_PE:
            link_places = range(target, target + 1)
        else:
            link_places = range(source, target) if resource == Resource.UP else range(source, target, -1)
        for place in link_places:
            if low <= place <= high:
                offsets[:, place - low] = _at(piece, source, place, resource)
    return offsets


def _at(piece: Piece, source: int, place: int, resource: Resource) -> Offset:
    passed = abs(place - source) - (resource == Resource.INTO_PE) if piece.relayed else 0
    return Offset(hops_between(piece.places, source, place), passed)
