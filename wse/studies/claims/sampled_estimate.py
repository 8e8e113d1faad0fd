"""Estimates whose times are also computed for random samples of the uncertain constants."""

from __future__ import annotations

from dataclasses import dataclass

from wse.arrays import F64
from wse.studies.compare.grid.combination import with_link
from wse.studies.compare.request import WaferLink
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.ranges.constants import SAMPLES
from wse.studies.estimate.ranges.sampled_figures import DECODE_ERROR, Uncertainty, sampled_times
from wse.studies.estimate.ranges.study import uncertainty_of
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledEstimate:
    """Estimated speed of a model on wafers, and how it varies among samples of the constants.

    Attributes:
        result: The estimate with the stated constants.
        time_ratios: float64 ``[samples, 4]``, the four durations listed in `TIMES`, such as the
            time per token. Each is divided by its value with the stated constants.
        uncertain_names: Names of the constants and model errors on which the times depend.
    """

    result: EstimateResult
    time_ratios: F64
    uncertain_names: frozenset[str]


def sampled_estimate(request: EstimateRequest, link: WaferLink | None) -> SampledEstimate:
    """Estimate the speed of a model, and how it varies with the uncertain constants.

    The times are computed for random samples of the constants within their ranges.

    Args:
        request: The model and the wafers.
        link: Inter-wafer link to use instead of the wafer's own; None to keep the wafer's own link.

    Raises:
        DoesNotFit: The model does not fit on the requested wafers.
    """
    estimate: PreparedEstimate = with_link(prepare_estimate(request), link)
    layout = choose_layout(estimate, compile_fastest)
    uncertainty = uncertainty_of(layout.prepared, layout.compilation.program)
    return SampledEstimate(
        result=estimate_of(layout.prepared, layout.compilation.program),
        time_ratios=sampled_times(uncertainty, SAMPLES),
        uncertain_names=names_of_uncertain_numbers(uncertainty),
    )


def names_of_uncertain_numbers(uncertainty: Uncertainty) -> frozenset[str]:
    """Return the names of the constants and of the model error that the time per token depends on."""
    return frozenset({*(constant.name for constant in uncertainty.surface.constants), DECODE_ERROR})
