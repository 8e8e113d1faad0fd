"""Ranges of the figures of a serving simulation on wafers.

The simulation runs once, with the stated constants. Each sample scales its figures by the ratio of
two operating points at the mean number of requests in flight: with the sampled and with the stated
constants. If the arrival rate depends on the speed of the machine (a constant number of users, or a
load relative to the capacity), this is nearly exact, because all times of the simulation scale
together. If the rate is given, the throughput is that of the arrivals, and a machine that is slower
than stated also has longer queues, which the ratio does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wse.arrays import F64
from wse.reports.intervals import RangeResult, range_of
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import operating_point
from wse.studies.estimate.ranges.sampled_figures import POWER, PRICE, sampled_times, speeds_of
from wse.studies.estimate.ranges.samples import SAMPLES, probabilities_of, values_at
from wse.studies.estimate.ranges.study import SEED
from wse.studies.serve.machines.machine import ServingMachine
from wse.studies.serve.result import ServedResult


def ranges_of_service(
    served_result: ServedResult, decode: ServingMachine, *, in_flight: float, rate_is_given: bool
) -> Mapping[str, RangeResult] | None:
    """Return the 90 % intervals of the main figures of a simulated service.

    Args:
        served_result: Figures of the simulation.
        decode: One replica.
        in_flight: Mean number of requests in flight on a replica.
        rate_is_given: Whether requests arrive at a given rate that the service can sustain.
            Throughput then does not depend on the machine's speed.

    Returns:
        Intervals, keyed by path in the result, such as ``served.tokens_per_s``. None for GPUs, and
        for wafers whose times have no known uncertainty.
    """
    deployment, uncertainty = decode.deployment, decode.uncertainty
    if uncertainty is None or not isinstance(deployment, WaferDeployment) or not deployment.max_concurrency:
        return None
    users = min(max(1, round(in_flight)), deployment.max_concurrency)
    speeds = speeds_of(sampled_times(uncertainty, SAMPLES, SEED), deployment, users, 1)
    point = operating_point(deployment, users)
    ttft, throughput = speeds["ttft_s"] / point.ttft_s, speeds["tokens_per_s"] / point.tokens_per_s
    if rate_is_given:
        throughput = np.ones(SAMPLES)
    waits = served_result.all
    figures = {"served.tokens_per_s": (served_result.tokens_per_s, throughput)}
    for name in ("mean", "p50", "p99"):
        figures[f"served.all.ttft.{name}"] = getattr(waits.ttft, name), ttft
        if waits.tpot is not None and point.tpot_s is not None:
            figures[f"served.all.tpot.{name}"] = getattr(waits.tpot, name), speeds["tpot_s"] / point.tpot_s
    for path, amount, machine_amount, name in (
        ("served.usd_per_million_tokens", served_result.usd_per_million_tokens, decode.usd_per_hour, PRICE),
        ("served.joules_per_token", served_result.joules_per_token, decode.power_w, POWER),
    ):
        if amount is not None and machine_amount is not None:
            sampled = values_at(machine_amount, probabilities_of(name, SAMPLES, SEED)) / machine_amount.value
            figures[path] = amount.value, sampled / throughput
    return {path: _scaled(value, ratios) for path, (value, ratios) in figures.items()}


def _scaled(value: float, ratios: F64) -> RangeResult:
    """Return the 90 % interval of a figure that is multiplied by an uncertain ratio.

    Args:
        value: The figure.
        ratios: Samples of the ratio.
    """
    return range_of(value, value * ratios)
