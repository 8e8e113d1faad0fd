"""Simulators of a service: one machine or several, with continuous or static batching."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol

from wse.serving.deployment.gpus import MAX_BATCHED_TOKENS
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.continuous.simulate import simulate_continuous
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.replicas import simulate_replicas
from wse.serving.simulation.static import StaticPolicy, simulate_static
from wse.serving.simulation.workload import Workload
from wse.studies.serve_sim.machines.kv_transfer import KvTransferResult, kv_transfer
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.options import LEAST_LOADED, STATIC
from wse.studies.serve_sim.prepare import PreparedServe


class Simulate(Protocol):
    """Type of a function that simulates how a service handles a list of requests over time."""

    def __call__(self, workload: Workload, *, on_done: OnDone) -> SimulationOutcome:
        """Simulate how a workload's requests are served, and return the times of each request.

        Args:
            workload: The requests, with their arrival times and lengths.
            on_done: Called with (requests served, total).
        """


def simulator(
    prepared_serve: PreparedServe,
    decode: ServingMachine,
    prefill: ServingMachine | None,
    max_users: int,
    drafts: Drafts | None,
    replicas: int,
) -> Simulate:
    """Return a function that simulates a service, with continuous or static batching.

    Args:
        prepared_serve: The serving request.
        decode: One replica of the decode machine.
        prefill: The prefill machine, if it is separate.
        max_users: Maximum number of concurrent users per replica.
        drafts: Acceptance of drafts, or None.
        replicas: Number of replicas (identical machines that share the requests); 1 for static
            batching.
    """
    batches = prepared_serve.request.batches
    if batches.batching == STATIC:
        wait = math.inf if batches.batch_wait is None else batches.batch_wait
        policy = StaticPolicy(batch_slots=max_users, longest_wait_s=wait)
        return partial(simulate_static, costs=decode.costs, policy=policy, drafts=drafts)
    continuous = continuous_arguments(prepared_serve, decode, prefill, max_users, drafts)
    if replicas == 1:
        return partial(simulate_continuous, **continuous)
    return partial(
        simulate_replicas,
        replicas=replicas,
        least_loaded=batches.dispatch == LEAST_LOADED,
        make_machine=partial(ContinuousMachine, **continuous),
    )


def continuous_arguments(
    prepared_serve: PreparedServe,
    decode: ServingMachine,
    prefill: ServingMachine | None,
    max_users: int,
    drafts: Drafts | None,
) -> dict[str, Any]:
    """Return the keyword arguments of a simulated machine with continuous batching.

    Args:
        prepared_serve: The serving request.
        decode: The decode machine.
        prefill: The prefill machine, if it is separate.
        max_users: Maximum number of concurrent users.
        drafts: Acceptance of drafts, or None.
    """
    request, costs = prepared_serve.request, decode.costs
    chunk = request.batches.chunk or (None if costs.prompts_fill_gaps else MAX_BATCHED_TOKENS)
    policy = ContinuousPolicy(
        max_users=max_users,
        prompt_tokens=chunk,
        prefix_cache=request.keeps_prefixes,
        kv_tiers=tuple(tier.simulated_tier for tier in decode.kv_tiers),
    )
    machine = None if prefill is None else _prefill_machine(prefill, kv_transfer(prepared_serve, decode, prefill))
    return {"costs": costs, "policy": policy, "prefill": machine, "drafts": drafts}


def _prefill_machine(prefill: ServingMachine, transfer: KvTransferResult) -> PrefillMachine:
    """Build the simulator's model of the machine that reads prompts.

    Args:
        prefill: Machine that only reads prompts, with the times of its passes.
        transfer: The link over which it sends the KV cache of each prompt to the decode machine.
    """
    return PrefillMachine(
        costs=prefill.costs,
        transfer_s_per_token=transfer.bytes_per_token / transfer.bytes_per_s,
        transfer_s=transfer.latency_s,
    )
