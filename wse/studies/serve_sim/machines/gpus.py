"""Serving-simulation model of a GPU machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.tensors.model_tensors import parameter_count
from wse.serving.simulation.costs.gpu_costs import GpuCosts
from wse.serving.simulation.costs.pass_costs import users_that_fit
from wse.studies.estimate.gpus.drafting import gpu_draft_place, gpu_draft_users
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.estimate.gpus.study import gpu_inputs
from wse.studies.results.placement import ModelResult
from wse.studies.serve_sim.machines.drafts import drafts_result
from wse.studies.serve_sim.machines.kv_tiers import gpu_tiers
from wse.studies.serve_sim.machines.machine import MachineResult, ServingMachine
from wse.studies.serve_sim.prepare import PreparedServe

INPUTS: Final = (
    *("model", "gpu", "gpus", "stack", "parallelism", "dtype"),
    *("prompt_len", "new_tokens", "context", "draft_model"),
)
"""Estimate options to show under ``inputs`` in a result."""


def gpu_machine(prepared_serve: PreparedServe, prepared_estimate: PreparedGpuEstimate) -> ServingMachine:
    """Build the serving-simulation model of a GPU machine, with times, capacity and price.

    Args:
        prepared_serve: The serving request.
        prepared_estimate: The machine of this request that decodes or reads prompts.

    Raises:
        DoesNotFit: The weights do not fit.
    """
    request, context = prepared_serve.request, prepared_serve.context
    server, drafts = prepared_estimate.server, None
    costs = GpuCosts(server=replace(server, draft=None), context=context)
    if prepared_estimate.acceptance is not None and prepared_estimate.new_tokens > 1:
        users, place = gpu_draft_users(prepared_estimate), gpu_draft_place(prepared_estimate)
        drafts = drafts_result(prepared_estimate.acceptance, users, request.draft_tokens, place, server.spec.name)
        if drafts.draft_tokens:
            costs = replace(costs, server=server, draft_tokens=drafts.draft_tokens)
    economics, gpus = prepared_estimate.economics, server.parallelism.gpus
    inputs = gpu_inputs(prepared_estimate) | {"context": context}
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
        result=MachineResult.from_parts(
            costs,
            name=server.gpu.name,
            gpus=gpus,
            stack=server.stack.title,
            stages=1,
            mapping=prepared_estimate.parallelism,
            kv_capacity_users=users_that_fit(
                costs, prepared_serve.mean_tokens, prepared_estimate.deployment.shape.prefix_tokens
            ),
            grid_users=(),
            grid_contexts=costs.contexts,
            grid_last_chunks=(),
            round_s=costs.round_s(1, prepared_estimate.prompt_tokens + prepared_estimate.new_tokens // 2, ()),
        ),
        inputs={name: inputs[name] for name in INPUTS if name in inputs},
        kv_bytes_per_token=server.kv_bytes_per_token,
        kv_copy_bytes_per_token=server.kv_copy_bytes_per_token,
        bytes_per_state=server.bytes_per_state,
        link_bytes_per_s=server.gpu.link_bytes_per_s * gpus,
        kv_tiers=gpu_tiers(request.parking, server),
        power_w=None if economics is None else economics.power_w.times(gpus),
        usd_per_hour=None if economics is None else economics.usd_per_hour.times(gpus),
    )
