"""Operating points in the form that claims compare: users, speeds, and cost per token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import F64
from wse.serving.operating_point import Deployment, operating_point
from wse.studies.claims.certainty import Cases


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving:
    """The speed and cost of serving a given number of users on GPUs or wafers.

    Attributes:
        machines: Number of GPUs or wafers.
        users: Number of users in flight.
        rate_of_user: Output tokens per second for each user, after the first token.
        tokens_per_s: Output tokens per second for all users, while prompts are also being
            processed.
        usd_per_million_tokens: Cost per million output tokens at the machine's central price.
        usd_per_million_tokens_ends: Cost at the low and high ends of the price range.
        sampled_usd_per_million_tokens: float64 ``[samples]``, cost per million output tokens for
            samples of the uncertain constants; None if the cost is not sampled.
    """

    machines: int
    users: int
    rate_of_user: float
    tokens_per_s: float
    usd_per_million_tokens: float
    usd_per_million_tokens_ends: tuple[float, float]
    sampled_usd_per_million_tokens: F64 | None = None

    @property
    def usd_cases(self) -> Cases:
        """Cost per million output tokens with the stated constants, followed by its samples."""
        sampled = self.sampled_usd_per_million_tokens
        return np.append(self.usd_per_million_tokens, () if sampled is None else sampled)

    def cost_ratio(self, reference: Serving) -> float:
        """Return the cost per token relative to ``reference``.

        Cost is measured in machine time per token, so both must use the same type of machine.
        """
        return (self.machines / self.tokens_per_s) / (reference.machines / reference.tokens_per_s)


def serving_of(deployment: Deployment, users: int, sampled_usd: F64 | None = None) -> Serving:
    """Return the speed and cost per token when a deployment serves ``users`` users.

    Args:
        deployment: A model on wafers or GPUs with a known price.
        users: Number of concurrent users.
        sampled_usd: float64 ``[samples]``, cost per million output tokens for samples of the
            uncertain constants; None if the cost is not sampled.
    """
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
        sampled_usd_per_million_tokens=sampled_usd,
    )
