"""PhaseCost: the fabric model's answer for one run of a phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.links.routes import Routes
from wse.program.steps import Slots, Steps
from wse.program.transfers.transfer import WaferPair


class CostClass(NamedTuple):
    """The key of a run's cost without cache shifts and the choice of experts.

    steps: the phase's; begins: whether the phase begins a run; slots: cache slots in use, by stage.
    """

    steps: Steps
    begins: bool
    slots: Slots


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseTraffic:
    """The traffic of one run of a phase.

    Attributes:
        words: int64 ``[steps]``: words that a step's messages carry, over all turns.
        hops: int64 ``[steps]``: the same times the links that each word crosses.
        bytes: int64 ``[steps]``: payload of crossings.
        rectangles: int64 ``[n, 9]``: the links that carry words, as ``link_map`` takes them; a plane is a wafer times
            four and a direction. One array for all runs of the same steps.
        by_slots: int64 ``[n, 9]``: the links, besides, of steps whose words grow with the cache slots in use. One array
            for all tokens with as many.
        shifts: int64 ``[n, 9]``: the links, besides, of cache shifts and of steps that depend on the choice of experts.
    """

    words: I64
    hops: I64
    bytes: I64
    rectangles: I64
    by_slots: I64
    shifts: I64


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseCost:
    """The cost of one run of a phase by step. Its traffic is counted when it is first requested.

    Attributes:
        cost_class: What the traffic's ``by_slots``, and where no expert was chosen the cycles, follow from.
        start: float64 ``[steps]``: cycle at which a step first starts, counted from the phase's start.
        by_cause: float64 ``[steps, causes]``: cycles that a step adds to the phase, over all turns of its loop. A
            step that runs beside a longer one adds none.
        crossed: From which wafers to which the steps sent those that depend on the choice of experts.
        contention: float64 ``[steps]``: those of a step's cycles in which words waited for words of other messages on
            one link or one ramp, over all turns.
        streams: int64 ``[steps]``: the most messages on one link or one ramp in one window; 1 where none waited.
        routes: The physical links that words take.
        count_traffic: What counts the traffic.
    """

    cost_class: CostClass
    start: F64
    by_cause: F64
    crossed: Mapping[int, tuple[WaferPair, ...]]
    contention: F64
    streams: I64
    routes: Routes
    count_traffic: Callable[[], PhaseTraffic]

    @cached_property
    def traffic(self) -> PhaseTraffic:
        """Words, hops and bytes by step, and the links that carry them."""
        return self.count_traffic()

    @cached_property
    def links(self) -> I64:
        """Words by link, int64 ``[wafers, 4, rows, cols]`` of the fabric, computed when first requested."""
        traffic = self.traffic
        return self.routes.words(np.concatenate([traffic.rectangles, traffic.by_slots, traffic.shifts]))

    @property
    def by_step(self) -> F64:
        """Cycles that each step adds to the phase, float64 ``[steps]``."""
        return np.asarray(self.by_cause.sum(axis=1), np.float64)

    @property
    def cycles(self) -> float:
        """Cycles of the phase."""
        return float(self.by_cause.sum())

    def cause(self, name: str) -> float:
        """Return the cycles of one cause."""
        return float(self.by_cause[:, CAUSES.index(name)].sum())
