"""Computations shared by the claims. The slow ones are cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.hardware.number import SourcedNumber
from wse.models.configs.config import bundled_spec
from wse.reports.progress import ignore
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.goal import THROUGHPUT
from wse.serving.gpus.server import GpuServer
from wse.serving.operating_point import Deployment, operating_point
from wse.serving.plan import saturating_users
from wse.serving.prices import WAFER, prices_text, prices_under
from wse.studies.claims.certainty import Cases
from wse.studies.claims.layers_that_fit import LayersThatFit, find_layers
from wse.studies.claims.sampled_estimate import SampledEstimate, names_of_uncertain_numbers, sampled_estimate
from wse.studies.claims.serving import Serving, gpu_deployment, gpu_request, serving_of
from wse.studies.compare.request import WaferLink
from wse.studies.estimate.drafts.result import DraftPlanResult
from wse.studies.estimate.gpus.study import estimate_on_gpus
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.ranges.constants import SAMPLES, probabilities_of, values_at
from wse.studies.estimate.ranges.retiming import TIMES
from wse.studies.estimate.ranges.sampled_figures import (
    COST,
    GPU_ERROR,
    PREFILL_ERROR,
    PRICE,
    gpu_price_and_power,
    gpu_time_ratios,
    sampled_figures,
    sampled_gpu_figures,
)
from wse.studies.estimate.ranges.study import uncertainty_of
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import timed_estimate
from wse.studies.options.option import make_request
from wse.studies.results.operating_points import point_result

WAFER_NAMES: Final = frozenset({WAFER, DEFAULT_WAFER})
"""Names under which the wafers of claims can have a price."""


@dataclass(slots=True)
class SharedComputations:
    """Cached computations, such as estimates, that decide claims about inference.

    Several claims need the same computations, and the slow ones are executed only once.

    Attributes:
        on_work: Function that is called with a description before each long computation.
        price: Prices of wafers and GPUs, in the format of ``--price``; None for the bundled prices.
        uncertain_names: Names of the uncertain constants that were used since this set was last
            cleared. These are the constants on which the verdict on the current claim depends.
        priced_names: Names, in the format of ``--price``, of the machines whose prices were used
            since this set was last cleared.
    """

    on_work: Callable[[str], None] = ignore
    price: str | None = None
    uncertain_names: set[str] = field(default_factory=set)
    priced_names: set[str] = field(default_factory=set)
    _layers: dict[tuple[str, int, str], LayersThatFit] = field(default_factory=dict)
    _estimates: dict[tuple[object, ...], SampledEstimate] = field(default_factory=dict)

    def estimate(self, model: str, link: WaferLink | None = None, **options: Any) -> EstimateResult:
        """Return the estimated speed and cost of a model on wafers.

        Args:
            model: Name of a bundled model.
            link: Inter-wafer link; None for the default wafer's link.
            options: Options of ``wse estimate``, with underscores instead of hyphens.

        Raises:
            DoesNotFit: The model does not fit on the requested wafers.
        """
        return self._estimate(model, link, **options).result

    def speeds(self, model: str, link: WaferLink | None = None, **options: Any) -> Cases:
        """Return a single user's tokens/s for the stated constants, then for each random sample.

        In a sample, the uncertain constants of wafers and software, such as the cycles needed to
        dispatch a task, are drawn at random from their ranges.

        The arguments and errors are the same as for `estimate`.
        """
        estimate = self._estimate(model, link, **options)
        assert estimate.result.decode is not None
        return estimate.result.decode.tokens_per_s_per_user / self._time_ratios(estimate, "token_s")

    def speed(self, model: str, **options: Any) -> float:
        """Return the estimated tokens/s of a single user, without samples.

        The arguments and errors are those of `estimate`.
        """
        decode = self.estimate(model, **options).decode
        assert decode is not None
        return decode.tokens_per_s_per_user

    def saturated_speeds(self, model: str, **options: Any) -> Cases:
        """Return the total tokens/s with so many users that the slowest stage is always busy.

        The first value is for the stated constants, and each subsequent value is for one random
        sample of the uncertain constants. The arguments and errors are the same as for `estimate`.
        """
        estimate = self._estimate(model, None, **options)
        assert estimate.result.schedule is not None
        return estimate.result.schedule.tokens_per_s_at_saturation / self._time_ratios(estimate, "stage_s")

    def sampled(self, name: str, sourced_number: SourcedNumber) -> Cases:
        """Return an uncertain number's stated value, followed by random samples within its range.

        Args:
            name: Name of the number. Numbers with the same name have the same samples.
            sourced_number: The number with its range.
        """
        self.uncertain_names.add(name)
        samples = values_at(sourced_number, probabilities_of(name, SAMPLES))
        return np.append(sourced_number.value, samples)

    def _time_ratios(self, estimate: SampledEstimate, name: str) -> Cases:
        """Return a duration for each random sample, divided by its value with the stated constants.

        Args:
            estimate: Estimate of a model, with its times in all samples.
            name: Name of the duration in `TIMES`, such as ``token_s``, the time per token.

        Returns:
            The ratio 1 for the stated constants, followed by the ratio for each sample.
        """
        self.uncertain_names |= estimate.uncertain_names
        return np.append(1.0, estimate.time_ratios[:, TIMES.index(name)])

    def _estimate(self, model: str, link: WaferLink | None, **options: Any) -> SampledEstimate:
        """Return the cached estimate for a model, with its times for samples of the constants.

        The arguments and errors are those of `estimate`.
        """
        key = (model, link, *sorted(options.items()))
        if key not in self._estimates:
            self.on_work(" ".join([model, *(f"{name} {value}" for name, value in options.items())]))
            self._estimates[key] = sampled_estimate(make_request(EstimateRequest, model=model, **options), link)
        return self._estimates[key]

    def gpu(self, model: str, gpu: str, users: int, prompt: int = 1_024, new: int = 1_024) -> Serving:
        """Return the speed and cost per token when GPUs serve ``users`` concurrent users.

        All other arguments are the same as for `gpu_deployment`.
        """
        return serving_of(self._priced_gpus(model, gpu, prompt, new), users)

    def gpus_at_saturation(self, model: str, gpu: str, prompt: int, new: int) -> Serving:
        """Return the speed and cost per token when GPUs serve as many users as is useful.

        More users would not raise the throughput or would not fit. The arguments are the same as
        for `gpu_deployment`. The cost is also computed for random samples of the model error and of
        the price of a GPU.
        """
        deployment = self._priced_gpus(model, gpu, prompt, new)
        users = saturating_users(deployment)
        self.priced_names.add(gpu)
        self.uncertain_names.add(GPU_ERROR)
        self._add_price_name(gpu_price_and_power(gpu)[0], deployment)
        sampled = sampled_gpu_figures(deployment, point_result(operating_point(deployment, users)))
        return serving_of(deployment, users, sampled[COST])

    def _priced_gpus(self, model: str, gpu: str, prompt: int, new: int) -> GpuDeployment:
        """Return a deployment on GPUs with the price in `price`.

        The arguments are those of `gpu_deployment`.
        """
        return gpu_deployment(model, gpu, prompt, new, prices_text(prices_under(self.price, (gpu,))))

    def _add_price_name(self, name: str, deployment: Deployment) -> None:
        """Add the name of a machine's price to `uncertain_names`, unless the price is exact."""
        assert deployment.economics is not None  # bundled machines have prices
        if deployment.economics.usd_per_hour.range is not None:
            self.uncertain_names.add(name)

    def gpu_times(self, server: GpuServer, run: str = "") -> Cases:
        """Return random samples of how much longer a run on GPUs takes than predicted, as a factor.

        The first value is 1, the prediction itself. The factors express the error of the timing
        model.

        Args:
            server: Model and GPUs.
            run: Description of a run, such as ``4 users``, whose error is drawn independently of
                the errors of other runs. If it is empty, the error is the one that all runs have in
                common.
        """
        name = f"{GPU_ERROR} ({run})" if run else GPU_ERROR
        self.uncertain_names.add(name)
        return np.append(1.0, gpu_time_ratios(server, name))

    def drafts(self, model: str, gpu: str, users: int, acceptance: str) -> DraftPlanResult:
        """Find the configuration of speculative decoding with the highest speed for users on GPUs.

        This is the result of ``wse estimate --gpu --draft``.

        Args:
            model: Name of a bundled model.
            gpu: Name of a bundled GPU.
            users: Number of users whose tokens are decoded together.
            acceptance: Model whose measured draft-token acceptance rates are used.
        """
        drafts = estimate_on_gpus(gpu_request(model, gpu, batch=users, draft=acceptance)).drafts
        assert drafts is not None  # the request asks for drafts
        return drafts

    def wafers_at_saturation(self, model: str, context: int, new: int) -> Serving:
        """Return the speed and cost per token when wafers serve as many users as is useful.

        More users would not raise the throughput or would not fit. The layout with the highest
        throughput is used. The function tries the smallest number of wafers on which the model fits
        and twice that number, and returns the result with the cheaper tokens.

        Args:
            model: Name of a bundled model.
            context: Number of tokens per request, including prompt and generated tokens.
            new: Number of generated tokens per request.

        Raises:
            DoesNotFit: The model does not fit on any number of wafers.
            ValueError: No user's KV cache fits on either number of wafers.
        """
        self.priced_names |= WAFER_NAMES
        request = make_request(
            EstimateRequest,
            model=model,
            prompt_len=context - new,
            new_tokens=new,
            objective=THROUGHPUT,
            price=prices_under(self.price, WAFER_NAMES),
        )
        min_wafers = prepare_estimate(request).options.wafers
        servings = []
        for wafers in (min_wafers, 2 * min_wafers):
            self.on_work(f"{model} for all users on {wafers} wafers")
            layout = choose_layout(prepare_estimate(replace(request, wafers=wafers)))
            deployment = timed_estimate(layout.prepared, layout.compilation.program).deployment
            if deployment.max_concurrency:
                users = saturating_users(deployment)
                uncertainty = uncertainty_of(layout.prepared, layout.compilation.program)
                self.uncertain_names |= {*names_of_uncertain_numbers(uncertainty), PREFILL_ERROR}
                self._add_price_name(PRICE, deployment)
                sampled = sampled_figures(uncertainty, deployment, users, 1)
                servings.append(serving_of(deployment, users, sampled[COST]))
        return min(servings, key=lambda serving: serving.usd_per_million_tokens)

    def layers_that_fit(self, model: str, wafers: int, dtype: str) -> LayersThatFit:
        """Return how many layers of a bundled model fit on a number of wafers.

        Layers are added to or removed from the model. All layers have the same shape.

        Args:
            model: Name of the bundled model.
            wafers: Number of wafers.
            dtype: Element type of the weights.
        """
        key = (model, wafers, dtype)
        if key not in self._layers:
            self._layers[key] = find_layers(model, wafers, dtype, self.on_work)
        return self._layers[key]


def with_type(model: str, dtype: str | None = None) -> str:
    """Return a phrase such as "llama-3-8b as bfloat16", with the model and the type of its weights.

    Args:
        model: Name of a bundled model.
        dtype: Element type of the weights; None for the type of the published weights.
    """
    return f"{model} as {dtype or bundled_spec(model).weight_type}"


def context_text(context: int, new: int) -> str:
    """Return a phrase with the tokens of a user's context: those of the prompt and of the output.

    >>> context_text(2_048, 1_024)
    '2,048 tokens of context (1,024 prompt + 1,024 output tokens)'
    """
    return f"{context:,} tokens of context ({context - new:,} prompt + {new:,} output tokens)"


def default_wafer_link() -> WaferLink:
    """Return the inter-wafer link of the default wafer type."""
    wafer = load_wafer(DEFAULT_WAFER)
    return WaferLink(wafer.wafer_link_bytes_per_s, wafer.wafer_link_latency_s)
