"""Pieces: words on a stretch of their way along a line, with the links and ramps that they use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64, Bools

Places = npt.NDArray[np.int64] | None
"""Hops of each PE of a line from its first; None where neighbours are a hop apart."""


class Resource(IntEnum):
    """Resources that two pieces may share."""

    UP = 0  # links toward higher indices
    DOWN = 1
    INTO_PE = 2
    OUT_OF_PE = 3


NOTHING: Final = (1 << 30, -1)
"""The span of a piece that does not use a resource; it overlaps with none."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The pieces of a plan, each of words that travel along the line at one pace.

    Attributes:
        source, target: int64 ``[n]``: PEs that the words of each leave and reach; int64 ``[m]`` where the only piece
            has messages side by side.
        relayed: bool ``[n]``: whether the PEs between receive and send on, and do not just pass.
        main: bool ``[n]``: whether the receiver takes them in its main thread, which does one operation after another.
        colour: int64 ``[n]``: the colour that they come on, -1 for one of their own.
        places: Of the line's PEs.
        hops: int64 ``[n]``: links of each, of the longest message.
        relays: int64 ``[n]``: PEs that receive and send on.
        spans: int32 ``[resources, 2, n]``: first and last PE of what each uses; links are numbered by the PE that they
            leave. `NOTHING` where it uses none.
    """

    source: I64
    target: I64
    relayed: Bools
    main: Bools
    colour: I64
    places: Places
    hops: I64
    relays: I64
    spans: I32

    def __len__(self) -> int:
        return len(self.main)

    @property
    def side_by_side(self) -> bool:
        """True if the only piece has several messages."""
        return len(self.source) > len(self)


def hops_between(places: Places, source: int, target: int) -> int:
    """Links between two PEs of a line."""
    return abs(target - source) if places is None else abs(int(places[target]) - int(places[source]))


def each_hops_between(places: Places, source: I64, target: I64) -> I64:
    """Return the links between pairs of PEs of a line, int64 ``[n]``."""
    hops: I64 = np.abs(target - source if places is None else places[target] - places[source])
    return hops


def pieces_of_messages(
    source: I64,
    target: I64,
    places: Places,
    *,
    relayed: Bools,
    everywhere: Bools,
    main: Bools,
    leaves: Bools,
    colour: I64,
) -> Pieces:
    """Return pieces of one message each, ``[n]``, that enter every PE on the path (``everywhere``) or only the last.

    ``leaves``: whether they leave the PE by its ramp on their own; the second direction of a multicast does not.
    """
    rises = target > source
    way = np.where(rises, 1, -1)
    near, far = np.where(everywhere, source + way, target), target - way  # into PEs, and the last link
    spans = np.empty((len(Resource), 2, len(source)), np.int32)
    for end, (link, into) in enumerate(
        ((np.minimum(source, far), np.minimum(near, target)), (np.maximum(source, far), np.maximum(near, target)))
    ):
        spans[Resource.UP, end] = np.where(rises, link, NOTHING[end])
        spans[Resource.DOWN, end] = np.where(rises, NOTHING[end], link)
        spans[Resource.INTO_PE, end] = into
        spans[Resource.OUT_OF_PE, end] = np.where(leaves, np.where(relayed, link, source), NOTHING[end])
    relays = np.where(relayed, np.abs(target - source), 0)
    return Pieces(
        source, target, relayed, main, colour, places, each_hops_between(places, source, target), relays, spans
    )


def piece_side_by_side(source: I64, target: I64, places: Places) -> Pieces:
    """Return one piece of stored messages ``[m]`` that use no link or PE twice."""
    rises = target > source
    spans = [
        _hull(source[rises], target[rises] - 1),
        _hull(target[~rises] + 1, source[~rises]),
        _hull(target, target),
        _hull(source, source),
    ]
    hops = each_hops_between(places, source, target).max(keepdims=True)
    no = np.zeros(1, bool)
    return Pieces(
        source, target, no, no, no - 1, places, hops, np.zeros(1, np.int64), np.array(spans, np.int32)[:, :, None]
    )


def _hull(low: I64, high: I64) -> tuple[int, int]:
    return (int(low.min()), int(high.max())) if len(low) else NOTHING
