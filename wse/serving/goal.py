"""Goal: the users, speeds, latency limits and objective for which a deployment is chosen."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wse.serving.operating_point import OperatingPoint  # its import loads files of prices


PLAIN_SPEED_TOKENS_PER_S: Final = 50.0
"""Output tokens per second of each user in a plain tier, if no other speed is requested."""
PLAIN_SPEED_REASON: Final = "GPU services of 70B-class models were published with 32, 49, 71 and 128 tokens/s per user"
"""Reason for the default speed of a plain tier.

Source: wse/data/measurements/public_tokens_per_s.csv.
"""
FAST_TIMES: Final = 2.5
"""Ratio of the speed of a fast tier to that of a plain tier.

A vendor sells a fast mode of up to 2.5 times the speed (source: wse/data/scenarios/fast-mode.toml).
"""


LATENCY, THROUGHPUT, COST = OBJECTIVES = ("latency", "throughput", "cost")
"""Objectives: lowest request latency, highest output tokens per second, lowest cost per token.

On a given number of machines, the last two are equivalent.
"""


PURPOSES: Final = {
    LATENCY: "the lowest latency of a whole request",
    THROUGHPUT: "the highest throughput",
    COST: "the lowest cost per token",
}
"""Description of each objective, as it follows the words "chosen for"."""


def plain_speed_footer(speeds: Collection[float]) -> list[tuple[str, str]]:
    """Return the line below a table of tiers that gives the reason for the default plain speed.

    Args:
        speeds: Speeds of the plain tier in tokens/s per user.

    Returns:
        A list with a (label, text) pair; an empty list for speeds other than the default.
    """
    speed = PLAIN_SPEED_TOKENS_PER_S
    return (
        [("plain tier", f"default: {speed:g} tokens/s, because {PLAIN_SPEED_REASON}")] if [*speeds] == [speed] else []
    )


def purpose_text(objective: str | None) -> str:
    """Return the phrase that reports append to the name of a layout to state its objective.

    It is " for throughput" if the layout was chosen for throughput, and "" otherwise.
    """
    return f" for {THROUGHPUT}" if objective == THROUGHPUT else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Requirements for choosing a deployment (a model on one machine, in a certain layout).

    Attributes:
        users: Users of all replicas, including those who pause; None to choose the best number.
        in_flight: Expected number of requests in flight on all replicas if users pause, without those
            that wait for KV-cache space; None for one per user.
        replicas: Number of identical machines that share the users; None for the fewest that meet
            the limits.
        ttft_s: Upper limit on the time to first token in seconds; None if unlimited.
        tpot_s: Upper limit on the time per output token in seconds; None if unlimited.
        objective: One of `OBJECTIVES`, by which deployments that meet the limits are ranked.
        users_may_wait: Whether a layout of wafers may have too little space for the KV caches of
            all users, so that some users wait. Such layouts are considered only if another layout
            has space for all users.
    """

    users: int | None = None
    in_flight: int | None = None
    replicas: int | None = 1
    ttft_s: float | None = None
    tpot_s: float | None = None
    objective: str = LATENCY
    users_may_wait: bool = True

    @property
    def requests(self) -> int | None:
        """Number of requests in flight on all replicas; None if no number of users is requested.

        If users pause and `in_flight` is None, it is the number of users.
        """
        return self.users if self.in_flight is None else self.in_flight

    @property
    def limits_s(self) -> dict[str, float]:
        """Requested limits in seconds, keyed by ``ttft_s`` and ``tpot_s``; empty if there are none."""
        limits = {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def only_throughput(self) -> bool:
        """True if neither a number of users nor a latency limit is requested, and the objective is not latency."""
        return self.users is None and self.objective != LATENCY and not self.limits_s

    def replicas_for(self, requests_of_one: int) -> int:
        """Return the requested number of replicas, or the minimum number for all requests in flight.

        Args:
            requests_of_one: Maximum number of requests in flight on one replica; of users if they pause
                and `in_flight` is None.
        """
        return self.replicas or math.ceil((self.requests or 1) / max(1, requests_of_one))

    def excess(self, point: OperatingPoint) -> float:
        """Return how far an operating point exceeds the latency limits, as a ratio.

        The result is the largest ratio of a latency to its limit. It is at most 1 if all limits are
        met, and 0 if there are no limits.
        """
        latencies_and_limits = ((point.ttft_s, self.ttft_s), (point.tpot_s or 0.0, self.tpot_s))
        return max(
            (latency_s / limit_s for latency_s, limit_s in latencies_and_limits if limit_s is not None), default=0.0
        )
