"""Pieces: words on a stretch of their way along a line, with the links and ramps that they use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]
Places = npt.NDArray[np.int64] | None
"""Hops of each PE of a line from its first; None where neighbours are a hop apart."""

NOTHING: Final = (0, -1)


class Resource(IntEnum):
    """Resources that two pieces may share."""

    UP = 0  # links toward higher indices
    DOWN = 1
    INTO_PE = 2
    OUT_OF_PE = 3


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Words on their way along the line, at one pace.

    Attributes:
        sources, targets: Of its messages; more than one where a segment has messages side by side.
        relayed: Whether the PEs between receive and send on, and do not just pass.
        main: Whether the receiver takes them in its main thread, which does one operation after another.
        colour: The colour that they come on, -1 for one of their own.
        places: Of the line's PEs.
        hops: Links of the longest message.
        relays: PEs that receive and send on.
        spans: First and last PE of what it uses, by ``Resource``: links are numbered by the PE that they leave. (0, -1)
            where it uses nothing.
    """

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    relayed: bool
    main: bool
    colour: int
    places: Places
    hops: int
    relays: int
    spans: tuple[Span, Span, Span, Span]


def hops_between(places: Places, source: int, target: int) -> int:
    """Links between two PEs of a line."""
    return abs(target - source) if places is None else abs(int(places[target]) - int(places[source]))


def one_message(
    source: int,
    target: int,
    places: Places = None,
    *,
    relayed: bool,
    everywhere: bool,
    main: bool,
    leaves: bool = True,
    colour: int = -1,
) -> Piece:
    """A piece of one message, whose words go into ``everywhere`` on the way or into the last PE alone.

    ``leaves``: whether they leave the PE by its ramp on their own; the second direction of a multicast does not.
    """
    rises = target > source
    links = (source, target - 1) if rises else (target + 1, source)
    into = (target, target)
    if everywhere:
        into = (source + 1, target) if rises else (target, source - 1)
    out = NOTHING
    if leaves:
        out = links if relayed else (source, source)
    spans = (links, NOTHING, into, out) if rises else (NOTHING, links, into, out)
    hops, relays = hops_between(places, source, target), abs(target - source) if relayed else 0
    return Piece((source,), (target,), relayed, main, colour, places, hops, relays, spans)


def side_by_side(sources: list[int], targets: list[int], places: Places = None) -> Piece:
    """A piece of messages that are all stored, and use no link or PE twice."""
    messages = list(zip(sources, targets, strict=True))
    up = [(a, b - 1) for a, b in messages if b > a]
    down = [(b + 1, a) for a, b in messages if b < a]
    spans = (_hull(up), _hull(down), (min(targets), max(targets)), (min(sources), max(sources)))
    return Piece(
        sources=tuple(sources),
        targets=tuple(targets),
        relayed=False,
        main=False,
        colour=-1,
        places=places,
        hops=max(hops_between(places, a, b) for a, b in messages),
        relays=0,
        spans=spans,
    )


def _hull(spans: list[Span]) -> Span:
    return (min(low for low, _ in spans), max(high for _, high in spans)) if spans else NOTHING
