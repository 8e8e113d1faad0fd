"""Upper bound on the speed of a machine that streams in all weights for every pass.

A pass over a batch reads each weight that any of its tokens uses once. In a layer with n experts,
of which each token uses k, a batch of B tokens uses n (1 - (1 - k/n)^B) experts on average. This
assumes independent and uniform choices: each token leaves an expert out with probability 1 - k/n.

A pass takes at least these bytes divided by the bandwidth (the memory term of the roofline:
Williams, Waterman and Patterson, CACM 52(4), 2009), and at least as long as with all weights
present. It yields one token for each of B users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.bisection import largest_passing
from wse.program.routing import EVEN, RoutingDistribution, expected_experts

MAX_USERS: Final = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Sizes of a model's weights: those that every token uses, and those of routed experts.

    Attributes:
        always_bytes: Size of the weights that every token uses, in bytes.
        expert_bytes: Total size of the routed experts in all layers, in bytes.
        experts: Number of routed experts per layer; 1 if there are none.
        active: Number of routed experts per layer that a token uses; 1 if there are none.
        routing: How tokens select experts; `EVEN` stands for independent uniform choices.
    """

    always_bytes: float
    expert_bytes: float = 0.0
    experts: int = 1
    active: int = 1
    routing: RoutingDistribution = EVEN

    def used_experts(self, batch: float) -> float:
        """Return the expected number of experts per layer that the tokens of a batch use."""
        return expected_experts(self.experts, self.active, batch, self.routing)


def bytes_per_pass(weights: Weights, batch: float) -> float:
    """Return how many bytes of weights must be streamed in for a pass with one token per user.

    Experts that no token uses are not streamed.

    Args:
        weights: Sizes of the weights.
        batch: Number of users.
    """
    used_fraction = weights.used_experts(batch) / weights.experts
    return weights.always_bytes + weights.expert_bytes * used_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingBound:
    """Minimum time of a pass when its weights are streamed in from outside the machine.

    Attributes:
        weights: Sizes of the weights.
        bytes_per_s: Bandwidth at which the weights arrive.
        pass_s: Duration in seconds of a pass if all weights are already present.
    """

    weights: Weights
    bytes_per_s: float
    pass_s: float = 0.0

    def seconds(self, batch: int) -> float:
        """Return the minimum time in seconds of a pass that decodes a token for ``batch`` users."""
        return max(bytes_per_pass(self.weights, batch) / self.bytes_per_s, self.pass_s)

    def waits(self, batch: int) -> bool:
        """Return whether a pass over ``batch`` users must wait for weights to arrive."""
        return self.seconds(batch) > self.pass_s

    def tokens_per_s(self, batch: int) -> float:
        """Return the maximum total tokens per second for ``batch`` users."""
        return batch / self.seconds(batch)

    def users_for(self, wanted_tokens_per_s: float) -> int | None:
        """Return the minimum number of users that together get a required throughput.

        The result is None if more than `MAX_USERS` users are needed. More users always raise the
        throughput, because the bytes per pass grow more slowly than the number of users.

        Args:
            wanted_tokens_per_s: Output tokens per second, summed over all users.
        """
        too_few = largest_passing(1, MAX_USERS + 1, lambda users: self.tokens_per_s(users) < wanted_tokens_per_s) or 0
        return too_few + 1 if too_few < MAX_USERS else None
