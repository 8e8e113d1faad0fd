"""``latency`` of a result: what a user waits for, the first token, each further one and the whole answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.run_totals import PhaseTotals, RunTotals
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.program.steps import HOST
from wse.reports.result import Doc, Result
from wse.serving.network import Network
from wse.studies.estimate.timing.first_token import ChunksResult
from wse.studies.estimate.timing.user_latency import UserLatencyResult, user_latency_result


@dataclass(frozen=True, kw_only=True)
class TtftParts(Result):
    """The time to the first token by part."""

    handshake_in_s: Annotated[float, Doc("handshake of the prompt", "s")]
    prompt_in_s: Annotated[float, Doc("waiting for the bytes of a chunk of the prompt from the host", "s")]
    crossing_s: Annotated[float, Doc("a chunk waiting for streams between wafers", "s")]
    mesh_s: Annotated[float, Doc("work on the mesh", "s")]
    first_token_out_s: Annotated[float, Doc("the first token on its way to the host", "s")]


@dataclass(frozen=True, kw_only=True)
class TpotParts(Result):
    """The time of each further token by part."""

    host_s: Annotated[float, Doc("waiting for the host", "s")]
    crossing_s: Annotated[float, Doc("waiting for streams between wafers", "s")]
    mesh_s: Annotated[float, Doc("work on the mesh", "s")]


@dataclass(frozen=True, kw_only=True)
class LatencyResult(Result):
    """Times that a user sees; those of further tokens are absent where nothing is decoded."""

    ttft_s: Annotated[float, Doc("time to first token (TTFT) of the last user of the batch, from host to host", "s")]
    ttft_by: Annotated[TtftParts, Doc("the same by part")]
    prompt_in_bytes: Annotated[int, Doc("bytes of the prompts that come from the host", "B")]
    ttft_first_user_s: Annotated[float | None, Doc("time to first token of the first user of several", "s")] = None
    tpot_s: Annotated[float | None, Doc("time per output token (TPOT) behind the first", "s")] = None
    tpot_by: Annotated[TpotParts | None, Doc("the same by part")] = None
    request_s: Annotated[float | None, Doc("the whole answer, prompt and all", "s")] = None
    request_tokens_per_s: Annotated[float | None, Doc("generated tokens over that time", "tokens/s")] = None
    user: Annotated[UserLatencyResult, Doc("as a user meets it, network and service and all")]


def latency_result(
    clock: RunTotals, program: Program, wafer: WaferSpec, network: Network, prompts: ChunksResult
) -> LatencyResult:
    """Return the seconds to the first token (TTFT), for each further one (TPOT) and for all of an answer.

    Prompts of a batch are read one after another, so the last user waits longest; ``ttft_s`` is that user's, counted
    from when the first prompt leaves the host until the first token has arrived there. Half of the wafer's round trip
    to the host is the handshake of the prompt and half that of the token on its way out, which the wafer does not wait
    for. Where ``prompts`` has the exact time of pipelined chunks, the waits of the chunks are those of one chunk, since
    the stages work on the others meanwhile.
    ``network`` is what lies between user and host.
    """
    prefill, decode = clock.prefill, clock.decode
    half = wafer.host_round_trip_s / 2
    waited, crossed = _seconds(prefill, "host", wafer), _seconds(prefill, "crossing", wafer)
    first = prompts.ttft_s(wafer)
    if prompts.are_exact:
        waited, crossed = half + (waited - half) / prefill.runs, crossed / prefill.runs
    result = LatencyResult(
        ttft_s=first,
        ttft_by=TtftParts(
            handshake_in_s=half,
            prompt_in_s=waited - half,
            crossing_s=crossed,
            mesh_s=first - waited - half - crossed,
            first_token_out_s=half,
        ),
        prompt_in_bytes=sum(bytes_ for (source, _), bytes_ in prefill.crossed.items() if source == HOST),
        ttft_first_user_s=(first - 2 * half) / program.batch + 2 * half if program.batch > 1 else None,
        user=user_latency_result(network, first, None),
    )
    if not decode.runs:
        return result
    tpot_s = decode.cycles / decode.runs / wafer.clock_hz
    host, crossing = (_seconds(decode, cause, wafer) / decode.runs for cause in ("host", "crossing"))
    request_s = first + decode.cycles / wafer.clock_hz
    return replace(
        result,
        tpot_s=tpot_s,
        tpot_by=TpotParts(host_s=host, crossing_s=crossing, mesh_s=tpot_s - host - crossing),
        request_s=request_s,
        request_tokens_per_s=(decode.runs + 1) / request_s,
        user=user_latency_result(network, first, request_s),
    )


def _seconds(totals: PhaseTotals, cause: str, wafer: WaferSpec) -> float:
    return float(totals.by_cause[CAUSES.index(cause)]) / wafer.clock_hz
