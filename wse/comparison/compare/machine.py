"""Machine: wafers or GPUs that hold a model together, with the words that tables have for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from wse.errors import BadInput
from wse.report.terminal import printable
from wse.request.compare_request import CompareRequest
from wse.request.estimate_request import EstimateRequest
from wse.request.gpu_estimate_request import PreparedGpuEstimate, prepare_gpu_estimate
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.serving.plan import saturating_users
from wse.serving.prices import prices_of_gpu

Kind = Literal["wafer", "gpu"]
WAFER: Final[Kind] = "wafer"
GPU: Final[Kind] = "gpu"


@dataclass(frozen=True, kw_only=True, eq=False)
class Machine:
    """A deployment with its names.

    Attributes:
        kind: Whether its chips are wafers or GPUs.
        name: Name of the wafer or GPU.
        software: The mapping on wafers, the serving stack on GPUs.
        dtype: Element type of the weights.
        link: The link between wafers in words; empty where only one is compared.
        deployment: What users get on it.
    """

    kind: Kind
    name: str
    software: str
    dtype: str
    link: str = ""
    deployment: Deployment
    _points: dict[int, OperatingPoint] = field(default_factory=dict, repr=False)

    @cached_property
    def useful_users(self) -> int:
        """The users that saturate the machine, or as many as have room; at least one has."""
        return saturating_users(self.deployment)

    def point(self, users: int) -> OperatingPoint:
        """Return the operating point of some users, computed once."""
        if users not in self._points:
            self._points[users] = operating_point(self.deployment, users)
        return self._points[users]

    @property
    def text(self) -> str:
        """The chips, the mapping or stack, and the link where several are compared."""
        text = f"{self.deployment.chips:,} {printable(self.name)}, {printable(self.software)}"
        return f"{text}, {self.link}" if self.link else text


def gpu_machine(prepared: PreparedGpuEstimate) -> Machine:
    """Return the GPUs of a request.

    Raises:
        BadInput: the price or power of the GPU is stated nowhere.
    """
    server = prepared.server
    if prepared.economics is None:
        message = (
            f"--gpu {prepared.gpu}: its price and power are not known; give --price {server.gpu.name}=USD and "
            "gpu_power_w in a file of --economics"
        )
        raise BadInput(message)
    return Machine(
        kind=GPU,
        name=server.gpu.name,
        software=server.stack.name,
        dtype=server.weights.name,
        deployment=prepared.deployment,
    )


def prepared_gpus(request: CompareRequest) -> tuple[PreparedGpuEstimate, ...]:
    """Return the GPUs of a comparison, each name once.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used, or no user's cache fits.
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
    names = dict.fromkeys(map(str, request.gpu or ()))
    return tuple(
        prepare_gpu_estimate(replace(shared, gpu=name, price=prices_of_gpu(base.price, name))) for name in names
    )
