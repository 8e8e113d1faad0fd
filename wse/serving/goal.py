"""Goal: what a deployment is chosen for: users, limits on their latency, and an objective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wse.serving.operating_point import OperatingPoint  # which loads files of prices; requests load nothing

LATENCY, THROUGHPUT, COST = OBJECTIVES = ("latency", "throughput", "cost")
"""The shortest request, the most output tokens per second, the cheapest token. On given machines the last two agree."""


def purpose_text(objective: str | None) -> str:
    """Return " for throughput" of layouts that were chosen for it, to stand behind their name; "" of others."""
    return f" for {THROUGHPUT}" if objective == THROUGHPUT else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal for which a deployment is chosen.

    Attributes:
        users: Requests in flight on all replicas; None for the number that serves best.
        replicas: Equal machines that share the users; None for the fewest that keep the limits.
        ttft_s: Time to first token at most; None for any.
        tpot_s: Time per output token at most; None for any.
        objective: What decides between deployments that keep the limits.
    """

    users: int | None = None
    replicas: int | None = 1
    ttft_s: float | None = None
    tpot_s: float | None = None
    objective: str = LATENCY

    def replicas_for(self, users_of_one: int) -> int:
        """Return the replicas that were requested, or the fewest for the users where one replica takes so many."""
        return self.replicas or math.ceil((self.users or 1) / max(1, users_of_one))

    def excess(self, point: OperatingPoint) -> float:
        """Return the largest ratio of a latency to its limit; at most 1 where all limits are kept, 0 without any."""
        pairs = ((point.ttft_s, self.ttft_s), (point.tpot_s or 0.0, self.tpot_s))
        return max((latency_s / limit_s for latency_s, limit_s in pairs if limit_s is not None), default=0.0)
