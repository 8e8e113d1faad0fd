"""The study behind ``wse estimate --gpu``: estimates a model served on GPUs from its config."""

from __future__ import annotations

from dataclasses import asdict

from wse.models.tensors.model_tensors import parameter_count
from wse.program.routing import expected_experts
from wse.serving.cost import system_cost, system_energy
from wse.serving.economics import Economics
from wse.serving.goal import LATENCY
from wse.serving.gpus.roofline import Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.prices import prices_text
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.drafts.plan import plan_of
from wse.studies.estimate.drafts.result import DraftPlanResult
from wse.studies.estimate.gpus.drafting import GpuDrafter, gpu_draft_place, gpu_draft_users
from wse.studies.estimate.gpus.grades import gpu_grades
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, prepare_gpu_estimate
from wse.studies.estimate.gpus.result import (
    GpuCostResult,
    GpuDecodeResult,
    GpuDraftGain,
    GpuEnergyResult,
    GpuEstimateResult,
    GpuLatencyResult,
    GpuMachineResult,
    GpuMemoryResult,
    GpuModelResult,
    GpuPrefillResult,
    GpuSystemResult,
    GpuTpotParts,
    GpuVerifyResult,
)
from wse.studies.estimate.ranges.sampled_figures import intervals_of, sampled_gpu_figures
from wse.studies.estimate.request import EstimateRequest
from wse.studies.results.operating_points import ServingResult, serving_result
from wse.studies.results.published import EstimatedSpeed, PublishedSpeed, published_speeds


def estimate_on_gpus(request: EstimateRequest) -> GpuEstimateResult:
    """Estimate the speed and cost of a model on GPUs for the requested and for other user counts.

    Raises:
        BadInput: A name is unknown, a file is missing or cannot be used, or the users' KV caches do
            not fit.
        DoesNotFit: The weights do not fit. The message states how many GPUs have enough memory.
    """
    prepared_estimate = prepare_gpu_estimate(request)
    server, economics = prepared_estimate.server, prepared_estimate.economics
    deployment = prepared_estimate.deployment
    serving = serving_result(deployment, prepared_estimate.users, replicas=prepared_estimate.replicas)
    gpus = serving.replicas * server.parallelism.gpus
    decoded = [Tokens(users=prepared_estimate.users_of_one, new=1, context=prepared_estimate.middle_context)]
    decode = server.pass_time(decoded)
    shape = deployment.shape
    read_s = server.prefill_s(shape.unread_tokens, shape.prefix_tokens)
    tpot_s = serving.tpot_s or decode.total_s
    drafts = _drafts(prepared_estimate)
    energy = None if economics is None else _energy(gpus, serving.tokens_per_s, economics)
    cost = None if economics is None else _cost(gpus, serving.tokens_per_s, economics)
    intervals = intervals_of(serving, sampled_gpu_figures(deployment, serving))
    return GpuEstimateResult(
        inputs=gpu_inputs(prepared_estimate),
        note=prepared_estimate.note,
        batch=prepared_estimate.users,
        model=_model_result(server),
        gpu=GpuMachineResult.from_parts(server.gpu),
        system=GpuSystemResult(
            gpus=server.parallelism.gpus,
            stack=prepared_estimate.stack,
            software=server.stack.title,
            parallelism=prepared_estimate.parallelism,
            max_sequences=server.max_sequences,
        ),
        memory=GpuMemoryResult(
            weight_bytes=round(server.weight_bytes),
            draft_bytes=None if server.draft is None else round(server.draft_bytes),
            kv_bytes_per_token=server.kv_bytes_per_token,
            kv_capacity_tokens=deployment.server.kv_capacity_tokens,
            kv_capacity_users=deployment.max_concurrency,
        ),
        prefill=GpuPrefillResult(s=read_s, tokens_per_s=shape.unread_tokens / serving.ttft_s),
        latency=GpuLatencyResult(
            ttft_s=serving.ttft_s,
            tpot_s=tpot_s,
            tpot_by=GpuTpotParts(**asdict(decode), prompts_s=tpot_s - decode.total_s),
            bound_s=server.roofline(decoded).bound_s,
            request_s=serving.request_s,
        ),
        decode=GpuDecodeResult(
            tokens_per_s_per_user=1 / tpot_s,
            tokens_per_s=serving.tokens_per_s,
            experts=_used_experts(prepared_estimate),
        ),
        verify=_verify(prepared_estimate),
        drafts=drafts,
        published=_published(prepared_estimate, 1 / tpot_s, drafts),
        energy=energy,
        cost=cost,
        grades=gpu_grades(prepared_estimate, energy, cost),
        serving=serving,
        ranges={f"serving.{name}": interval for name, interval in intervals.items()},
        batches=_draft_gains(prepared_estimate, serving),
    )


def _model_result(server: GpuServer) -> GpuModelResult:
    """Return the name, size and types of the model on a server."""
    return GpuModelResult(
        name=server.spec.name,
        parameters=parameter_count(server.spec),
        dtype=server.weights.name,
        cache_bits=server.weights.cache_bits,
        bytes=round(server.weight_bytes),
    )


def _used_experts(prepared_estimate: PreparedGpuEstimate) -> float | None:
    """Return how many experts of a layer a decode pass uses on average.

    The result is None if the model has no experts, or if tokens choose experts evenly.
    """
    server = prepared_estimate.server
    if server.routing.is_even or server.spec.experts is None:
        return None
    experts = server.spec.experts
    return expected_experts(experts.count, experts.active, prepared_estimate.users_of_one, server.routing)


def _draft_gains(prepared_estimate: PreparedGpuEstimate, serving: ServingResult) -> tuple[GpuDraftGain, ...] | None:
    """Return the best number of draft tokens for each user count in the estimate.

    The draft needs memory, so fewer users may fit than without it. Instead of a number that does not
    fit, the maximum that fits is used.

    Returns:
        One record per user count; None if no speculative decoding is requested or nothing is
        decoded.
    """
    if prepared_estimate.acceptance is None or prepared_estimate.new_tokens < 2:
        return None
    drafter, gains = GpuDrafter(prepared=prepared_estimate), list[GpuDraftGain]()
    replicas = prepared_estimate.replicas
    shape = prepared_estimate.deployment.shape
    room = replicas * prepared_estimate.server.users_that_fit(shape.tokens, shape.prefix_tokens)
    for count in sorted({min(point.users, room) for point in serving.points}):
        users = UsersOfDrafts(drafter=drafter, users=count, replicas=replicas)
        draft_tokens, gain = users.best_row(prepared_estimate.acceptance.curve)
        gains.append(GpuDraftGain(users=count, draft_tokens=draft_tokens, draft_speed_up=gain))
    return tuple(gains)


def _drafts(prepared_estimate: PreparedGpuEstimate) -> DraftPlanResult | None:
    """Find the number of draft tokens, or the draft tree, with the highest speed for users.

    The result is None if no speculative decoding is requested or nothing is decoded.
    """
    if prepared_estimate.acceptance is None or prepared_estimate.new_tokens < 2:
        return None
    users, place = gpu_draft_users(prepared_estimate), gpu_draft_place(prepared_estimate)
    return plan_of(prepared_estimate.acceptance, users, place, prepared_estimate.server.spec.name)


def _published(
    prepared_estimate: PreparedGpuEstimate, tokens_per_s_per_user: float, drafts: DraftPlanResult | None
) -> tuple[PublishedSpeed, ...] | None:
    """Return published speeds of the model to compare with the estimate.

    Only speeds on the same type and the same number of GPUs as in the request are returned.

    Args:
        prepared_estimate: The request.
        tokens_per_s_per_user: Estimated speed without speculative decoding, to compare with
            published speeds.
        drafts: Estimated speed with speculative decoding; None without speculative decoding.

    Returns:
        The published speeds, or None if there are none.
    """
    server = prepared_estimate.server
    estimated = EstimatedSpeed(
        machine=server.gpu.name,
        chips=server.parallelism.gpus,
        same_chips_only=True,
        users=prepared_estimate.users_of_one,
        dtype=server.weights.name,
        tokens_per_s_per_user=tokens_per_s_per_user,
        drafted_tokens_per_s_per_user=None if drafts is None else drafts.tokens_per_s_per_user,
    )
    return published_speeds(server.spec, estimated)


def _verify(prepared_estimate: PreparedGpuEstimate) -> GpuVerifyResult | None:
    """Return the time of the requested verification pass; None if none is requested."""
    tokens, server = prepared_estimate.request.verify_tokens, prepared_estimate.server
    if tokens is None:
        return None
    users, context = prepared_estimate.users_of_one, prepared_estimate.middle_context
    verify_s = server.verify_s(users, tokens, context)
    return GpuVerifyResult(tokens=tokens, s=verify_s, ratio_to_decode=verify_s / server.decode_s(users, context))


def _energy(gpus: int, tokens_per_s: float, economics: Economics) -> GpuEnergyResult:
    """Return the energy per token with its range, and the assumed power behind it."""
    energy = system_energy(gpus, tokens_per_s, economics)
    return GpuEnergyResult.from_parts(
        energy,
        joules_per_token=energy.value,
        assumptions=energy.source,
        gpu_power_w=economics.power_w.value,
    )


def _cost(gpus: int, tokens_per_s: float, economics: Economics) -> GpuCostResult:
    """Return the cost per million tokens with its range, and the assumed price behind it."""
    cost = system_cost(gpus, tokens_per_s, economics)
    return GpuCostResult.from_parts(
        cost,
        assumptions=cost.source,
        **cost.with_ends("usd_per_million_tokens"),
        **economics.usd_per_hour.with_ends("gpu_usd_per_hour"),
    )


def gpu_inputs(prepared_estimate: PreparedGpuEstimate) -> dict[str, str | float]:
    """Return the request's options with defaults filled in, keyed by option name."""
    request, server = prepared_estimate.request, prepared_estimate.server
    draft_model = request.drafts.draft_model
    inputs: dict[str, str | float | None] = {
        "model": str(request.model),
        "gpu": prepared_estimate.gpu,
        "gpus": server.parallelism.gpus,
        "stack": prepared_estimate.stack,
        "parallelism": prepared_estimate.parallelism,
        "dtype": server.weights.name,
        prepared_estimate.users_option: prepared_estimate.users,
        "objective": request.serving.objective or LATENCY,
        "routing": None if server.routing.is_even else server.routing.name,
        "replicas": None if prepared_estimate.replicas == 1 else prepared_estimate.replicas,
        "workload": request.workload.workload_name,
        "think_time": prepared_estimate.deployment.shape.think_s or None,
        "prompt_len": prepared_estimate.prompt_tokens,
        "prefix_tokens": request.workload.prefix_tokens or None,
        "new_tokens": prepared_estimate.new_tokens,
        "price": prices_text(request.costs.price),
        "verify_tokens": request.verify_tokens,
        "draft": request.draft,
        "draft_model": None if draft_model is None else str(draft_model),
    }
    return {name: value for name, value in inputs.items() if value is not None}
