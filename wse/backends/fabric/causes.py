"""Cycles by cause: what a stretch of time was spent on."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

CAUSES: Final = ("hops", "relays", "compute", "launch", "crossing", "host")


class Cycles(NamedTuple):
    """Cycles by cause. Comparisons use the total, so ``max`` returns the slowest.

    hops: distance through routers, and words streaming one after another; relays: PEs that receive and send on in
    software; compute: vector operations with their issue, scalar functions, loops; launch: starting a step's task,
    gaps between vector operations of a collective, rewriting routes; crossing: wafer to wafer; host: to and from it.
    """

    total: float = 0.0
    hops: float = 0.0
    relays: float = 0.0
    compute: float = 0.0
    launch: float = 0.0
    crossing: float = 0.0
    host: float = 0.0

    def plus(self, **cycles: float) -> Cycles:
        """Return these cycles with others added under the named causes."""
        return self._replace(
            total=self.total + sum(cycles.values()),
            **{cause: getattr(self, cause) + more for cause, more in cycles.items()},
        )

    def whole(self) -> Cycles:
        """Return these cycles with every cause rounded up to whole cycles."""
        values = [float(math.ceil(value - 1e-9)) for value in self[1:]]
        return Cycles(sum(values), *values)

    def times(self, count: float) -> Cycles:
        """Return the cycles of ``count`` repetitions."""
        return Cycles(*(value * count for value in self))

    def followed_by(self, other: Cycles) -> Cycles:
        """Return the cycles of this interval followed by ``other``."""
        return Cycles(*(a + b for a, b in zip(self, other, strict=True)))


NO_CYCLES: Final = Cycles()
