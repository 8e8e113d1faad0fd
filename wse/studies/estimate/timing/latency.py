"""``latency`` of an estimate: time to first token, time per output token, and request latency.

``latency.user`` has the times of a remote user, which include network and service.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from wse.backends.fabric.causes import CAUSES
from wse.hardware.number import Grade
from wse.hardware.spec import WaferSpec
from wse.program.steps import HOST
from wse.reports.result import Doc, Result
from wse.serving.network import Network

if TYPE_CHECKING:
    from wse.backends.fabric.run_totals import PhaseTotals, RunTotals
    from wse.program.program import Program
    from wse.studies.estimate.timing.first_token import ChunksResult


class UserTtftParts(Result):
    """Parts of the time to first token that a remote user observes."""

    connection_s: Annotated[float, Doc("opening a connection", "s")]
    network_s: Annotated[
        float, Doc("the request in transit to the service, and the first token in transit to the user", "s")
    ]
    service_s: Annotated[float, Doc("work of the service's own computers", "s")]
    machine_s: Annotated[float, Doc("the machine, from host to host: `latency.ttft_s`", "s")]


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


class TtftParts(Result):
    """Parts of the time from when a prompt leaves the host until the first token arrives."""

    handshake_in_s: Annotated[float, Doc("handshake of the prompt", "s")]
    prompt_in_s: Annotated[float, Doc("waiting for the bytes of a chunk of the prompt from the host", "s")]
    crossing_s: Annotated[float, Doc("a chunk waiting for streams between wafers", "s")]
    mesh_s: Annotated[float, Doc("work on the mesh", "s")]
    first_token_out_s: Annotated[float, Doc("the first token in transit to the host", "s")]


class TpotParts(Result):
    """Parts of the time per output token: host, inter-wafer links, and mesh of PEs."""

    host_s: Annotated[float, Doc("waiting for the host", "s")]
    crossing_s: Annotated[float, Doc("waiting for streams between wafers", "s")]
    mesh_s: Annotated[float, Doc("work on the mesh", "s")]


class LatencyResult(Result):
    """Latencies that a user observes. Times of later tokens are None if nothing is decoded."""

    ttft_s: Annotated[float, Doc("time to first token (TTFT) of the last user of the batch, from host to host", "s")]
    ttft_by: Annotated[TtftParts, Doc("the parts of `ttft_s`")]
    prompt_in_bytes: Annotated[int, Doc("bytes of the prompts that come from the host", "B")]
    ttft_first_user_s: Annotated[float | None, Doc("time to first token of the first user of several", "s")] = None
    tpot_s: Annotated[float | None, Doc("time per output token (TPOT) after the first", "s")] = None
    tpot_by: Annotated[TpotParts | None, Doc("the parts of `tpot_s`")] = None
    request_s: Annotated[float | None, Doc("latency of a request, to its last token", "s")] = None
    request_tokens_per_s: Annotated[float | None, Doc("generated tokens, divided by `request_s`", "tokens/s")] = None
    user: Annotated[UserLatencyResult, Doc("times for a remote user, with network and service")]


def latency_result(
    clock: RunTotals, program: Program, wafer: WaferSpec, network: Network, prompts: ChunksResult
) -> LatencyResult:
    """Return time to first token (TTFT), time per output token (TPOT) and latency of a request.

    The prompts of a batch are read sequentially, so the last user waits longest. ``ttft_s`` is this
    user's TTFT. It starts when the first prompt leaves the host, and ends when the user's first
    token arrives at the host.

    A round trip to the host consists of two halves: the handshake for the prompt, and the transfer
    of the first token to the host, for which the wafer does not wait.

    In the parts of ``ttft_s``, waiting for the host and for transfers between wafers is the mean
    time of one chunk of the prompts, because the stages work on other chunks meanwhile.

    Args:
        clock: Cycle count of prompts and decoded tokens.
        program: The compiled model.
        wafer: Wafer type, which determines the clock rate and the round trip to the host.
        network: Network and service between a remote user and the host.
        prompts: Times of the prompt chunks.
    """
    prefill, decode = clock.prefill, clock.decode
    half_trip_s = wafer.host_round_trip_s / 2
    host_wait_s, crossing_wait_s = _seconds(prefill, "host", wafer), _seconds(prefill, "crossing", wafer)
    ttft_s = prompts.ttft_s(wafer)
    host_wait_s = half_trip_s + (host_wait_s - half_trip_s) / prefill.runs
    crossing_wait_s /= prefill.runs
    result = LatencyResult(
        ttft_s=ttft_s,
        ttft_by=TtftParts(
            handshake_in_s=half_trip_s,
            prompt_in_s=host_wait_s - half_trip_s,
            crossing_s=crossing_wait_s,
            mesh_s=ttft_s - host_wait_s - half_trip_s - crossing_wait_s,
            first_token_out_s=half_trip_s,
        ),
        prompt_in_bytes=sum(bytes_ for (source, _), bytes_ in prefill.crossed.items() if source == HOST),
        ttft_first_user_s=(ttft_s - 2 * half_trip_s) / program.batch + 2 * half_trip_s if program.batch > 1 else None,
        user=user_latency_result(network, ttft_s, None),
    )
    if not decode.runs:
        return result
    tpot_s = decode.cycles / decode.runs / wafer.clock_hz
    host_s, crossing_s = (_seconds(decode, cause, wafer) / decode.runs for cause in ("host", "crossing"))
    request_s = ttft_s + decode.cycles / wafer.clock_hz
    return replace(
        result,
        tpot_s=tpot_s,
        tpot_by=TpotParts(host_s=host_s, crossing_s=crossing_s, mesh_s=tpot_s - host_s - crossing_s),
        request_s=request_s,
        request_tokens_per_s=(decode.runs + 1) / request_s,
        user=user_latency_result(network, ttft_s, request_s),
    )


def _seconds(totals: PhaseTotals, cause: str, wafer: WaferSpec) -> float:
    """Return the seconds that all passes of a phase spend on one cause, such as ``crossing``.

    Args:
        totals: Cycles of the phase, summed over its passes.
        cause: Name of the cause.
        wafer: The wafer, which determines the clock rate.
    """
    return float(totals.by_cause[CAUSES.index(cause)]) / wafer.clock_hz
