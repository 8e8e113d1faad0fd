"""Machines of a serving simulation, with pass times, power, price and KV-cache limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from wse.errors import BadInput, DoesNotFit
from wse.hardware.number import SourcedNumber
from wse.reports.number_text import plural
from wse.reports.result import Doc, Result
from wse.reports.terminal import printable
from wse.serving.operating_point import Deployment
from wse.serving.simulation.costs.pass_costs import PassCosts, users_that_fit
from wse.serving.simulation.workload import Workload
from wse.studies.estimate.ranges.sampled_figures import Uncertainty
from wse.studies.results.placement import ModelResult
from wse.studies.serve_sim.machines.drafts import DraftsResult
from wse.studies.serve_sim.machines.kv_tiers import KvTierResult


class MachineResult(Result):
    """A simulated machine that serves requests, with its KV-cache capacity.

    On wafers, passes are compiled and timed only for some batch sizes, contexts and chunk lengths.
    The fields that start with ``grid_`` list them.
    """

    name: Annotated[str, Doc("name of the wafer or GPU")]
    wafers: Annotated[int | None, Doc("number of wafers, including those of a draft model or of parked KV caches")] = (
        None
    )
    cache_wafers: Annotated[int | None, Doc("number of wafers that only store KV caches; absent if none do")] = None
    draft_wafers: Annotated[int | None, Doc("number of wafers that only store a draft model; absent if none do")] = None
    gpus: Annotated[int | None, Doc("number of GPUs")] = None
    stack: Annotated[str | None, Doc("serving stack; for GPUs")] = None
    stages: Annotated[int, Doc("stages of the pipeline")]
    mapping: Annotated[str, Doc("mapping; for GPUs the parallelism")]
    kv_capacity_tokens: Annotated[int, Doc("capacity of the KV caches of all users, in tokens")]
    kv_capacity_users: Annotated[int, Doc("number of mean requests that can be in flight")]
    kv_block_tokens: Annotated[int, Doc("tokens per block of the KV cache; a user occupies whole blocks")]
    grid_users: Annotated[tuple[int, ...], Doc("batch sizes of the timed decode passes; empty for GPUs")]
    grid_contexts: Annotated[tuple[int, ...], Doc("contexts of the timed decode passes; interpolated in between")]
    chunk_tokens: Annotated[int, Doc("prompt tokens per chunk")]
    grid_last_chunks: Annotated[
        tuple[int, ...], Doc("lengths of the timed last chunks; interpolated in between; empty for GPUs")
    ]
    round_s: Annotated[float, Doc("seconds between two tokens of a single user", "s")]
    layout_users: Annotated[
        int | None, Doc("requests in flight on a replica if users pause, rounded up; absent if they saturate it")
    ] = None

    @property
    def systems(self) -> str:
        """Number and name of the wafers or GPUs of one replica, such as "2 wse3 wafers (1 only for KV caches)"."""
        other_uses = {"KV caches": self.cache_wafers, "drafts": self.draft_wafers}
        texts = [f"{wafers} only for {use}" for use, wafers in other_uses.items() if wafers]
        return self.systems_of(1) + (f" ({', '.join(texts)})" if texts else "")

    def systems_of(self, replicas: int) -> str:
        """Return the number and name of the wafers or GPUs of several replicas."""
        count, kind = (self.wafers, "wafer") if self.gpus is None else (self.gpus, "GPU")
        return plural(replicas * (count or 0), f"{printable(self.name)} {kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMachine:
    """A machine that serves requests: one replica.

    Attributes:
        costs: Pass times and KV-cache capacity. If there are drafts, decode passes verify them.
        deployment: The machine in a steady state, without drafts.
        drafts: The drafts, or None.
        model: The model with its element types.
        result: Result record that describes the machine.
        inputs: Options that determine the machine, keyed by option name.
        kv_bytes_per_token: Bytes per token in the KV cache, including all copies.
        kv_copy_bytes_per_token: Bytes per token in one copy of the KV cache.
        bytes_per_state: Bytes of the states of linear attention of one request; 0 without linear
            attention. There is one copy of them.
        link_bytes_per_s: Bandwidth of the link to another machine.
        link_latency_s: Latency of that link.
        edge_bytes_per_s: Bandwidth of the edge between two parts of a wafer. 0 for GPUs.
        kv_tiers: Memories in which KV caches of prefixes are parked, in the order in which they are
            filled.
        power_w: Total power of all wafers or GPUs. None if unknown.
        usd_per_hour: Total price of all wafers or GPUs. None if unknown.
        uncertainty: Function that computes what is uncertain about the times of the deployment,
            which takes time; None for GPUs.
        replicas: Number of replicas chosen for the requested users; None if it was not chosen.
    """

    costs: PassCosts
    deployment: Deployment
    drafts: DraftsResult | None = None
    model: ModelResult
    result: MachineResult
    inputs: Mapping[str, Any]
    kv_bytes_per_token: float
    kv_copy_bytes_per_token: float
    bytes_per_state: int
    link_bytes_per_s: float
    link_latency_s: float = 0.0
    edge_bytes_per_s: float = 0.0
    kv_tiers: tuple[KvTierResult, ...] = ()
    power_w: SourcedNumber | None
    usd_per_hour: SourcedNumber | None
    uncertainty: Callable[[], Uncertainty] | None = None
    replicas: int | None = None


def check_room(workload: Workload, costs: PassCosts) -> None:
    """Check that the KV cache of the longest request fits when no other request is served.

    Args:
        workload: The requests.
        costs: Costs of passes, and the KV-cache capacity.

    Raises:
        DoesNotFit: The KV cache is too large.
    """
    slots = costs.room_tokens(workload.max_tokens)
    if slots > costs.kv_capacity_tokens:
        raise DoesNotFit(
            f"the KV cache of the longest request is too large: {workload.max_tokens:,} tokens need {slots:,} "
            f"slots, but there is room for {costs.kv_capacity_tokens:,}; give more wafers or GPUs, or shorter requests "
            "(a smaller --context, and for a trace --too-long skip)"
        )


def max_users_of(max_users: int | None, workload: Workload, costs: PassCosts, *, shares_prefixes: bool) -> int:
    """Return the maximum number of concurrent users per replica.

    Args:
        max_users: Requested number. None selects the number of users whose KV caches fit if all of
            them send the shortest request.
        workload: The requests.
        costs: Costs of passes, and the KV-cache capacity.
        shares_prefixes: Whether a prompt prefix that several users share is cached only once.

    Raises:
        BadInput: The requested number exceeds the KV-cache capacity, even for the shortest
            requests, or the number of users supported by passes.
    """
    block, prefix_tokens = costs.kv_block_tokens, workload.prefix_tokens if shares_prefixes else 0
    own_tokens = int((workload.prompt_tokens + workload.new_tokens - prefix_tokens // block * block).min())
    min_slots, room = costs.room_tokens(own_tokens), costs.kv_capacity_tokens
    limit = users_that_fit(costs, own_tokens)
    if max_users is not None and max_users > limit:
        reason = f"caches have room for {room:,} tokens, and a request needs at least {min_slots:,}"
        if limit == costs.max_users:
            reason = "a machine serves no more at a time"
        raise BadInput(f"--max-users {max_users}: {reason}; give at most {limit}, or more wafers or GPUs")
    return max_users or limit
