"""The operating point of a deployment: what users get, and what a token costs, at one concurrency.

Every command takes these figures from here. The definitions are those of load generators for LLM services (AIPerf,
vLLM's benchmark); docs/explanation/operating-point.md has them with the field's names.

    TTFT              time to first token: from the request to its first token, waiting included
    TPOT              time per output token: (request latency - TTFT) / (output tokens - 1)
    tokens/s/user     1 / TPOT
    throughput        output tokens of all requests per second, while prompts are read too
    USD per million   price per hour of all machines / output tokens per hour, prompts included
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wse.hardware.number import SourcedNumber
from wse.serving.cost import system_cost, system_energy
from wse.serving.economics import Economics
from wse.serving.steady_state import SteadyState


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """The tokens of every request of a workload.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        new_tokens: Generated tokens, at least 1.
        prefix_tokens: Tokens at the begin of the prompt that are in the cache already, fewer than the prompt's.
    """

    prompt_tokens: int
    new_tokens: int
    prefix_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of the prompt and the answer together."""
        return self.prompt_tokens + self.new_tokens


class Deployment(Protocol):
    """A model on one machine: wafers or GPUs that hold it together, in one layout and one element type."""

    @property
    def shape(self) -> RequestShape:
        """The requests that it serves."""

    @property
    def max_concurrency(self) -> int:
        """Requests whose KV caches fit at a time."""

    @property
    def chips(self) -> int:
        """Wafers or GPUs, those of a draft model among them."""

    @property
    def economics(self) -> Economics | None:
        """Power and price of one chip; None where they are unknown."""

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the steady state of a number of requests in flight, at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Some requests in flight on some equal deployments.

    Attributes:
        concurrency: Requests in flight on all replicas together; each is one user's.
        replicas: Deployments that share the requests.
        ttft_s: Mean time to first token on the replica with the most requests.
        tpot_s: Time per output token there; None where a request has one token.
        tokens_per_s: Output tokens of all requests per second.
        requests_per_s: Requests that end in a second, of all replicas.
        saturated: Whether more requests in flight would only wait.
        usd_per_million_tokens: Price of a million output tokens, with its range; None where no price is known.
        joules_per_token: Energy of an output token, with its range; None where no power is known.
    """

    concurrency: int
    replicas: int
    ttft_s: float
    tpot_s: float | None
    tokens_per_s: float
    requests_per_s: float
    saturated: bool
    usd_per_million_tokens: SourcedNumber | None
    joules_per_token: SourcedNumber | None

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Output tokens per second of each user behind the first token."""
        return None if self.tpot_s is None else 1 / self.tpot_s


def operating_point(deployment: Deployment, concurrency: int, replicas: int = 1) -> OperatingPoint:
    """Return what users get, and what a token costs, with some requests in flight.

    Requests are spread evenly over the replicas. Latencies are those of the replica with the most requests.

    Args:
        deployment: The machine of each replica.
        concurrency: Requests in flight on all replicas, at least 1.
        replicas: Equal deployments, at least 1.
    """
    fewest, fuller = divmod(concurrency, replicas)
    most = fewest + (fuller > 0)
    state = deployment.steady_state(most)
    rate = state.requests_per_s * (fuller or replicas)
    if fuller and fewest:
        rate += deployment.steady_state(fewest).requests_per_s * (replicas - fuller)
    new_tokens = deployment.shape.new_tokens
    tokens_per_s = new_tokens * rate
    chips, economics = replicas * deployment.chips, deployment.economics
    return OperatingPoint(
        concurrency=concurrency,
        replicas=replicas,
        ttft_s=state.ttft_s,
        tpot_s=state.answer_s / (new_tokens - 1) if new_tokens > 1 else None,
        tokens_per_s=tokens_per_s,
        requests_per_s=rate,
        saturated=state.saturated,
        usd_per_million_tokens=None if economics is None else system_cost(chips, tokens_per_s, economics),
        joules_per_token=None if economics is None else system_energy(chips, tokens_per_s, economics),
    )


def largest_that(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest number from 1 to ``most`` for which a condition holds that holds for all smaller ones.

    0 where it holds for none.
    """
    if most < 1 or not holds(1):
        return 0
    if holds(most):
        return most
    low, high = 1, most  # the condition holds for low and not for high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
