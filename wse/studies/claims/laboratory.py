"""Laboratory: the computations that claims are decided on, each executed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from wse.errors import DoesNotFit
from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.progress import ignore
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.economics import load_gpu_economics
from wse.serving.goal import THROUGHPUT
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import weight_format
from wse.serving.operating_point import RequestShape
from wse.serving.plan import saturating_users
from wse.studies.claims.serving import Serving, serving_of
from wse.studies.compare.grid.combination import with_link
from wse.studies.compare.grid.streaming import weights_of
from wse.studies.compare.request import WaferLink
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.result import DraftPlanResult
from wse.studies.estimate.gpus.study import estimate_on_gpus
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate_of, timed_estimate
from wse.studies.options.option import make_request

FILL: Final = 0.85
"""Share of SRAM from which the search for the most layers begins."""


class LayersThatFit(NamedTuple):
    """Layers that wafers store, and the parameters of a model of as many."""

    layers: int
    parameters: int


@dataclass(slots=True)
class Laboratory:
    """Estimates by what was requested.

    Attributes:
        on_work: Called with what begins, before each computation that takes long.
    """

    on_work: Callable[[str], None] = ignore
    _layers: dict[tuple[str, int, str], LayersThatFit] = field(default_factory=dict)
    _estimates: dict[tuple[object, ...], EstimateResult | None] = field(default_factory=dict)

    def estimate(self, model: str, link: WaferLink | None = None, **options: Any) -> EstimateResult:
        """Return the estimate of a model with options of ``wse estimate``, and another link between wafers.

        Raises:
            DoesNotFit: the wafers that were requested do not hold it.
        """
        result = self.fitting(model, link, **options)
        if result is None:
            message = f"{model} {options} does not fit"
            raise DoesNotFit(message)
        return result

    def fitting(self, model: str, link: WaferLink | None = None, **options: Any) -> EstimateResult | None:
        """Return the same; None where the wafers that were requested do not hold it."""
        key = (model, link, *sorted(options.items()))
        if key not in self._estimates:
            self.on_work(" ".join([model, *(f"{name} {value}" for name, value in options.items())]))
            self._estimates[key] = _estimate(make_request(EstimateRequest, model=model, **options), link)
        return self._estimates[key]

    def server(self, model: str, gpu: str, gpus: int, stack: str, dtype: str) -> GpuServer:
        """Return a bundled model on GPUs."""
        spec, machine = read_config(CONFIGURATIONS[model]), load_gpu(gpu)
        return GpuServer(
            spec=spec,
            weights=weight_format(spec, dtype),
            gpu=machine,
            stack=load_stack(stack, machine.generation),
            parallelism=Parallelism(gpus=gpus),
        )

    def gpus(
        self, model: str, gpu: str, gpus: int, stack: str, dtype: str, prompt: int = 1_024, new: int = 1_024
    ) -> GpuDeployment:
        """Return a bundled model that is served on GPUs, for requests of some lengths."""
        server = self.server(model, gpu, gpus, stack, dtype)
        shape = RequestShape(prompt_tokens=prompt, new_tokens=new)
        return GpuDeployment(server=server, shape=shape, economics=load_gpu_economics(server.gpu))

    def gpu(
        self, model: str, gpu: str, gpus: int, stack: str, dtype: str, users: int, prompt: int = 1_024, new: int = 1_024
    ) -> Serving:
        """Return a number of users of a bundled model on GPUs."""
        return serving_of(self.gpus(model, gpu, gpus, stack, dtype, prompt, new), users)

    def gpus_for_all(self, model: str, gpu: str, gpus: int, stack: str, dtype: str, prompt: int, new: int) -> Serving:
        """Return the users that saturate a bundled model on GPUs."""
        deployment = self.gpus(model, gpu, gpus, stack, dtype, prompt, new)
        return serving_of(deployment, saturating_users(deployment))

    def drafts(
        self, model: str, gpu: str, gpus: int, stack: str, dtype: str, users: int, acceptance: str
    ) -> DraftPlanResult:
        """Return the drafts of ``wse estimate --gpu`` that gain most for a number of users of a bundled model."""
        request = make_request(
            EstimateRequest, model=model, gpu=gpu, gpus=gpus, stack=stack, dtype=dtype, batch=users, draft=acceptance
        )
        drafts = estimate_on_gpus(request).drafts
        assert drafts is not None  # the request asks for drafts
        return drafts

    def wafers_for_all(self, model: str, context: int, new: int) -> Serving:
        """Return the users that make the cheapest tokens on wafers: the fewest that hold the model, or twice as many.

        The layout is that with the most throughput.
        """
        request = make_request(
            EstimateRequest, model=model, prompt_len=context - new, new_tokens=new, objective=THROUGHPUT
        )
        fewest = prepare_estimate(request).options.wafers
        found = []
        for wafers in (fewest, 2 * fewest):
            self.on_work(f"{model} for all users on {wafers} wafers")
            layout = choose_layout(prepare_estimate(replace(request, wafers=wafers)))
            deployment = timed_estimate(layout.prepared, layout.compilation.program).deployment
            if deployment.max_concurrency:
                found.append(serving_of(deployment, saturating_users(deployment)))
        return min(found, key=lambda serving: serving.usd_per_million_tokens)

    def layers_that_fit(self, model: str, wafers: int, dtype: str) -> LayersThatFit:
        """Return the most layers of a bundled model's shape that so many wafers store.

        More layers are taken to need more SRAM. The search begins at what fills SRAM to `FILL` and doubles its steps
        until one number of layers fits and another does not; then it halves the interval.
        """
        key = (model, wafers, dtype)
        if key not in self._layers:
            self._layers[key] = self._find_layers(model, wafers, dtype)
        return self._layers[key]

    def _find_layers(self, model: str, wafers: int, dtype: str) -> LayersThatFit:
        config = json.loads(CONFIGURATIONS[model].read_text(encoding="utf-8"))
        parameters: dict[int, int] = {0: 0}

        def fits(layers: int) -> bool:
            with TemporaryDirectory() as folder:
                path = Path(folder, "config.json")
                path.write_text(json.dumps({**config, "num_hidden_layers": layers}), encoding="utf-8")
                self.on_work(f"{layers} layers of {model} as {dtype} on {wafers}")
                request = make_request(EstimateRequest, model=str(path), wafers=wafers, dtype=dtype, mapping="auto")
                try:
                    prepared = prepare_estimate(request)
                    compile_fastest(prepared)
                except DoesNotFit:
                    return False
                parameters[layers] = _parameters(prepared)
                return True

        low, high, step = 0, None, 1
        layers = max(wafers, _layers_by_bytes(model, wafers, dtype))
        while high is None or high - low > 1:
            if fits(layers):
                low = layers
            else:
                high = layers
            if high is None:
                layers, step = low + step, 2 * step
            elif low == 0:
                layers, step = max(wafers, high - step), 2 * step
                if high == wafers:
                    break
            else:
                layers = (low + high) // 2
        return LayersThatFit(low, parameters[low])


def with_type(model: str, dtype: str | None = None) -> str:
    """Return a bundled model with the type of its weights: ``dtype``, by default that of its published weights."""
    return f"{model} as {dtype or read_config(CONFIGURATIONS[model]).weight_type}"


def wafer_link(bytes_per_s: float, latency_s: float) -> WaferLink:
    """Return a link between wafers."""
    return WaferLink(bytes_per_s, latency_s)


def own_link() -> WaferLink:
    """Return the link between wafers of the default preset."""
    wafer = load_wafer(DEFAULT_WAFER)
    return WaferLink(wafer.wafer_link_bytes_per_s, wafer.wafer_link_latency_s)


def _parameters(prepared: PreparedEstimate) -> int:
    """Parameters of the model that was requested."""
    return parameter_count(prepared.spec)


def _layers_by_bytes(model: str, wafers: int, dtype: str) -> int:
    """Layers whose weights fill `FILL` of the SRAM, embedding and head left out."""
    spec, wafer = read_config(CONFIGURATIONS[model]), load_wafer(DEFAULT_WAFER)
    room = FILL * wafers * wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe
    weights = weights_of(spec, dtype, "bfloat16")
    return int(room / ((weights.always_bytes + weights.expert_bytes) / spec.layer_count))


def _estimate(request: EstimateRequest, link: WaferLink | None) -> EstimateResult | None:
    prepared: PreparedEstimate = with_link(prepare_estimate(request), link)
    try:
        layout = choose_layout(prepared, compile_fastest)
        return estimate_of(layout.prepared, layout.compilation.program)
    except DoesNotFit:
        return None
