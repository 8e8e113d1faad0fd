"""Ranges of the figures of a serving simulation.

Each sample of the uncertain constants makes the times of the machine longer or shorter. How this
changes a figure depends on the arrivals:

- If their rate depends on the speed of the machine (a constant number of users, or a load relative
  to the capacity), all times of the simulation except pauses scale together. A figure is multiplied
  by the ratio of two operating points: with the sampled and with the stated constants. Both are for
  the number of users if they pause, and otherwise for the mean number of requests in flight. This
  scaling is nearly exact.
- If their rate is given, consider a sample in which all times are r times as long. Its load is r
  times as high. Its latencies are r times those of the machine with the stated constants at r times
  the arrival rate. This is simulated for the values of r at both ends of their 90 % interval. For
  other samples, figures are interpolated.

On GPUs, a sample multiplies all times except pauses by the same ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import F64
from wse.reports.intervals import RangeResult, range_of
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import operating_point
from wse.studies.estimate.ranges.constants import SAMPLES, probabilities_of, values_at
from wse.studies.estimate.ranges.sampled_figures import (
    POWER,
    PRICE,
    Uncertainty,
    gpu_price_and_power,
    sampled_gpu_figures,
    sampled_times,
    speeds_of,
)
from wse.studies.results.operating_points import point_result
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.result import ServedResult

FIGURES: Final = {"served.tokens_per_s": "tokens_per_s"} | {
    f"served.all.{kind}.{statistic}": f"{kind}_s" for kind in ("ttft", "tpot") for statistic in ("mean", "p50", "p99")
}
"""Path of each simulated figure with an interval, and the name of its quantity in an operating point."""


class ServiceRanges(NamedTuple):
    """Uncertainty of the results of a serving simulation.

    Attributes:
        intervals: 90 % intervals of results, keyed by field path, such as ``served.tokens_per_s``.
        overloaded_share: Fraction of random samples (of uncertain constants and model errors) in
            which requests arrive faster than they can be served. None if the arrival rate depends
            on the machine's speed.
    """

    intervals: Mapping[str, RangeResult]
    overloaded_share: float | None


def ranges_of_service(
    served_result: ServedResult,
    decode: ServingMachine,
    *,
    users: float,
    given_load: float | None,
    served_at: Callable[[float], ServedResult],
) -> ServiceRanges | None:
    """Return the 90 % intervals of the main figures of a simulated service.

    Args:
        served_result: Latencies, throughput, cost and energy of the simulation.
        decode: One replica of the machine that generates tokens.
        users: Mean number of users of a replica if they pause; otherwise, the mean number of requests
            in flight on it.
        given_load: Arrival rate divided by the capacity with the stated constants; None if the rate
            depends on the machine's speed.
        served_at: Function that simulates the machine with the stated constants at a multiple of
            the rate. It is called only if the rate is given.

    Returns:
        The intervals. None if no request fits, or if the uncertainty of the machine is unknown.
    """
    deployment = decode.deployment
    if isinstance(deployment, GpuDeployment):
        point = operating_point(deployment, max(1, round(users)))
        sampled = sampled_gpu_figures(deployment, point_result(point))
        ratios = {name: sampled[name] / getattr(point, name) for name in FIGURES.values() if name in sampled}
        names = gpu_price_and_power(deployment.server.gpu.name)
    elif isinstance(deployment, WaferDeployment) and decode.uncertainty is not None and deployment.max_concurrency:
        # Requests that arrive at a given rate wait outside the machine if it has no room.
        in_machine = users if given_load is None else min(users, deployment.max_concurrency)
        ratios = _wafer_ratios(decode.uncertainty(), deployment, max(1, round(in_machine)))
        names = PRICE, POWER
    else:
        return None
    figures, overloaded_share = _figures(served_result), None
    scaled = {path: np.full(SAMPLES, value) for path, value in figures.items()}
    if given_load is not None:
        rate_multiples = 1 / ratios["tokens_per_s"]
        overloaded_share = float(np.mean(rate_multiples * given_load > 1))
        scaled = _at_rates(rate_multiples, served_result, served_at)
    samples = {path: scaled[path] * ratios[FIGURES[path]] for path in figures if FIGURES[path] in ratios}
    for path, amount, machine_amount, name in (
        ("served.usd_per_million_tokens", served_result.usd_per_million_tokens, decode.usd_per_hour, names[0]),
        ("served.joules_per_token", served_result.joules_per_token, decode.power_w, names[1]),
    ):
        if amount is not None and machine_amount is not None:
            amounts = values_at(machine_amount, probabilities_of(name, SAMPLES)) / machine_amount.value
            figures[path] = amount.value
            samples[path] = amount.value * amounts * served_result.tokens_per_s / samples["served.tokens_per_s"]
    intervals = {path: range_of(figures[path], sampled) for path, sampled in samples.items()}
    return ServiceRanges(intervals=intervals, overloaded_share=overloaded_share)


def _figures(served_result: ServedResult) -> dict[str, float]:
    """Return the simulated figures that have intervals, by path. TPOT is missing if nothing is decoded."""
    return {
        path: attrgetter(path.removeprefix("served."))(served_result)
        for path, quantity in FIGURES.items()
        if quantity != "tpot_s" or served_result.all.tpot is not None
    }


def _at_rates(
    rate_multiples: F64, served_result: ServedResult, served_at: Callable[[float], ServedResult]
) -> dict[str, F64]:
    """Return figures of the machine with the stated constants, at multiples of the simulated rate.

    The service is simulated at both ends of the 90 % interval of the multiples. Between the
    simulated rates, the logarithm of a figure is interpolated. Beyond them, times are assumed to be
    inversely proportional to the rate, and the throughput proportional to it: the figures of
    samples, which are scaled by the multiple, are then those of the end.

    Args:
        rate_multiples: float64 ``[SAMPLES]``, arrival rates relative to the simulated rate.
        served_result: Figures of the simulated service.
        served_at: Function that simulates the service at a multiple of the rate.

    Returns:
        For each path of a figure, its values, float64 ``[SAMPLES]``.
    """
    ends = range_of(1.0, rate_multiples)
    simulated = {1.0: served_result} | {multiple: served_at(multiple) for multiple in {ends.low, ends.high} - {1.0}}
    multiples = sorted(simulated)
    log_multiples, log_rates = np.log(multiples), np.log(rate_multiples)
    figures = {}
    for path, quantity in FIGURES.items():
        if path in _figures(served_result):
            log_column = np.log([_figures(simulated[multiple])[path] for multiple in multiples])
            power = -1 if quantity == "tokens_per_s" else 1  # of the multiple, by which a sample is scaled
            log_scaled = np.interp(log_rates, log_multiples, log_column + power * log_multiples)
            figures[path] = np.exp(log_scaled - power * log_rates)
    return figures


def _wafer_ratios(uncertainty: Uncertainty, deployment: WaferDeployment, users: int) -> dict[str, F64]:
    """Sample how far latencies and throughput on wafers may deviate from their predictions.

    Each sample draws random values of the uncertain constants and of the timing model's error.

    Args:
        uncertainty: Constants and model errors that make the times uncertain.
        deployment: Deployment on one replica of the machine, with the stated constants.
        users: Number of users of this replica.

    Returns:
        For each quantity, such as ``ttft_s`` or ``tokens_per_s``, the values in all samples divided
        by the predicted value, float64 ``[SAMPLES]``.
    """
    point = operating_point(deployment, users)
    speeds = speeds_of(sampled_times(uncertainty, SAMPLES), deployment, users, 1)
    return {name: sampled / getattr(point, name) for name, sampled in speeds.items()}
