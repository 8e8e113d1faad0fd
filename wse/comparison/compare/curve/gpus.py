"""GpuMachine: rates and cost of users at the same time on GPUs, as ``wse estimate --gpu`` has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from wse.comparison.compare.curve.machine import Service
from wse.comparison.compare.curve.row import GPU
from wse.errors import BadInput
from wse.report.terminal import printable
from wse.request.compare_request import CompareRequest
from wse.request.estimate_request import EstimateRequest
from wse.request.gpu_estimate_request import PreparedGpuEstimate, prepare_gpu_estimate
from wse.serving.economics import GpuEconomics, load_gpu_economics
from wse.serving.gpu_cost import gpu_cost, gpu_energy
from wse.studies.estimate.gpus import batch_result


@dataclass(frozen=True, kw_only=True)
class GpuMachine:
    """GPUs of one name that serve the model together."""

    prepared: PreparedGpuEstimate
    economics: GpuEconomics
    kind: str = GPU
    users_per_batch: int = 1

    @property
    def machine(self) -> str:
        """The GPUs and their stack."""
        prepared = self.prepared
        return f"{self.chips:,} {printable(self.name)}, {printable(prepared.server.stack.name)}"

    @property
    def name(self) -> str:
        """Name of the GPU."""
        return self.prepared.server.gpu.name

    @property
    def chips(self) -> int:
        """How many GPUs."""
        return self.prepared.server.parallelism.gpus

    @property
    def software(self) -> str:
        """The stack."""
        return self.prepared.server.stack.name

    @cached_property
    def most(self) -> int:
        """Users whose caches fit."""
        return self.prepared.server.users_that_fit(self.prepared.prompt_tokens + self.prepared.new_tokens)

    def service(self, batch: int) -> Service:
        """The rates and the cost of so many users."""
        result = batch_result(self.prepared, batch, self.economics)
        return Service(
            tokens_per_s_per_user=result.tokens_per_s_per_user,
            tokens_per_s=result.tokens_per_s,
            exact=True,
            cost=gpu_cost(self.chips, result.tokens_per_s, self.economics),
            energy=gpu_energy(self.chips, result.tokens_per_s, self.economics),
        )


def gpu_machines(request: CompareRequest) -> tuple[GpuMachine, ...]:
    """The GPUs of a request, each name once.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used, no user's cache fits, or nobody
            states the price or power of a GPU.
        DoesNotFit: the weights do not fit.
    """
    base = request.base
    lengths = base.lengths(base.context) if base.context else (base.prompt_len, base.new_tokens)
    shared = EstimateRequest(
        model=base.model,
        dtype=base.dtype,
        prompt_len=lengths[0],
        new_tokens=lengths[1],
        gpus=base.gpus,
        stack=base.stack,
        parallelism=base.parallelism,
        economics=base.economics,
    )
    return tuple(_machine(replace(shared, gpu=name)) for name in dict.fromkeys(map(str, request.gpu or ())))


def _machine(request: EstimateRequest) -> GpuMachine:
    prepared = prepare_gpu_estimate(request)
    economics = load_gpu_economics(prepared.server.gpu, request.economics)
    if economics is None:
        message = (
            f"--gpu {request.gpu}: nobody states its price and power; give gpu_usd_per_hour and gpu_power_w in a file "
            "of --economics"
        )
        raise BadInput(message)
    return GpuMachine(prepared=prepared, economics=economics)
