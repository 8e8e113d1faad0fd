"""``latency.user`` of a result: the first token as a user meets it, network and service and all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.serving.network import Network


@dataclass(frozen=True, kw_only=True)
class UserTtftParts(Result):
    """The time to the first token, as a user meets it, by part."""

    connection_s: Annotated[float, Doc("making a connection", "s")]
    network_s: Annotated[float, Doc("the request on its way to the service, and the first token back", "s")]
    service_s: Annotated[float, Doc("the service's own computers", "s")]
    machine_s: Annotated[float, Doc("the machine, from host to host: `latency.ttft_s`", "s")]


@dataclass(frozen=True, kw_only=True)
class UserLatencyResult(Result):
    """Times as a user meets them, with the assumptions of `wse/data/network.toml`, or of `--network`."""

    ttft_s: Annotated[float, Doc("from a user's request, on a new connection, to the first token", "s")]
    ttft_range_s: Annotated[tuple[float, float], Doc("the same at the ends of what is assumed", "s")]
    ttft_open_s: Annotated[float, Doc("the same on a connection that is kept open", "s")]
    ttft_by: Annotated[UserTtftParts, Doc("`ttft_s` by part")]
    request_s: Annotated[float | None, Doc("the whole answer on a new connection", "s")] = None
    outside_share: Annotated[
        float | None, Doc("share of `request_s` that is network, connection and the service's computers")
    ] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what is assumed, with sources")]


def user_latency_result(network: Network, ttft_s: float, request_s: float | None) -> UserLatencyResult:
    """Return the first token and the whole answer as a user meets them, of a machine's own seconds for each.

    Tokens behind the first stream one after another, so that the network delays each by as much as the first.
    """
    low, high = network.range
    outside = network.seconds
    whole = None if request_s is None else request_s + outside
    return UserLatencyResult(
        ttft_s=ttft_s + outside,
        ttft_range_s=(ttft_s + low, ttft_s + high),
        ttft_open_s=ttft_s + outside - network.connection_s,
        ttft_by=UserTtftParts(
            connection_s=network.connection_s,
            network_s=network.network_round_trip_s,
            service_s=network.service_s,
            machine_s=ttft_s,
        ),
        request_s=whole,
        outside_share=None if whole is None else outside / whole,
        grade=network.weakest[0],
        assumptions="; ".join(
            f"{name} {number.value:g} {number.unit}: {number.source}" for name, number in network.sources.items()
        ),
    )
