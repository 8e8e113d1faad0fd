"""Serving: an operating point as claims compare it: users on some machines, and what a token of theirs costs."""

from __future__ import annotations

from dataclasses import dataclass

from wse.serving.operating_point import Deployment, operating_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A number of users on some machines.

    Attributes:
        machines: GPUs or wafers.
        users: Users at a time.
        rate_of_user: Output tokens per second of each user after the first token.
        tokens_per_s: Output tokens per second of all users, prompts read meanwhile.
        usd_per_million_tokens: Cost of a million output tokens at the central price.
        usd_per_million_tokens_ends: The same at the low and at the high end of the price.
    """

    machines: int
    users: int
    rate_of_user: float
    tokens_per_s: float
    usd_per_million_tokens: float
    usd_per_million_tokens_ends: tuple[float, float]

    def cost_ratio(self, other: Serving) -> float:
        """Return the machine seconds of a token over those of another case on the same kind of machine."""
        return (self.machines / self.tokens_per_s) / (other.machines / other.tokens_per_s)


def serving_of(deployment: Deployment, users: int) -> Serving:
    """Return the operating point of some users on machines whose price is known."""
    point = operating_point(deployment, users)
    cost = point.usd_per_million_tokens
    assert cost is not None  # bundled machines have prices
    return Serving(
        machines=deployment.chips,
        users=users,
        rate_of_user=point.tokens_per_s_per_user or 0.0,
        tokens_per_s=point.tokens_per_s,
        usd_per_million_tokens=cost.value,
        usd_per_million_tokens_ends=(cost.low, cost.high),
    )
