"""Serving-simulation model of a GPU machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wse.models.tensors.model_tensors import parameter_count
from wse.serving.simulation.gpu_costs import GpuCosts
from wse.serving.simulation.pass_costs import users_that_fit
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.gpus.drafting import GpuDrafter, gpu_draft_place
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.results.placement import ModelResult
from wse.studies.serve_sim.machines.drafts import drafts_result
from wse.studies.serve_sim.machines.kv_tiers import gpu_tiers
from wse.studies.serve_sim.machines.machine import MachineResult, ServingMachine, times
from wse.studies.serve_sim.options import TierOptions


def gpu_machine(
    prepared_estimate: PreparedGpuEstimate,
    context: int,
    mean_tokens: int,
    draft_tokens: int | None,
    parking: TierOptions,
) -> ServingMachine:
    """Build the serving-simulation model of a GPU machine, with times, capacity and price.

    Args:
        prepared_estimate: The validated request for GPUs.
        context: Maximum number of tokens per request.
        mean_tokens: Mean number of tokens per request, prompt plus answer.
        draft_tokens: Number of tokens per draft. None selects the fastest number.
        parking: Memory tiers that store KV caches of prompt prefixes for reuse.

    Raises:
        DoesNotFit: The weights do not fit.
    """
    server, drafts = prepared_estimate.server, None
    costs = GpuCosts(server=server, context=context)
    if prepared_estimate.acceptance is not None:
        users = UsersOfDrafts(
            drafter=GpuDrafter(prepared=prepared_estimate),
            users=prepared_estimate.users,
            replicas=prepared_estimate.replicas,
        )
        place = gpu_draft_place(prepared_estimate)
        drafts = drafts_result(prepared_estimate.acceptance, users, draft_tokens, place, server.spec.name)
        serving_server = server if drafts.draft_tokens else replace(server, draft=None)
        costs = replace(costs, server=serving_server, draft_tokens=drafts.draft_tokens)
    economics, gpus = prepared_estimate.economics, server.parallelism.gpus
    return ServingMachine(
        costs=costs,
        deployment=prepared_estimate.deployment,
        drafts=drafts,
        model=ModelResult(
            name=server.spec.name,
            parameters=parameter_count(server.spec),
            dtype=server.weights.name,
            activations=server.spec.dtype,
            accumulate="float32",
            bytes=round(server.weight_bytes),
        ),
        result=MachineResult(
            name=server.gpu.name,
            gpus=gpus,
            stack=server.stack.title,
            stages=1,
            mapping=prepared_estimate.parallelism,
            kv_capacity_tokens=costs.kv_capacity_tokens,
            kv_capacity_users=users_that_fit(costs, mean_tokens),
            kv_block_tokens=costs.kv_block_tokens,
            grid_users=(),
            grid_contexts=costs.contexts,
            chunk_tokens=costs.chunk_tokens,
            grid_last_chunks=(),
            round_s=costs.round_s(1, prepared_estimate.prompt_tokens + prepared_estimate.new_tokens // 2, ()),
        ),
        inputs=_inputs(prepared_estimate, context),
        kv_bytes_per_token=server.kv_bytes_per_token,
        kv_copy_bytes_per_token=server.kv_copy_bytes_per_token,
        link_bytes_per_s=server.gpu.link_bytes_per_s * gpus,
        kv_tiers=gpu_tiers(parking, server),
        power_w=None if economics is None else times(gpus, economics.power_w),
        usd_per_hour=None if economics is None else times(gpus, economics.usd_per_hour),
    )


def _inputs(prepared_estimate: PreparedGpuEstimate, context: int) -> dict[str, Any]:
    """Return the GPU options to show under ``inputs`` in a result, keyed by option name.

    Args:
        prepared_estimate: The validated request for GPUs.
        context: Maximum number of tokens per request.
    """
    values = {
        "model": prepared_estimate.model,
        "gpu": prepared_estimate.gpu,
        "gpus": prepared_estimate.server.parallelism.gpus,
        "stack": prepared_estimate.stack,
        "parallelism": prepared_estimate.parallelism,
        "dtype": prepared_estimate.server.weights.name,
        "prompt_len": prepared_estimate.prompt_tokens,
        "new_tokens": prepared_estimate.new_tokens,
        "context": context,
    }
    draft_model = prepared_estimate.draft_model
    return values if draft_model is None else values | {"draft_model": draft_model}
