"""The study of ``wse race``: the pace of an answer on wafers, on GPUs of its own, and on GPUs that users share."""

from __future__ import annotations

from dataclasses import replace

from wse.comparison.race.pace import Pace
from wse.comparison.race.result import LaneResult, RaceResult, lane_result
from wse.errors import BadInput
from wse.report.progress import OnProgress, ignore
from wse.report.shared_tables import with_settings_text
from wse.report.terminal import plural
from wse.request.estimate_request import EstimateRequest
from wse.request.option import check_counts
from wse.request.race_request import FASTEST, SLOWEST, RaceRequest
from wse.serving.network import Network, load_network
from wse.studies.estimate.estimate import estimate
from wse.studies.estimate.gpus import estimate_on_gpus


def race(request: RaceRequest, tokens: int, on_progress: OnProgress = ignore) -> RaceResult:
    """The paces of an answer of so many tokens, the quickest machine first.

    Raises:
        BadInput and its kinds: a speed beyond what can be seen, or as of ``wse estimate``.
    """
    if not SLOWEST <= request.speed <= FASTEST:
        message = f"--speed {request.speed:g}: give a number from {SLOWEST:g} to {FASTEST:g}"
        raise BadInput(message)
    check_counts(users=request.users, gpus=request.gpus)
    network = load_network(request.base.network)
    base = replace(request.base, new_tokens=tokens)
    on_progress(0, 3, "wafers")
    lanes = [_wafer_lane(replace(base, stack=None, parallelism=None), tokens)]
    for done, users in enumerate(dict.fromkeys((1, request.users)), 1):
        on_progress(done, 3, plural(users, "user"))
        shared = replace(_without_wafers(base), gpu=request.gpu, gpus=request.gpus, batch=users)
        lanes.append(_gpu_lane(shared, network, tokens))
    on_progress(3, 3, "")
    return RaceResult(
        model=str(base.model),
        tokens=tokens,
        prompt_tokens=base.lengths(tokens + (base.prompt_len or 1024))[0],
        lanes=tuple(sorted(lanes, key=lambda lane: lane.done_s)),
    )


def _wafer_lane(request: EstimateRequest, tokens: int) -> LaneResult:
    result = estimate(request)
    assert result.decode is not None
    assert result.latency.tpot_s is not None
    assert result.cost is not None
    pace = Pace(
        name=f"{plural(result.system.wafers, 'wafer')}, alone",
        first_token_s=result.latency.user.ttft_s,
        queue_s=0.0,
        step_s=result.latency.tpot_s,
    )
    note = with_settings_text(f"{result.wafer.name}, {result.model.dtype}", result.inputs)
    return lane_result(pace, tokens, usd_per_million_tokens=result.cost.usd_per_million_tokens, note=note)


def _without_wafers(request: EstimateRequest) -> EstimateRequest:
    """The options that GPUs know: model, element type, lengths, stack."""
    return EstimateRequest(
        model=request.model,
        dtype=request.dtype,
        prompt_len=request.prompt_len,
        new_tokens=request.new_tokens,
        context=request.context,
        stack=request.stack,
        parallelism=request.parallelism,
        economics=request.economics,
    )


def _gpu_lane(request: EstimateRequest, network: Network, tokens: int) -> LaneResult:
    result = estimate_on_gpus(request)
    who = "alone" if request.batch == 1 else f"among {request.batch} users"
    pace = Pace(
        name=f"{request.gpus} {result.gpu.name}, {who}",
        first_token_s=result.latency.ttft_s + network.seconds,
        queue_s=0.0,
        step_s=result.latency.tpot_s,
    )
    dollars = None if result.cost is None else result.cost.usd_per_million_tokens
    note = f"{result.system.stack}, {result.model.dtype}"
    return lane_result(pace, tokens, usd_per_million_tokens=dollars, note=note)
