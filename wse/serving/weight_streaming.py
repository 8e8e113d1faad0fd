"""Weights that come from outside for every pass: what that allows at most, however fast the wafer is.

A pass over a batch reads every weight that one of its tokens uses once. Of a layer's n experts, of which a token uses
k, a batch of B tokens that choose independently and evenly uses n (1 - (1 - k/n)^B): an expert is left out by one token
with probability 1 - k/n, and expectations add. A pass takes at least those bytes over the bandwidth (the memory term of
the roofline: Williams, Waterman and Patterson, CACM 52(4), 2009), and no less than with all weights at hand; it gives
each of B users a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_USERS: Final = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes that tokens use: those that every token does, and those of all experts of all layers.

    ``experts`` of each layer, ``active`` of them for a token; 1 and 1 where there are none.
    """

    always_bytes: float
    expert_bytes: float = 0.0
    experts: int = 1
    active: int = 1


def distinct_experts(experts: int, active: int, batch: float) -> float:
    """Experts of a layer that a batch uses, as expected.

    >>> distinct_experts(128, 4, 1), round(distinct_experts(128, 4, 64), 1), distinct_experts(8, 8, 3)
    (4.0, 111.2, 8.0)
    """
    if active == experts:
        return float(experts)
    return experts * (1 - (1 - active / experts) ** batch) if batch != 1 else float(active)


def bytes_per_pass(weights: Weights, batch: float) -> float:
    """Return the bytes that come from outside for one token of each user."""
    used = distinct_experts(weights.experts, weights.active, batch) / weights.experts
    return weights.always_bytes + weights.expert_bytes * used


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingBound:
    """The bound of a pass whose weights come in at ``bytes_per_s``; ``pass_s``: seconds with all weights at hand."""

    weights: Weights
    bytes_per_s: float
    pass_s: float = 0.0

    def seconds(self, batch: int) -> float:
        """Return the seconds of a pass, at least."""
        return max(bytes_per_pass(self.weights, batch) / self.bytes_per_s, self.pass_s)

    def waits(self, batch: int) -> bool:
        """Return whether a pass waits for its weights."""
        return self.seconds(batch) > self.pass_s

    def tokens_per_s(self, batch: int) -> float:
        """Return the tokens a second of all users together, at most."""
        return batch / self.seconds(batch)

    def users_for(self, wanted_tokens_per_s: float) -> int | None:
        """Return the smallest batch that gives so many tokens a second; None where not even ``MOST_USERS`` do.

        Tokens a second rise with the batch, since the bytes of a pass grow by less and less.
        """
        low, high = 0, 1  # low does not suffice
        while self.tokens_per_s(high) < wanted_tokens_per_s:
            low, high = high, 2 * high
            if high > MOST_USERS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.tokens_per_s(middle) < wanted_tokens_per_s else (low, middle)
        return high
