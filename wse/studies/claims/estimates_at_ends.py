"""Estimates with all uncertain constants at the ends of their ranges.

A claim that rests on counts, such as words between wafers, is decided for these estimates. The
fast timing of samples interpolates times, and cannot yield counts.
"""

from __future__ import annotations

from dataclasses import replace

from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.ranges.constants import Costs, uncertain_constants
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate_of
from wse.studies.options.option import make_request


def estimates_at_ends(model: str) -> tuple[EstimateResult, EstimateResult, EstimateResult]:
    """Estimate a model with the stated constants and at both ends of their ranges.

    The layout is that of the stated constants.

    Args:
        model: Name of a bundled model.

    Returns:
        Estimates with the stated constants, with all uncertain constants at the low ends of their
        ranges, and with all of them at the high ends.
    """
    prepared_estimate = prepare_estimate(make_request(EstimateRequest, model=model))
    layout = choose_layout(prepared_estimate, compile_fastest)
    stated_costs = Costs(wafer=layout.prepared.wafer, software=layout.prepared.software)
    low_costs = high_costs = stated_costs
    for constant in uncertain_constants(prepared_estimate.request.machine, prepared_estimate.wafer.generation):
        low_costs = low_costs.with_constant(constant.name, constant.number.low)
        high_costs = high_costs.with_constant(constant.name, constant.number.high)
    stated_estimate, low_estimate, high_estimate = (
        estimate_of(replace(layout.prepared, wafer=costs.wafer, software=costs.software), layout.compilation.program)
        for costs in (stated_costs, low_costs, high_costs)
    )
    return stated_estimate, low_estimate, high_estimate
