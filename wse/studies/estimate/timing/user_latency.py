"""``latency.user`` of an estimate: times for a remote user, including network and service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.serving.network import Network


@dataclass(frozen=True, kw_only=True)
class UserTtftParts(Result):
    """Parts of the time to first token that a remote user observes."""

    connection_s: Annotated[float, Doc("opening a connection", "s")]
    network_s: Annotated[
        float, Doc("the request in transit to the service, and the first token in transit to the user", "s")
    ]
    service_s: Annotated[float, Doc("work of the service's own computers", "s")]
    machine_s: Annotated[float, Doc("the machine, from host to host: `latency.ttft_s`", "s")]


@dataclass(frozen=True, kw_only=True)
class UserLatencyResult(Result):
    """Latencies that a remote user observes, with assumed network and service delays.

    The assumptions come from `wse/data/network.toml`, or from the file specified with `--network`.
    """

    ttft_s: Annotated[float, Doc("from a user's request, on a new connection, to the first token", "s")]
    ttft_range_s: Annotated[tuple[float, float], Doc("`ttft_s` at the low and the high ends of the assumptions", "s")]
    ttft_open_s: Annotated[float, Doc("`ttft_s` on a connection that is already open", "s")]
    ttft_by: Annotated[UserTtftParts, Doc("the parts of `ttft_s`")]
    request_s: Annotated[float | None, Doc("latency of a request, to its last token, on a new connection", "s")] = None
    outside_share: Annotated[
        float | None, Doc("fraction of `request_s` for network, connection and the service's computers")
    ] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]


def user_latency_result(network: Network, ttft_s: float, request_s: float | None) -> UserLatencyResult:
    """Return the latencies that a remote user observes, including network and service delays.

    Tokens are streamed, and the network delays all of them by the same time. The delay is therefore
    added only once to the latency of a request.

    Args:
        network: Network and service delays between user and machine.
        ttft_s: Time to first token on the machine, in seconds.
        request_s: Latency of a request on the machine, in seconds; None if nothing is decoded.
    """
    low, high = network.range
    outside_s = network.seconds
    user_request_s = None if request_s is None else request_s + outside_s
    return UserLatencyResult(
        ttft_s=ttft_s + outside_s,
        ttft_range_s=(ttft_s + low, ttft_s + high),
        ttft_open_s=ttft_s + outside_s - network.connection_s,
        ttft_by=UserTtftParts(
            connection_s=network.connection_s,
            network_s=network.network_round_trip_s,
            service_s=network.service_s,
            machine_s=ttft_s,
        ),
        request_s=user_request_s,
        outside_share=None if user_request_s is None else outside_s / user_request_s,
        grade=network.weakest[0],
        assumptions="; ".join(
            f"{name} {number.value:g} {number.unit}: {number.source}" for name, number in network.sources.items()
        ),
    )
