"""Operating points: what users get and what a token costs, for a deployment and a concurrency.

All commands take these figures from here. The definitions follow load generators for LLM services
(AIPerf, vLLM's benchmark). See docs/explanation/operating-point.md.

    TTFT              time to first token, from the request to its first token, with waiting
    TPOT              time per output token: (request latency - TTFT) / (output tokens - 1)
    tokens/s/user     1 / TPOT
    throughput        output tokens of all requests per second, while prompts are processed too
    USD per million   price per hour of all machines / output tokens per hour, prompts included
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from wse.hardware.number import SourcedNumber
from wse.serving.cost import system_cost, system_energy
from wse.serving.economics import Economics
from wse.serving.steady_state import SteadyState


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Prompt and answer length that all requests of a workload have in common.

    Attributes:
        prompt_tokens: Number of tokens in the prompt.
        new_tokens: Number of generated tokens, at least 1.
        prefix_tokens: Tokens at the start of the prompt that are already in the KV cache, fewer
            than ``prompt_tokens``.
    """

    prompt_tokens: int
    new_tokens: int
    prefix_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Total number of tokens in the prompt and the answer."""
        return self.prompt_tokens + self.new_tokens


class Deployment(Protocol):
    """A model on one machine, which consists of one or more wafers or GPUs.

    The layout and the element type are fixed. Implementations compute latencies and request rates
    for requests that all have the same prompt length and answer length.
    """

    @property
    def shape(self) -> RequestShape:
        """Prompt and answer length of the requests that the deployment serves."""

    @property
    def max_concurrency(self) -> int:
        """Maximum number of requests whose KV caches fit concurrently."""

    @property
    def chips(self) -> int:
        """Number of wafers or GPUs, including the draft model's."""

    @property
    def economics(self) -> Economics | None:
        """Power and price of one wafer or GPU; None if they are unknown."""

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the mean times and the rate of requests, with a constant number in flight.

        Args:
            concurrency: Number of requests in flight, at least 1.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Performance and cost with a number of requests in flight on identical deployments.

    A deployment is a model on one machine in a certain layout.

    Attributes:
        concurrency: Total number of requests in flight on all replicas, one per user.
        replicas: Number of identical deployments that share the requests.
        ttft_s: Mean time to first token on the replica with the most requests, in seconds.
        tpot_s: Time per output token on this replica, in seconds; None for one-token requests.
        tokens_per_s: Output tokens per second, summed over all requests.
        requests_per_s: Requests completed per second on all replicas.
        saturated: Whether additional requests in flight would only wait.
        usd_per_million_tokens: Cost per million output tokens with its range; None if no price is
            known.
        usd_per_hour: Price of all machines per hour; None if no price is known.
        joules_per_token: Energy per output token with its range; None if no power is known.
    """

    concurrency: int
    replicas: int
    ttft_s: float
    tpot_s: float | None
    tokens_per_s: float
    requests_per_s: float
    saturated: bool
    usd_per_million_tokens: SourcedNumber | None
    usd_per_hour: float | None
    joules_per_token: SourcedNumber | None

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Output tokens per second per user after the first token; None for one-token requests."""
        return None if self.tpot_s is None else 1 / self.tpot_s

    @property
    def decoding_users(self) -> float:
        """Mean number of requests that have received their first token but not yet their last.

        By Little's law, it is the number of later tokens per second times the seconds per token.
        """
        return (self.tokens_per_s - self.requests_per_s) * (self.tpot_s or 0.0)


def operating_point(deployment: Deployment, concurrency: int, replicas: int = 1) -> OperatingPoint:
    """Return the latency, throughput and cost for a constant number of requests in flight.

    Requests are distributed evenly across the replicas. Latencies apply to the replica with the most
    requests. Requests whose KV caches do not fit wait for their first token.

    Args:
        deployment: The deployment of each replica.
        concurrency: Requests in flight on all replicas, at least 1.
        replicas: Number of identical deployments, at least 1.
    """
    min_requests, fuller_replicas = divmod(concurrency, replicas)
    max_requests = min_requests + (fuller_replicas > 0)
    state = _steady_state(deployment, max_requests)
    rate = state.requests_per_s * (fuller_replicas or replicas)
    if fuller_replicas and min_requests:
        rate += _steady_state(deployment, min_requests).requests_per_s * (replicas - fuller_replicas)
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
        usd_per_hour=None if economics is None else chips * economics.usd_per_hour.value,
        joules_per_token=None if economics is None else system_energy(chips, tokens_per_s, economics),
    )


def _steady_state(deployment: Deployment, concurrency: int) -> SteadyState:
    """Return the mean times and the rate of requests on one replica.

    Requests whose KV caches do not fit wait outside the machine and do not change its rate. By
    Little's law, ``concurrency`` requests in flight take ``concurrency / rate`` seconds each.

    Args:
        deployment: The deployment of the replica.
        concurrency: Number of requests in flight, at least 1.
    """
    max_concurrency = max(1, deployment.max_concurrency)
    if concurrency <= max_concurrency:
        return deployment.steady_state(concurrency)
    state = deployment.steady_state(max_concurrency)
    return replace(state, ttft_s=concurrency / state.requests_per_s - state.answer_s, saturated=True)
