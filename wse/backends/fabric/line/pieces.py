"""Pieces: parts of the paths of messages along a line, with the links and ramps that they use.

A piece is one message, or a run of messages between neighbours that software relays, or several
messages side by side. Contention is computed between pieces
(`wse.backends.fabric.line.contention.conflicts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64, Bools

Places = npt.NDArray[np.int64] | None
"""Hops from the first PE of a line to each PE; None if neighbours are one hop apart."""


class Resource(IntEnum):
    """Type of a connection that the paths of two messages may share.

    It is a link towards higher or lower PE indices, or the ramp into or out of a PE.
    """

    UP = 0  # links toward higher indices
    DOWN = 1  # links toward lower indices
    INTO_PE = 2  # ramps from a router to its PE
    OUT_OF_PE = 3  # ramps from a PE to its router


NOTHING: Final = (1 << 30, -1)
"""Span of a piece that does not use a resource. It does not overlap any other span."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Parts of message paths (pieces), as arrays. The words of each piece move at the same rate.

    Attributes:
        source, target: int64 ``[n]``: PEs at which the words start and end. If the only piece
            consists of several messages side by side, int64 ``[m]``: source and target PE of each
            message.
        relayed: bool ``[n]``: True if the PEs in between receive and forward the words, False if
            only their routers forward them.
        main: bool ``[n]``: whether the receiver uses its main thread, which executes operations
            sequentially.
        colour: int64 ``[n]``: colour of the words; -1 if no other piece uses their colour.
        places: Hops from the first PE to each PE of the line.
        hops: int64 ``[n]``: number of links of each piece, or of its longest message.
        relays: int64 ``[n]``: number of PEs that receive and forward the words.
        spans: int32 ``[resources, 2, n]``: first and last PE at which each piece uses each type of
            link or ramp; `NOTHING` if it does not. A link belongs to the PE that it leaves.
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
        """True if all messages use different links and PEs, so that they do not affect each other.

        They are then combined into a single piece (part of a message path).
        """
        return len(self.source) > len(self)


def hops_between(places: Places, source: int, target: int) -> int:
    """Return the number of links between two PEs of a line.

    Args:
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
        source, target: Indices of the PEs on the line.
    """
    return abs(target - source) if places is None else abs(int(places[target]) - int(places[source]))


def each_hops_between(places: Places, source: I64, target: I64) -> I64:
    """Return the number of links between the PEs of each pair, as int64 ``[n]``.

    Args:
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
        source, target: int64 ``[n]``: indices of the PEs on the line.
    """
    hops: I64 = np.abs(target - source if places is None else places[target] - places[source])
    return hops


def pieces_of_messages(
    source: I64,
    target: I64,
    places: Places,
    *,
    relayed: Bools,
    enters_all: Bools,
    main: Bools,
    leaves: Bools,
    colour: I64,
) -> Pieces:
    """Return one piece for each message, or for each run of messages that PEs relay.

    A piece is a part of a message's path, with the links and ramps that its words use.

    Args:
        source, target: int64 ``[n]``: PEs at which the words start and end.
        places: Hops from the first PE to each PE of the line.
        relayed: bool ``[n]``: whether the PEs in between receive and forward the words.
        enters_all: bool ``[n]``: whether the words enter every PE on the path, or only the last.
        main: bool ``[n]``: whether the receiver uses its main thread, which executes operations
            one after another.
        leaves: bool ``[n]``: True if the words use the ramp from the source PE to its router. A
            multicast in two directions sends its words over this ramp only once, and the router
            copies them, so the message of the second direction has False.
        colour: int64 ``[n]``: colour of the words, or -1.
    """
    rises = target > source
    step = np.where(rises, 1, -1)
    near = np.where(enters_all, source + step, target)  # first PE entered
    last_link = target - step  # PE before the last link
    spans = np.empty((len(Resource), 2, len(source)), np.int32)
    for end, (link, entered_pes) in enumerate(
        (
            (np.minimum(source, last_link), np.minimum(near, target)),
            (np.maximum(source, last_link), np.maximum(near, target)),
        )
    ):
        spans[Resource.UP, end] = np.where(rises, link, NOTHING[end])
        spans[Resource.DOWN, end] = np.where(rises, NOTHING[end], link)
        spans[Resource.INTO_PE, end] = entered_pes
        spans[Resource.OUT_OF_PE, end] = np.where(leaves, np.where(relayed, link, source), NOTHING[end])
    relays = np.where(relayed, np.abs(target - source), 0)
    return Pieces(
        source, target, relayed, main, colour, places, each_hops_between(places, source, target), relays, spans
    )


def piece_side_by_side(source: I64, target: I64, places: Places) -> Pieces:
    """Combine messages that do not affect each other into a single piece, to be timed at once.

    A piece is a unit whose words move at one rate, usually a part of one message's path. Here, no
    link carries two of the messages, and no PE sends or receives two of them. Words are only stored
    on arrival.

    Args:
        source, target: int64 ``[m]``: source and target PE of each message.
        places: Hops from the first PE to each PE of the line.
    """
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
    """Return the range of PEs from the lowest start to the highest end of the given spans.

    The result is `NOTHING` if there are no spans.

    Args:
        low, high: First and last PE of each span.
    """
    return (int(low.min()), int(high.max())) if len(low) else NOTHING
