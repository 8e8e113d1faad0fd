"""Machine: wafers or GPUs that hold a model together, with the words that tables have for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from wse.errors import BadInput, DoesNotFit
from wse.reports.terminal import printable
from wse.serving.operating_point import Deployment, OperatingPoint, RequestShape, operating_point
from wse.serving.plan import saturating_users
from wse.serving.prices import prices_of_gpu
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, prepare_gpus
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options

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


def no_room(shape: RequestShape, more: str = "--wafers") -> str:
    """Return why a machine without room for the cache of one request serves nobody; more of an option would help."""
    lengths = "a shorter --prompt-len and --new-tokens"
    return f"the KV cache of one sequence of {shape.tokens:,} tokens does not fit; give {lengths}, or more {more}"


def prepared_gpus(request: CompareRequest) -> tuple[list[PreparedGpuEstimate], dict[str, str]]:
    """Return the GPUs of a comparison in every number that serves a user, and why other numbers of them do not.

    Each GPU comes once, in the number that was requested, or in powers of two from the fewest that hold the weights to
    all that are linked.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    serving, impossible = [], {}
    for of_gpu in _gpu_requests(request):
        try:
            fewest = prepare_gpus(of_gpu)
        except DoesNotFit as error:
            impossible[str(of_gpu.gpu)] = str(error)
            continue
        for prepared in _in_numbers(fewest, of_gpu.gpu_serving.gpus):
            machine = gpu_machine(prepared)
            if machine.deployment.max_concurrency:
                serving.append(prepared)
            else:
                impossible[machine.text] = no_room(machine.deployment.shape, "--gpus")
    return serving, impossible


def _in_numbers(fewest: PreparedGpuEstimate, asked_for: int | None) -> Iterator[PreparedGpuEstimate]:
    """Yield GPUs as they are, and where no number was requested twice, four times ... as many."""
    yield fewest
    server = fewest.server
    gpus = 2 * server.parallelism.gpus
    while asked_for is None and gpus <= server.gpu.linked_gpus and server.spec.head_count % gpus == 0:
        yield replace(fewest, server=replace(server, parallelism=replace(server.parallelism, gpus=gpus)))
        gpus *= 2


def _gpu_requests(request: CompareRequest) -> Iterator[EstimateRequest]:
    """Yield the request for each GPU of a comparison, each name once."""
    base = request.base
    lengths = (
        base.workload.lengths(base.context) if base.context else (base.workload.prompt_len, base.workload.new_tokens)
    )
    shared = make_request(
        EstimateRequest,
        model=base.model,
        dtype=base.types.dtype,
        prompt_len=lengths[0],
        new_tokens=lengths[1],
        gpus=base.gpu_serving.gpus,
        stack=base.gpu_serving.stack,
        parallelism=base.gpu_serving.parallelism,
        economics=base.costs.economics,
    )
    for name in dict.fromkeys(map(str, request.gpu or ())):
        yield replace_options(shared, gpu=name, price=prices_of_gpu(base.costs.price, name))
