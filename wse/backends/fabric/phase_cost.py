"""PhaseCost: cycles and traffic of one run of a phase, computed by the fabric model.

Decode passes with the same cost form a class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """Key under which the cost of a run of a phase is cached; equal keys mean equal cost.

    There are two exceptions: the traffic of cache shifts, and runs in which the selected experts
    are recorded.

    Attributes:
        steps: Steps of the phase.
        begins: True if nothing is cached before the phase.
        slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
    """

    steps: Steps
    begins: bool
    slots: Slots


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseTraffic:
    """Traffic of one run of a phase.

    ``rectangles``, ``by_slots`` and ``shifts`` list the links that carry words. They are separate
    so that runs can share the parts that do not differ. Each row describes a rectangle of links
    with equal word counts (see ``link_map.rectangles_of``). The index of its plane is wafer * 4 +
    direction.

    Attributes:
        words: int64 ``[steps]``, words of a step's messages, over all iterations.
        hops: int64 ``[steps]``, number of links that each word crosses, summed over these words.
        bytes: int64 ``[steps]``, payload between wafers, or to and from the host.
        rectangles: int64 ``[n, 9]``, links used by steps with constant traffic. All runs with the
            same steps share one array.
        by_slots: int64 ``[n, 9]``, links used by steps whose words increase with the cache slots in
            use. All runs with equal slots share one array.
        shifts: int64 ``[n, 9]``, links used by cache shifts and by steps that depend on the
            selected experts.
    """

    words: I64
    hops: I64
    bytes: I64
    rectangles: I64
    by_slots: I64
    shifts: I64


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseCost:
    """Cost of one run of a phase, step by step. Traffic is computed on first access.

    Attributes:
        cost_class: Key that determines ``traffic.by_slots`` and, if tokens are distributed evenly
            over the experts, the cycles.
        start: float64 ``[steps]``, cycle at which a step first starts, relative to the start of the
            phase.
        by_cause: float64 ``[steps, causes]``, cycles that a step adds to the phase, over all
            iterations of its loop. A step that runs alongside a longer step adds no cycles.
        used_crossings: Keys are indices of the inter-wafer steps that depend on the selected
            experts; values are the (sending, receiving) wafer pairs between which words were sent.
        contention: float64 ``[steps]``, cycles in which words of a step waited for words of another
            message on the same link or ramp, over all iterations.
        streams: int64 ``[steps]``, maximum number of messages that shared a link or ramp; 1 if no
            words waited.
        routes: Physical links that words use.
        count_traffic: Function that computes the traffic.
    """

    cost_class: CostClass
    start: F64
    by_cause: F64
    used_crossings: Mapping[int, tuple[WaferPair, ...]]
    contention: F64
    streams: I64
    routes: Routes
    count_traffic: Callable[[], PhaseTraffic]

    @cached_property
    def traffic(self) -> PhaseTraffic:
        """Words, hops and bytes of each step of the phase, and the links that carry the words."""
        return self.count_traffic()

    @cached_property
    def links(self) -> I64:
        """Words on each physical link, int64 ``[wafers, 4, rows, cols]``.

        The words are counted on first access.
        """
        traffic = self.traffic
        return self.routes.words(np.concatenate([traffic.rectangles, traffic.by_slots, traffic.shifts]))

    @property
    def by_step(self) -> F64:
        """Cycles that each step adds to the phase, float64 ``[steps]``."""
        return np.asarray(self.by_cause.sum(axis=1), np.float64)

    @property
    def on_wafer_by_step(self) -> F64:
        """Part of `by_step` that is not a wait for the host, float64 ``[steps]``."""
        return self.by_step - self.by_cause[:, CAUSES.index("host")]

    @property
    def launch_by_step(self) -> F64:
        """Part of `by_step` with the cause ``launch``, such as starting tasks, float64 ``[steps]``."""
        return self.by_cause[:, CAUSES.index("launch")]

    @property
    def cycles(self) -> float:
        """Total cycles of the phase."""
        return float(self.by_cause.sum())

    def cause(self, name: str) -> float:
        """Return the cycles of the phase that are attributed to one cause, such as ``hops``."""
        return float(self.by_cause[:, CAUSES.index(name)].sum())


CacheUse = tuple[Slots, tuple[int, ...]]
"""Cache slots in use, and tokens in each user's cache before a decode pass (empty in prefill)."""


class TokenClass(NamedTuple):
    """Decode passes that all cost the same, and this cost.

    They cost the same because the fullest row of PEs stores the same number of cached tokens.

    Attributes:
        tokens: Number of decode passes in the class.
        slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
        lengths: Number of tokens in the cache before the pass, for every pass and user.
        cost: Cost of one pass, without the traffic of cache shifts (`Fabric.shift_traffic`).
    """

    tokens: int
    slots: Slots
    lengths: Sequence[int]
    cost: PhaseCost
