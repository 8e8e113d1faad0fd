"""Machine: what serves, as a simulation sees it: costs of passes, and the power and price of all of its systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from wse.hardware.number import SourcedNumber
from wse.reports.result import Doc, Result
from wse.reports.terminal import plural, printable
from wse.serving.operating_point import Deployment
from wse.serving.simulation.pass_costs import PassCosts
from wse.studies.results.placement import ModelResult
from wse.studies.serve.machines.drafts import DraftsResult


@dataclass(frozen=True, kw_only=True)
class MachineResult(Result):
    """A machine that serves, and the grid that the costs of its passes were compiled for."""

    name: Annotated[str, Doc("name of the wafer or GPU")]
    wafers: Annotated[int | None, Doc("wafers, including those of a draft model on wafers of its own")] = None
    gpus: Annotated[int | None, Doc("GPUs")] = None
    stack: Annotated[str | None, Doc("the serving stack; of GPUs")] = None
    stages: Annotated[int, Doc("stages of the pipeline")]
    mapping: Annotated[str, Doc("mapping; of GPUs the parallelism")]
    kv_capacity_tokens: Annotated[int, Doc("tokens of all users together that KV caches have room for")]
    kv_capacity_users: Annotated[int, Doc("users with requests of the mean length that can be in flight")]
    kv_block_tokens: Annotated[int, Doc("tokens of a block of the cache; a user's cache has whole blocks")]
    grid_users: Annotated[tuple[int, ...], Doc("users of the decode passes that were compiled; empty for GPUs, of any")]
    grid_contexts: Annotated[tuple[int, ...], Doc("contexts that their costs are known for; in between, interpolated")]
    chunk_tokens: Annotated[int, Doc("tokens of a prompt that are read at once")]
    grid_last_chunks: Annotated[
        tuple[int, ...], Doc("lengths of last chunks that were compiled; in between, interpolated; empty for GPUs")
    ]
    round_s: Annotated[float, Doc("seconds between two tokens of a user who is alone", "s")]

    @property
    def systems(self) -> str:
        """The number and the name of the machines, such as ``2 wafers wse3``."""
        return self.systems_of(1)

    def systems_of(self, replicas: int) -> str:
        """Return the wafers or GPUs of so many replicas, such as ``2 wafers wse3``."""
        count, kind = (self.wafers, "wafer") if self.gpus is None else (self.gpus, "GPU")
        return f"{plural(replicas * (count or 0), kind)} {printable(self.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that serves.

    Attributes:
        costs: Costs of its passes, and its room; decode passes verify drafts where it has any.
        deployment: The machine in the steady state, without drafts.
        drafts: These drafts; None without.
        model: The model as it is held there.
        result: What is reported about the machine.
        inputs: The options that it follows from, by name.
        kv_bytes_per_token: Bytes of a token in a user's cache, as often as it is there.
        kv_copy_bytes_per_token: Bytes of one copy of it.
        link_bytes_per_s, link_latency_s: Of the link to another such machine.
        edge_bytes_per_s: Of the edge between two parts of one wafer; 0 for GPUs.
        power_w, usd_per_hour: Of all of its systems; None where they are not known.
    """

    costs: PassCosts
    deployment: Deployment
    drafts: DraftsResult | None = None
    model: ModelResult
    result: MachineResult
    inputs: Mapping[str, Any]
    kv_bytes_per_token: float
    kv_copy_bytes_per_token: float
    link_bytes_per_s: float
    link_latency_s: float = 0.0
    edge_bytes_per_s: float = 0.0
    power_w: SourcedNumber | None
    usd_per_hour: SourcedNumber | None


def times(count: int, one: SourcedNumber) -> SourcedNumber:
    """Return a number for so many systems, with its range."""
    ends = None if one.range is None else (count * one.range[0], count * one.range[1])
    return replace(one, value=count * one.value, range=ends)
