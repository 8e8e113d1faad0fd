"""Operating points: what users get and what a token costs, for a deployment and a number of users.

All commands take these figures from here. The definitions follow load generators for LLM services
(AIPerf, vLLM's benchmark). See docs/explanation/operating-point.md.

    TTFT              time to first token, from the request to its first token, with waiting
    TPOT              time per output token: (request latency - TTFT) / (output tokens - 1)
    tokens/s/user     1 / TPOT
    throughput        output tokens of all requests per second, while prompts are processed too
    USD per million   price per hour of all machines / output tokens per hour, prompts included
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from wse.bisection import largest_passing
from wse.hardware.number import SourcedNumber
from wse.serving.cost import system_cost, system_energy
from wse.serving.economics import Economics
from wse.serving.steady_state import SteadyState


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Lengths of every request of a workload, and the mean pause of a user between two requests.

    Attributes:
        prompt_tokens: Number of tokens in the prompt.
        new_tokens: Number of generated tokens, at least 1.
        prefix_tokens: Tokens at the start of the prompt that are already in the KV cache, fewer
            than ``prompt_tokens``.
        think_s: Mean seconds from the end of an answer to the next request of the same user.
    """

    prompt_tokens: int
    new_tokens: int
    prefix_tokens: int = 0
    think_s: float = 0.0

    @property
    def unread_tokens(self) -> int:
        """Number of tokens of the prompt that must be processed."""
        return self.prompt_tokens - self.prefix_tokens

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
        """Lengths of the requests that the deployment serves, and the pause of users between them."""

    @property
    def max_concurrency(self) -> int:
        """Maximum number of requests whose KV caches fit concurrently."""

    @property
    def chips(self) -> int:
        """Number of wafers or GPUs, including the draft model's."""

    @property
    def economics(self) -> Economics | None:
        """Power and price of one wafer or GPU; None if they are unknown."""

    def steady_state(self, users: float, think_s: float = 0.0) -> SteadyState:
        """Return the mean times and the rate of requests.

        Args:
            users: Number of users, at least 1. If they do not pause, all have a request in flight,
                and there may be at most `max_concurrency`.
            think_s: Mean pause of a user between two requests in seconds.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Performance and cost with a number of users on identical deployments.

    A deployment is a model on one machine in a certain layout. Each user sends the next request when
    the previous answer has ended and, if users pause, the pause is over.

    Attributes:
        users: Total number of users of all replicas, including those who pause.
        in_flight: Mean number of requests in flight. If users do not pause, it is the number of
            users.
        replicas: Number of identical deployments that share the users.
        ttft_s: Mean time to first token on the replica with the most users, in seconds.
        tpot_s: Time per output token on this replica, in seconds; None for one-token requests.
        request_s: Mean time from a request to its last token on this replica, in seconds.
        tokens_per_s: Output tokens per second, summed over all requests.
        requests_per_s: Requests completed per second on all replicas.
        saturated: Whether additional users would only wait.
        usd_per_million_tokens: Cost per million output tokens with its range; None if no price is
            known.
        usd_per_hour: Price of all machines per hour; None if no price is known.
        joules_per_token: Energy per output token with its range; None if no power is known.
    """

    users: int
    in_flight: float
    replicas: int
    ttft_s: float
    tpot_s: float | None
    request_s: float
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


def operating_point(
    deployment: Deployment, users: int, replicas: int = 1, think_s: float | None = None
) -> OperatingPoint:
    """Return the latency, throughput and cost for a number of users.

    Users are distributed evenly across the replicas. Latencies apply to the replica with the most
    users. Requests whose KV caches do not fit wait for their first token.

    Args:
        deployment: The deployment of each replica.
        users: Users of all replicas, at least 1.
        replicas: Number of identical deployments, at least 1.
        think_s: Mean pause of a user between two requests in seconds; None for that of the
            deployment's requests.
    """
    think_s = deployment.shape.think_s if think_s is None else think_s
    min_users, fuller_replicas = divmod(users, replicas)
    max_users = min_users + (fuller_replicas > 0)
    state = _steady_state(deployment, max_users, think_s)
    rate = state.requests_per_s * (fuller_replicas or replicas)
    if fuller_replicas and min_users:
        rate += _steady_state(deployment, min_users, think_s).requests_per_s * (replicas - fuller_replicas)
    new_tokens = deployment.shape.new_tokens
    tokens_per_s = new_tokens * rate
    chips, economics = replicas * deployment.chips, deployment.economics
    return OperatingPoint(
        users=users,
        in_flight=users - think_s * rate,
        replicas=replicas,
        ttft_s=state.ttft_s,
        tpot_s=state.answer_s / (new_tokens - 1) if new_tokens > 1 else None,
        request_s=state.ttft_s + state.answer_s,
        tokens_per_s=tokens_per_s,
        requests_per_s=rate,
        saturated=state.saturated,
        usd_per_million_tokens=None if economics is None else system_cost(chips, tokens_per_s, economics),
        usd_per_hour=None if economics is None else chips * economics.usd_per_hour.value,
        joules_per_token=None if economics is None else system_energy(chips, tokens_per_s, economics),
    )


def users_with_in_flight(deployment: Deployment, in_flight: int) -> int:
    """Return the largest number of users who have at most a given mean number of requests in flight.

    Args:
        deployment: The deployment of one replica. Its shape has the mean pause.
        in_flight: Number of requests in flight, including those that wait for KV-cache space.
    """
    think_s = deployment.shape.think_s
    if not in_flight or not think_s:
        return in_flight
    max_rate = deployment.steady_state(max(1, deployment.max_concurrency)).requests_per_s
    max_users = max(1, math.ceil(in_flight + max_rate * think_s))
    return (
        largest_passing(1, max_users + 1, lambda users: operating_point(deployment, users).in_flight <= in_flight) or 0
    )


def users_with_room(deployment: Deployment) -> int:
    """Return the maximum number of users of one replica whose requests in flight all fit on average."""
    return users_with_in_flight(deployment, deployment.max_concurrency)


def _steady_state(deployment: Deployment, users: int, think_s: float) -> SteadyState:
    """Return the mean times and the rate of requests on one replica.

    Without pauses, the replica serves all requests in flight, up to ``max_concurrency``. Further
    requests wait for room and do not change its rate. By Little's law, each user takes
    ``users / rate`` seconds from one request to the next.

    Args:
        deployment: The deployment of the replica.
        users: Number of users, at least 1.
        think_s: Mean pause of a user in seconds.
    """
    if think_s:
        return deployment.steady_state(users, think_s)
    max_concurrency = max(1, deployment.max_concurrency)
    state = deployment.steady_state(min(users, max_concurrency))
    if users <= max_concurrency:
        return state
    return replace(state, ttft_s=users / state.requests_per_s - state.answer_s, saturated=True)
