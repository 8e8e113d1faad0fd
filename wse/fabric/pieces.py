"""Words on their way along a line, and what of the line and its PEs they use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


class Over(IntEnum):
    """What two pieces may share."""

    UP = 0  # links toward higher indices
    DOWN = 1
    INTO_PE = 2
    OUT_OF_PE = 3


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Words on their way along the line, at one pace.

    Attributes:
        sources, targets: int64 ``[messages]``; more than one where a leg has messages side by side.
        relayed: Whether the PEs between receive and send on, and do not just pass.
        everywhere: Whether the words go into every PE on the way, or into the last alone.
        main: Whether the receiver takes them in its main thread, which does one operation after another.
        leaves: Whether they leave the PE by its ramp on their own; the second direction of a multicast does not.
        channel: The colour that they come on, -1 for one of their own.
    """

    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    relayed: bool
    everywhere: bool
    main: bool
    leaves: bool
    channel: int

    @property
    def hops(self) -> int:
        """Links of the longest message."""
        return int(np.abs(self.targets - self.sources).max())

    def span(self, over: Over) -> tuple[int, int]:
        """First and last PE of what it uses: links are numbered by the PE that they leave. Empty: (0, -1)."""
        low, high = int(min(self.sources.min(), self.targets.min())), int(max(self.sources.max(), self.targets.max()))
        if over == Over.OUT_OF_PE:
            if not self.leaves:
                return 0, -1
            if not self.relayed:
                return int(self.sources.min()), int(self.sources.max())
            return (low, high - 1) if self.targets[0] > self.sources[0] else (low + 1, high)
        if over == Over.INTO_PE:
            if not self.everywhere:
                return int(self.targets.min()), int(self.targets.max())
            return (low + 1, high) if self.targets[0] > self.sources[0] else (low, high - 1)
        forward = self.targets > self.sources
        mine = forward if over == Over.UP else ~forward
        if not mine.any():
            return 0, -1
        ends = self.sources[mine], self.targets[mine]
        low, high = int(np.minimum(*ends).min()), int(np.maximum(*ends).max())
        return (low, high - 1) if over == Over.UP else (low + 1, high)


def piece_of(
    sources: I32 | list[int],
    targets: I32 | list[int],
    *,
    relayed: bool,
    everywhere: bool,
    main: bool,
    leaves: bool = True,
    channel: int = -1,
) -> Piece:
    """A piece whose messages go from ``sources`` to ``targets``, int ``[messages]``; the rest as in ``Piece``."""
    ends = np.asarray(sources, np.int64), np.asarray(targets, np.int64)
    return Piece(*ends, relayed, everywhere, main, leaves, channel)
