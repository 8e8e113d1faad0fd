"""Decode passes with the same cost."""

from __future__ import annotations

from typing import NamedTuple

from wse.backends.fabric.links.traffic import StepTraffic
from wse.backends.fabric.phase_cost import PhaseCost
from wse.program.steps import Slots

CacheUse = tuple[Slots, tuple[int, ...]]
"""Cache slots in use, and tokens in each user's cache before a decode pass (empty in prefill)."""


class TokenClass(NamedTuple):
    """Decode passes that all cost the same, and this cost.

    They cost the same because the fullest row of PEs stores the same number of cached tokens.

    Attributes:
        tokens: Number of decode passes in the class.
        slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
        cost: Cost of one pass, without the traffic of cache shifts.
        shift_traffic: Traffic of the cache shifts of all passes in the class. A cache shift moves a
            user's cache entries to the row of PEs above.
    """

    tokens: int
    slots: Slots
    cost: PhaseCost
    shift_traffic: StepTraffic
