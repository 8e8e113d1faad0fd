"""Predictor of inference services on wafers, based on `wse estimate`.

The model and the number of wafers are taken from the measurement. Everything else is set as
follows:

- **Software**: the profile `production` and the mapping `bands`.
- **Schedule**: `baseline` until September 2024, because the services to which `production` was
  fitted were closest to it. From the release of October 2024 on, `optimized`, because the vendor
  credits that release to rewritten kernels, among others.
- **Defaults**: values that a measurement does not state are the defaults of `wse estimate`: the
  minimum number of wafers, a prompt of 1,024 tokens and 1,024 new tokens.
- **Drafts**: a service that uses or may use speculative decoding (`service_terms.with_drafts`) is
  predicted with the bundled acceptance of drafts (`wse.studies.estimate.drafts.drafting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final

from wse.compiler.options import BASELINE, OPTIMIZED, REPORT
from wse.compiler.search.search import Compilation
from wse.errors import BadInput, DoesNotFit
from wse.models.configs.config import bundled_spec
from wse.serving.drafts.speculation import acceptance_of, best_draft
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.draft_machine import head_machine
from wse.studies.estimate.drafts.placement import place_head
from wse.studies.estimate.drafts.verify_passes import verify_passes
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate_of
from wse.studies.options.option import make_request, replace_options
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.terms import (
    LAST_PLAIN_MONTH,
    count,
    earliest_month,
    element_type,
    lengths,
    with_drafts,
)
from wse.studies.validate.predictors.prediction import (
    Declined,
    Prediction,
    decline_words,
    require,
    stated_configuration,
)

PROFILE: Final = "production"
MAPPING: Final = "bands"
METHODS: Final = {BASELINE: "estimate", OPTIMIZED: "estimate, optimized"}
"""Name of the prediction method for each schedule."""

RATES: Final = {
    "output_tok_s_per_user": "decode.tokens_per_s_per_user",
    "system_output_tok_s": "decode.tokens_per_s",
    "system_tok_s": "decode.tokens_per_s",
}
"""Metrics that drafts improve, with their paths in the result of `wse estimate`."""

TIMES: Final = {"ttft_s": "latency.user.ttft_s"}
"""Metrics that drafts do not affect, with their paths in the result of `wse estimate`.

The first token arrives before any draft. Users' measurements include the network and the
connection."""

METRICS: Final = RATES | TIMES


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """An estimate request for the model and conditions of a measured inference service.

    Attributes:
        request: Options of `wse estimate`.
        drafts_of: Name of the model whose draft-token acceptance is used. Empty without speculative
            decoding.
    """

    request: EstimateRequest
    drafts_of: str


def predict(m: Measurement) -> Prediction | None:
    """Predict the tokens per second or the time to first token of a service on wafers.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    service = service_request(m)
    return None if service is None else answer(m, service, estimate_service)


def service_request(m: Measurement) -> ServiceRequest | None:
    """Convert the conditions of a service on wafers to an estimate request.

    Returns:
        The request. None if something else was measured.

    Raises:
        Declined: No request is possible.
    """
    wafer, metric = wafer_of(m), m.text("metric").strip()
    if m.table != "public" or wafer is None or m.text("system").lower().endswith("(waferllm)"):
        return None
    decline_words("declined_services", m)
    if metric not in METRICS:
        raise Declined(
            "a property of a machine or a model, or a count for a number of users that the row does not state"
        )
    name = stated_configuration(m)
    dtype = require(element_type(m, name), "the element type of the weights is not one that wafers use")
    users = m.text("batch_or_concurrency")
    batch = require(count(users or "1"), "the row does not state a single number of users")
    wafers = count(m.text("chips"))
    if m.text("chips").strip() and wafers is None:
        raise Declined("the row does not state a single number of wafers")
    request = _with_lengths(
        m, bundled_spec(name).context_limit, make_request(EstimateRequest, model=name, wafer=wafer.name, wafers=wafers)
    )
    schedule = OPTIMIZED if earliest_month(m, name) > LAST_PLAIN_MONTH else BASELINE
    request = replace_options(request, software=PROFILE, mapping=MAPPING, schedule=schedule, dtype=dtype, batch=batch)
    drafts = batch == 1 and with_drafts(m, name)
    return ServiceRequest(request=request, drafts_of=name if drafts else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEstimate:
    """Estimate results from which the speed or latency of a service is predicted.

    Attributes:
        values: Values of the metrics in `METRICS` without speculative decoding, keyed by metric.
        fits: Whether the model fits in SRAM.
        gain: Factor by which drafts increase tokens per second; 1 without speculative decoding.
        tokens_per_pass: Mean number of tokens that a verification pass yields; 1 without
            speculative decoding.
        bound_ratio: Cycles per token divided by their lower bound; 1 if there is no bound.
    """

    values: Mapping[str, float]
    fits: bool
    gain: float
    tokens_per_pass: float
    bound_ratio: float

    def of(self, metric: str) -> float:
        """Return the estimated value of a metric in `METRICS`, with speculative decoding if it is used."""
        return self.values[metric] * (self.gain if metric in RATES else 1.0)


def answer(
    m: Measurement, service: ServiceRequest, estimate: Callable[[ServiceRequest], ServiceEstimate]
) -> Prediction:
    """Run an estimate for a measured service, and return the predicted speed or latency.

    Args:
        m: The measurement. Its metric selects the value to predict.
        service: The estimate request for the service.
        estimate: Function that runs the estimate.

    Raises:
        Declined: The request is invalid, or the model does not fit.
    """
    try:
        numbers = estimate(service)
    except (BadInput, DoesNotFit) as error:
        raise Declined(f"wse estimate refuses it: {str(error).partition(';')[0]}") from error
    metric = m.text("metric").strip()
    plain = numbers.values[metric]
    schedule = service.request.layout.schedule
    return Prediction(
        value=numbers.of(metric),
        plain=plain if service.drafts_of else None,
        other_schedule=_by_other_schedule(service, metric, estimate),
        free_drafts=plain * numbers.tokens_per_pass if metric in RATES and service.drafts_of else None,
        bound=plain * numbers.tokens_per_pass * numbers.bound_ratio if metric in RATES else None,
        method=METHODS[schedule],
        software=PROFILE,
        sram_fits=numbers.fits,
    )


def _by_other_schedule(
    service: ServiceRequest, metric: str, estimate: Callable[[ServiceRequest], ServiceEstimate]
) -> float | None:
    """Predict a metric with the schedule that a service prediction did not use.

    A schedule is the order of the steps of a layer. This function uses ``baseline`` if
    ``optimized`` was used, and vice versa. The result is None if the model does not fit.

    Args:
        service: The request for the estimate, with the schedule that was used.
        metric: Name of the metric.
        estimate: Function that computes the estimate for a request.
    """
    schedule = BASELINE if service.request.layout.schedule == OPTIMIZED else OPTIMIZED
    try:
        numbers = estimate(replace(service, request=replace_options(service.request, schedule=schedule)))
    except DoesNotFit:
        return None
    return numbers.of(metric)


@cache
def estimate_service(service: ServiceRequest) -> ServiceEstimate:
    """Compute the estimate for a service.

    If KV caches of the service's context length do not fit on the stated number of wafers, smaller
    ones are assumed, for the prompt and the answer only. If the model or its draft head still does
    not fit, the SRAM limit is ignored.
    """
    estimate, compilation = _compile(service.request)
    result = estimate_of(estimate, compilation.program)
    gain = tokens_per_pass = 1.0
    if service.drafts_of and result.decode is not None:
        head = place_head(estimate, capacity=REPORT)
        passes = verify_passes(estimate, compilation, head)
        curve, machine = acceptance_of(service.drafts_of), head_machine(estimate, compilation, head, passes)
        draft_tokens, gain = best_draft(curve, lambda tokens: machine.verify_s(1) / machine.row(curve, tokens).token_s)
        tokens_per_pass = curve.at(draft_tokens)
    values = {metric: float(attrgetter(path)(result)) for metric, path in METRICS.items()}
    return ServiceEstimate(
        values=values,
        fits=result.sram.fits,
        gain=gain,
        tokens_per_pass=tokens_per_pass,
        bound_ratio=(result.bounds and result.bounds.token.ratio) or 1.0,
    )


@lru_cache(maxsize=1)
def _compile(request: EstimateRequest) -> tuple[PreparedEstimate, Compilation]:
    """Compile the model of a request.

    If the model does not fit on the stated wafers, a smaller KV cache is tried. If that does not
    fit either, the SRAM limit is ignored.

    Raises:
        DoesNotFit: The model does not fit, and the request specifies no number of wafers.
    """
    estimate = prepare_estimate(request)
    try:
        return estimate, compile_fastest(estimate)
    except DoesNotFit:
        if request.wafers is None or request.capacity == REPORT:
            raise
        smaller = replace(request, capacity=REPORT) if request.context is None else replace(request, context=None)
        return _compile(smaller)


def _with_lengths(m: Measurement, limit: int, request: EstimateRequest) -> EstimateRequest:
    """Return the request with the stated lengths, limited to the model's context.

    Args:
        m: The measurement, which may state the lengths.
        limit: Context limit of the model in tokens.
        request: The request without lengths.
    """
    prompt, new, context = lengths(m)
    if prompt is not None and new is not None:
        return replace_options(request, prompt_len=prompt, new_tokens=new)
    if context is not None:
        context = max(2, min(context, limit))
    prompt, new = request.workload.lengths(context or limit)
    return replace_options(request, prompt_len=prompt, new_tokens=new, context=context)
