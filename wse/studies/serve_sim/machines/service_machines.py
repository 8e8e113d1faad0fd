"""ServiceMachines: the compiled machines of a service, their simulation, and the KV-cache transfer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from wse.reports.progress import ignore
from wse.reports.result import Doc, Result
from wse.serving.deployment.gpus import MAX_BATCHED_TOKENS
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.replicas import simulate_continuous, simulate_replicas
from wse.serving.simulation.static import simulate_static
from wse.serving.simulation.workload import Workload
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.options import LEAST_LOADED, STATIC
from wse.studies.serve_sim.prepare import PreparedServe

GIGA: Final = 1e9
MICRO: Final = 1e-6

Simulate = Callable[[Workload], SimulationOutcome]
"""Function that simulates how the requests of a workload are served over time."""


class KvTransferResult(Result):
    """Link that sends KV caches from the prefill machine to the decode machine.

    The caches of several prompts are sent sequentially. The states of linear attention of a prompt
    are sent with its cache.
    """

    bytes_per_token: Annotated[float, Doc("KV-cache bytes per token", "B")]
    bytes_per_state: Annotated[
        int | None, Doc("bytes of the states of a prompt, whatever its length; with linear attention", "B")
    ] = None
    bytes_per_s: Annotated[float, Doc("bandwidth of the link", "B/s")]
    latency_s: Annotated[float, Doc("latency of the link", "s")]
    prompt_s: Annotated[float, Doc("time to move the KV cache and states of a mean prompt", "s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMachines:
    """The compiled machines of a service, with the times of their passes.

    Attributes:
        prepared: The validated serving request.
        decode: One replica of the decode machine.
        prefill: The machine that reads prompts; None if the decode machine reads them.
        drafts: Drafts, whose tokens are accepted at random; None without drafts, or if they would
            not increase the speed.
        max_users: Maximum number of concurrent users per replica.
    """

    prepared: PreparedServe
    decode: ServingMachine
    prefill: ServingMachine | None
    drafts: Drafts | None
    max_users: int

    def simulator(self, replicas: int, on_done: OnDone = ignore) -> Simulate:
        """Return a function that simulates the service, with continuous or static batching.

        Args:
            replicas: Number of replicas (identical machines that share the requests); 1 for static
                batching.
            on_done: Called with (requests served, total).
        """
        batches = self.prepared.request.batches
        if batches.batching == STATIC:
            wait = math.inf if batches.batch_wait is None else batches.batch_wait
            return partial(
                simulate_static,
                costs=self.decode.costs,
                batch_slots=self.max_users,
                longest_wait_s=wait,
                drafts=self.drafts,
                on_done=on_done,
            )
        if replicas == 1:
            return partial(simulate_continuous, **self.continuous_arguments(), on_done=on_done)
        return partial(
            simulate_replicas,
            replicas=replicas,
            least_loaded=batches.dispatch == LEAST_LOADED,
            make_machine=partial(ContinuousMachine, **self.continuous_arguments()),
            on_done=on_done,
        )

    def continuous_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of a simulated replica with continuous batching."""
        request, costs, transfer = self.prepared.request, self.decode.costs, self.kv_transfer()
        # Stages of wafers that wait for decoded tokens read prompts meanwhile. GPUs work on one pass at a time.
        max_chunk_tokens = None if self.decode.result.gpus is None else MAX_BATCHED_TOKENS
        policy = ContinuousPolicy(
            max_users=self.max_users,
            prompt_tokens=request.batches.chunk or max_chunk_tokens,
            prefix_cache=request.keeps_prefixes,
            kv_tiers=tuple(tier.simulated_tier for tier in self.decode.kv_tiers),
        )
        prefill = None
        if self.prefill is not None and transfer is not None:
            prefill = PrefillMachine(
                costs=self.prefill.costs,
                transfer_s_per_token=transfer.bytes_per_token / transfer.bytes_per_s,
                transfer_s_per_state=(transfer.bytes_per_state or 0) / transfer.bytes_per_s,
                transfer_s=transfer.latency_s,
            )
        return {"costs": costs, "policy": policy, "prefill": prefill, "drafts": self.drafts}

    def kv_transfer(self) -> KvTransferResult | None:
        """Return the link that sends KV caches from the prefill machine to the decode machine.

        There are three cases:

        1. Both machines are parts of the same wafer: the link is the boundary between them.
        2. Both machines are wafers, or both are GPUs: the links of the prefill machine are used.
           Each GPU sends its part of the cache over its own link.
        3. One machine consists of wafers and the other of GPUs: one copy of the cache is sent over
           the link of the wafers.

        ``--kv-bandwidth`` and ``--kv-latency`` override the bandwidth and latency of the link. With
        ``--kv-bandwidth``, one copy of the cache is sent. Of the states of linear attention, there is
        only one copy in all cases.

        Returns:
            The link; None if the decode machine reads the prompts.
        """
        options, decode, prefill = self.prepared.request.prefilling, self.decode, self.prefill
        if prefill is None:
            return None
        if self.prepared.shares_wafers:  # 1
            size, rate, latency_s = prefill.kv_bytes_per_token, prefill.edge_bytes_per_s, 0.0
        elif (prefill.result.gpus is None) == (decode.result.gpus is None):  # 2
            size, rate, latency_s = prefill.kv_bytes_per_token, prefill.link_bytes_per_s, prefill.link_latency_s
        else:  # 3
            wafers = prefill if prefill.result.gpus is None else decode
            size, rate, latency_s = prefill.kv_copy_bytes_per_token, wafers.link_bytes_per_s, wafers.link_latency_s
        if options.kv_bandwidth is not None:
            size, rate = prefill.kv_copy_bytes_per_token, options.kv_bandwidth * GIGA
        if options.kv_latency is not None:
            latency_s = options.kv_latency * MICRO
        prompt_bytes = float(self.prepared.workload.prompt_tokens.mean()) * size + prefill.bytes_per_state
        return KvTransferResult(
            bytes_per_token=size,
            bytes_per_state=prefill.bytes_per_state or None,
            bytes_per_s=rate,
            latency_s=latency_s,
            prompt_s=latency_s + prompt_bytes / rate,
        )
