"""Machine: a group of wafers or GPUs that serves a model, with its description for tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from wse.arrays import F64
from wse.errors import BadInput, DoesNotFit
from wse.reports.terminal import printable
from wse.serving.operating_point import Deployment, OperatingPoint, RequestShape, operating_point
from wse.serving.plan import saturating_users
from wse.serving.prices import prices_of_gpu
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, prepare_gpus
from wse.studies.estimate.ranges.sampled_figures import gpu_time_ratios
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options

Kind = Literal["wafer", "gpu"]
WAFER: Final[Kind] = "wafer"
GPU: Final[Kind] = "gpu"


@dataclass(frozen=True, kw_only=True, eq=False)
class Machine:
    """A group of wafers or GPUs that serves a model, as compared in tables and plots.

    Attributes:
        kind: ``wafer`` or ``gpu``.
        name: Name of the wafer or GPU.
        software: Name of the mapping on wafers, or of the serving stack on GPUs.
        dtype: Element type of the weights.
        link: Description of the inter-wafer link; empty if only one link is compared.
        deployment: The model as deployed on these chips, from which speed and cost are computed.
        time_ratios: float64, samples of the times, divided by those with the stated constants:
            ``[samples, 4]`` on wafers (`retiming.TIMES`), and ``[samples]`` on GPUs.
    """

    kind: Kind
    name: str
    software: str
    dtype: str
    link: str = ""
    deployment: Deployment
    time_ratios: F64 = field(repr=False)
    _points: dict[int, OperatingPoint] = field(default_factory=dict, repr=False)

    @cached_property
    def useful_users(self) -> int:
        """Maximum useful number of users.

        Above this number, the throughput does not rise or the KV caches do not fit.
        """
        return saturating_users(self.deployment)

    def point(self, users: int) -> OperatingPoint:
        """Return the (cached) speed, cost and energy with ``users`` concurrent users."""
        if users not in self._points:
            self._points[users] = operating_point(self.deployment, users)
        return self._points[users]

    @property
    def text(self) -> str:
        """Description such as "8 h100 (vllm)" or "4 wse3 (bands)".

        It consists of the number and name of the chips, and of the mapping (on wafers) or the
        serving stack (on GPUs). The inter-wafer link is appended if several links are compared.
        """
        text = f"{self.deployment.chips:,} {printable(self.name)} ({printable(self.software)})"
        return f"{text}, {self.link}" if self.link else text


def gpu_machine(prepared_estimate: PreparedGpuEstimate) -> Machine:
    """Create a machine from the GPUs of a request.

    Raises:
        BadInput: The price or power of the GPU is unknown.
    """
    server = prepared_estimate.server
    if prepared_estimate.economics is None:
        raise BadInput(
            f"--gpu {prepared_estimate.gpu}: its price and power are not known; give --price {server.gpu.name}=USD and "
            "gpu_power_w in a file of --economics"
        )
    return Machine(
        kind=GPU,
        name=server.gpu.name,
        software=server.stack.name,
        dtype=server.weights.name,
        deployment=prepared_estimate.deployment,
        time_ratios=gpu_time_ratios(server),
    )


def no_room(shape: RequestShape, option: str = "--wafers") -> str:
    """Return the error message for a machine that cannot hold the KV cache of even one request.

    Args:
        shape: Prompt-token and new-token counts of the request.
        option: Option that adds chips to the machine, suggested as a remedy.
    """
    lengths = "a shorter --prompt-len and --new-tokens"
    return f"the KV cache of one sequence of {shape.tokens:,} tokens does not fit; give {lengths}, or more {option}"


def does_not_fit(reasons_by_machine: Mapping[str, str]) -> DoesNotFit:
    """Build the error for a model that cannot be served on any of the machines that were tried.

    The message mentions only the first machine and its reason.

    Args:
        reasons_by_machine: Why each machine cannot be used, keyed by its description.
    """
    name, reason = next(iter(reasons_by_machine.items()))
    return DoesNotFit(f"{name}: {reason}")


def prepared_gpus(request: CompareRequest) -> tuple[dict[Machine, PreparedGpuEstimate], dict[str, str]]:
    """Prepare an estimate for each GPU type and count in a comparison.

    If no number of GPUs is requested, N, 2 N, 4 N ... GPUs are tried, up to the number of
    interconnected GPUs. N is the number that ``wse estimate`` selects (`GpuServer.fewest_gpus`).

    Returns:
        1. All machines that can hold at least one user, with their prepared estimates.
        2. For all other machines, the reason why the machine cannot be used, keyed by description.

    Raises:
        BadInput: A name or file in the request cannot be used, or a GPU's price or power is
            unknown.
    """
    serving: dict[Machine, PreparedGpuEstimate] = {}
    reasons = {}
    for gpu_request in _gpu_requests(request):
        try:
            smallest_machine = prepare_gpus(gpu_request)
        except DoesNotFit as error:
            reasons[str(gpu_request.gpu)] = str(error)
            continue
        for prepared_estimate in _in_increasing_numbers(smallest_machine, gpu_request.gpu_serving.gpus):
            machine = gpu_machine(prepared_estimate)
            if machine.deployment.max_concurrency:
                serving[machine] = prepared_estimate
            else:
                reasons[machine.text] = no_room(machine.deployment.shape, "--gpus")
    return serving, reasons


def _in_increasing_numbers(
    smallest_machine: PreparedGpuEstimate, requested_count: int | None
) -> Iterator[PreparedGpuEstimate]:
    """Yield estimates of a model on N, 2 N, 4 N ... GPUs, where N is the smallest number of GPUs.

    The number is doubled until all interconnected GPUs are used, or until it is not suitable
    (`GpuServer.suitable_gpus`).

    Args:
        smallest_machine: The model on the smallest number of GPUs.
        requested_count: Requested number of GPUs, which ``smallest_machine`` has. Only this
            estimate is then yielded. None if no number was requested.
    """
    yield smallest_machine
    if requested_count is not None:
        return
    server = smallest_machine.server
    gpus, suitable_counts = 2 * server.parallelism.gpus, server.suitable_gpus()
    while gpus in suitable_counts:
        yield replace(smallest_machine, server=replace(server, parallelism=replace(server.parallelism, gpus=gpus)))
        gpus *= 2


def _gpu_requests(request: CompareRequest) -> Iterator[EstimateRequest]:
    """Yield one estimate request for each GPU type in a comparison."""
    base = request.base
    lengths = (
        base.workload.lengths(base.context) if base.context else (base.workload.prompt_len, base.workload.new_tokens)
    )
    common_request = make_request(
        EstimateRequest,
        model=base.model,
        dtype=base.types.dtype,
        prompt_len=lengths[0],
        new_tokens=lengths[1],
        prefix_tokens=base.workload.prefix_tokens,
        think_time=base.think_s or None,
        users=base.serving.users if base.think_s else None,
        gpus=base.gpu_serving.gpus,
        stack=base.gpu_serving.stack,
        parallelism=base.gpu_serving.parallelism,
        routing=base.serving.routing,
        economics=base.costs.economics,
    )
    for name in dict.fromkeys(map(str, request.gpu or ())):
        yield replace_options(common_request, gpu=name, price=prices_of_gpu(base.costs.price, name))
