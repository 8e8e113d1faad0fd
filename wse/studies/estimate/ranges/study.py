"""Ranges of an estimate: intervals of its headline figures, and what contributes to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from wse.program.program import Program
from wse.reports.intervals import CONFIDENCE, RangeResult
from wse.serving.deployment.wafers import WaferDeployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.ranges.constants import SAMPLES, SEED, uncertain_constants
from wse.studies.estimate.ranges.model_error import model_error
from wse.studies.estimate.ranges.result import ContributionResult, UncertaintyResult
from wse.studies.estimate.ranges.retiming import TIMES, Retiming
from wse.studies.estimate.ranges.sampled_figures import (
    DECODE_ERROR,
    PREFILL_ERROR,
    Uncertainty,
    intervals_of,
    sampled_figures,
    sampled_times,
    speeds_of,
)
from wse.studies.estimate.ranges.surface import response_surface
from wse.studies.results.operating_points import OperatingPointResult


def uncertainty_of(prepared_estimate: PreparedEstimate, program: Program) -> Uncertainty:
    """Return the constants and model errors that make the times of an estimate uncertain.

    The Program is timed with each constant at the ends of its range.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
    """
    machine = prepared_estimate.request.machine
    constants = uncertain_constants(machine, prepared_estimate.wafer.generation)
    retiming = Retiming(prepared_estimate, program)
    # The links of a comparison replace numbers of the wafer without a trace in the request.
    constants = tuple(c for c in constants if retiming.costs.value(c.name) == c.number.value)
    return Uncertainty(
        surface=response_surface(retiming, constants, on_several_wafers=program.wafers > 1),
        decode_error=model_error("decode", str(machine.software)),
        prefill_error=model_error("prefill", str(machine.software)),
    )


def ranges_of(
    uncertainty: Uncertainty, deployment: WaferDeployment, point: OperatingPointResult
) -> dict[str, RangeResult]:
    """Return the 90 % intervals of the headline figures of an operating point.

    Args:
        uncertainty: The constants and model errors that make the times uncertain.
        deployment: The deployment with the stated constants.
        point: The operating point: its users, replicas and figures with the stated constants.

    Returns:
        Intervals, keyed by field of the operating point.
    """
    return intervals_of(point, sampled_figures(uncertainty, deployment, point.users, point.replicas))


def contributions_of(
    uncertainty: Uncertainty, deployment: WaferDeployment, point: OperatingPointResult
) -> UncertaintyResult:
    """Return how much each constant and model error contributes to the ranges of TTFT and TPOT.

    TTFT is the time to first token, and TPOT is the time per output token. If only one constant or
    model error varies, the logarithm of the time has a certain variance. The contribution is this
    variance, divided by the sum of the variances for all constants and model errors.

    Args:
        uncertainty: The constants and model errors that make the times uncertain.
        deployment: The deployment with the stated constants.
        point: The operating point: its users and replicas.
    """
    effects = list(_single_effects(uncertainty, deployment, point))
    ttft_total, tpot_total = (sum(effect.variances[column] for effect in effects) or 1.0 for column in (0, 1))
    with_tokens = point.tpot_s is not None
    numbers = {constant.name: constant.number for constant in uncertainty.surface.constants}
    rows = []
    for effect in effects:
        row = ContributionResult(
            name=effect.name,
            ttft_s_at_low=effect.at_low[0],
            ttft_s_at_high=effect.at_high[0],
            ttft_variance_share=effect.variances[0] / ttft_total,
            tpot_s_at_low=effect.at_low[1] if with_tokens else None,
            tpot_s_at_high=effect.at_high[1] if with_tokens else None,
            tpot_variance_share=effect.variances[1] / tpot_total if with_tokens else None,
        )
        number = numbers.get(effect.name)
        if number is not None:
            row = replace(
                row,
                value=number.value,
                low=number.low,
                high=number.high,
                unit=number.unit,
                grade=number.grade,
                reason=number.range_source or number.source,
            )
        rows.append(row)
    rows.sort(key=_variance_share, reverse=True)
    return UncertaintyResult(ttft_s=point.ttft_s, tpot_s=point.tpot_s, contributions=tuple(rows))


def _variance_share(row: ContributionResult) -> float:
    """Return a constant's contribution to the variance of the time per output token.

    If no token is decoded, the time to first token is used instead.
    """
    return row.ttft_variance_share if row.tpot_variance_share is None else row.tpot_variance_share


@dataclass(frozen=True, slots=True, kw_only=True)
class _SingleEffect:
    """Effect on the times of a request if only one constant or model error varies.

    TTFT is the time to first token. TPOT, the time per output token, is 0 if no token is decoded.

    Attributes:
        name: Name of the constant or model error.
        at_low, at_high: (TTFT, TPOT) in seconds at the low and at the high end of the range.
        variances: (TTFT, TPOT) variances of the logarithms of the times.
    """

    name: str
    at_low: tuple[float, float]
    at_high: tuple[float, float]
    variances: tuple[float, float]


def _single_effects(
    uncertainty: Uncertainty, deployment: WaferDeployment, point: OperatingPointResult
) -> Iterator[_SingleEffect]:
    """Yield the effects on the times if only one constant or one model error varies.

    Each uncertain constant and each model error is varied once.

    Args:
        uncertainty: The constants and model errors.
        deployment: The deployment with the stated constants.
        point: The operating point: its users and replicas.
    """
    surface, samples = uncertainty.surface, SAMPLES // 4
    tails = np.array([0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    values = np.array([constant.number.value for constant in surface.constants])
    ends_by_name = {DECODE_ERROR: np.ones((2, len(TIMES))), PREFILL_ERROR: np.ones((2, len(TIMES)))}
    ends_by_name[DECODE_ERROR][:, :2] = np.exp(uncertainty.decode_error.at(tails))[:, None]
    ends_by_name[PREFILL_ERROR][:, 2:] = np.exp(uncertainty.prefill_error.at(tails))[:, None]
    for column, constant in enumerate(surface.constants):
        ends = np.stack([values, values])
        ends[:, column] = constant.number.low, constant.number.high
        ends_by_name[constant.name] = surface.ratios(ends)
    for name, ends in ends_by_name.items():
        times = np.concatenate([ends, sampled_times(uncertainty, samples, SEED, only_name=name)])
        speeds = speeds_of(times, deployment, point.users, point.replicas)
        figures = [speeds["ttft_s"], speeds.get("tpot_s", np.zeros(0))]
        ttft_low, tpot_low, ttft_high, tpot_high = (
            float(figure[end]) if len(figure) else 0.0 for end in (0, 1) for figure in figures
        )
        variances = [float(np.log(figure[2:]).var()) if len(figure) else 0.0 for figure in figures]
        yield _SingleEffect(
            name=name,
            at_low=(ttft_low, tpot_low),
            at_high=(ttft_high, tpot_high),
            variances=(variances[0], variances[1]),
        )
