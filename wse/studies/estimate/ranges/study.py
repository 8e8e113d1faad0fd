"""Ranges of an estimate: intervals of its headline figures, and what contributes to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse.arrays import F64
from wse.program.program import Program
from wse.reports.intervals import CONFIDENCE
from wse.serving.deployment.wafers import WaferDeployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.ranges.constants import SAMPLES, uncertain_constants
from wse.studies.estimate.ranges.model_error import model_error
from wse.studies.estimate.ranges.result import ContributionResult, UncertaintyResult
from wse.studies.estimate.ranges.retiming import TIMES, Retiming
from wse.studies.estimate.ranges.sampled_figures import (
    DECODE_ERROR,
    PREFILL_ERROR,
    Uncertainty,
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
    figures_by_name = dict(_figures_by_name(uncertainty, deployment, point))
    keys = ["ttft_s"] if point.tpot_s is None else ["ttft_s", "tpot_s"]
    variances_by_name = {
        name: {key: float(np.log(figures[key][2:]).var()) for key in keys} for name, figures in figures_by_name.items()
    }
    totals = {key: sum(variances[key] for variances in variances_by_name.values()) or 1.0 for key in keys}
    numbers = {constant.name: constant.number for constant in uncertainty.surface.constants}
    rows = []
    for name, figures in figures_by_name.items():
        times = {}
        for key in keys:
            times[f"{key}_at_low"], times[f"{key}_at_high"] = figures[key][:2].tolist()
            times[f"{key.removesuffix('_s')}_variance_share"] = variances_by_name[name][key] / totals[key]
        number = numbers.get(name)
        reason = None if number is None else number.range_source or number.source
        rows.append(ContributionResult.from_parts(number, name=name, reason=reason, **times))
    rows.sort(key=_variance_share, reverse=True)
    return UncertaintyResult(ttft_s=point.ttft_s, tpot_s=point.tpot_s, contributions=tuple(rows))


def _variance_share(row: ContributionResult) -> float:
    """Return a constant's contribution to the variance of the time per output token.

    If no token is decoded, the time to first token is used instead.
    """
    return row.ttft_variance_share if row.tpot_variance_share is None else row.tpot_variance_share


def _figures_by_name(
    uncertainty: Uncertainty, deployment: WaferDeployment, point: OperatingPointResult
) -> Iterator[tuple[str, dict[str, F64]]]:
    """Yield latencies and speeds for which only one constant or one model error varies.

    Each uncertain constant and each model error is varied once.

    Args:
        uncertainty: The constants and model errors.
        deployment: The deployment with the stated constants.
        point: The operating point: its users and replicas.

    Yields:
        1. Name of the constant or model error.
        2. float64 ``[2 + samples]``, keyed by field of an operating point: values at the low and at
           the high end of the range, followed by values for random samples.
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
        times = np.concatenate([ends, sampled_times(uncertainty, samples, only_name=name)])
        yield name, speeds_of(times, deployment, point.users, point.replicas)
