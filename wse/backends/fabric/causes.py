"""Breakdown of a time interval's cycles by cause: hops, relays, compute and so on."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

CAUSES: Final = ("hops", "relays", "compute", "launch", "crossing", "host")
"""The fields of `Cycles` after the total, as literals by which type checkers know the names."""


class Cycles(NamedTuple):
    """Cycles of a time interval: the total, and its breakdown by cause.

    Comparisons use the total, so ``max`` returns the longest interval.

    Attributes:
        total: Sum over all causes.
        hops: Cycles in which words move through routers or follow each other over a link.
        relays: Cycles in which PEs receive words and forward them in software.
        compute: Cycles spent on vector operations (including their issue), scalar functions and
            loops.
        launch: Cycles to start a step's task, gaps between the vector operations of a collective,
            and cycles to rewrite routes.
        crossing: Cycles spent on transfers between wafers.
        host: Cycles spent on transfers to and from the host.
    """

    total: float = 0.0
    hops: float = 0.0
    relays: float = 0.0
    compute: float = 0.0
    launch: float = 0.0
    crossing: float = 0.0
    host: float = 0.0

    def plus(self, **cycles: float) -> Cycles:
        """Return a copy with cycles added to the given causes and to the total.

        Args:
            cycles: Cycles to add, keyed by cause, such as ``hops=3``.
        """
        return self._replace(
            total=self.total + sum(cycles.values()),
            **{cause: getattr(self, cause) + added_cycles for cause, added_cycles in cycles.items()},
        )

    def rounded_up(self) -> Cycles:
        """Return a copy with every cause rounded up to an integer; the total is their sum."""
        values = [float(math.ceil(value - 1e-9)) for value in self[1:]]
        return Cycles(sum(values), *values)

    def times(self, count: float) -> Cycles:
        """Return the cycles that ``count`` repetitions of this interval take."""
        return Cycles(*(value * count for value in self))

    def followed_by(self, next_interval: Cycles) -> Cycles:
        """Return the cycles of this interval plus those of the next one, broken down by cause."""
        return Cycles(*(a + b for a, b in zip(self, next_interval, strict=True)))


NO_CYCLES: Final = Cycles()
