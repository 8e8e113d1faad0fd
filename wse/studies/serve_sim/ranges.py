"""Ranges of the figures of a serving simulation.

The simulation runs once, with the stated constants. Each sample scales its figures by the ratio of
two operating points at the mean number of requests in flight: with the sampled and with the stated
constants. If the arrival rate depends on the speed of the machine (a constant number of users, or a
load relative to the capacity), this is nearly exact, because all times of the simulation scale
together. If the rate is given, the throughput of a sample is that of the arrivals, unless the
machine of the sample is overloaded. Then a queue grows for as long as requests arrive, and the wait
in it is added to TTFT. Queues of samples that are slower than stated, but not overloaded, are not
modelled. On GPUs, a sample multiplies all times by the same ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from wse.arrays import F64
from wse.reports.intervals import RangeResult, range_of
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import operating_point
from wse.studies.estimate.ranges.constants import SAMPLES, SEED, probabilities_of, values_at
from wse.studies.estimate.ranges.sampled_figures import (
    POWER,
    PRICE,
    Uncertainty,
    gpu_price_and_power,
    gpu_time_ratios,
    sampled_times,
    speeds_of,
)
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.result import ServedResult

ARRIVED_SHARES: Final = {"mean": 0.5, "p50": 0.5, "p99": 0.99}
"""Time of arrival of the request with a given statistic of TTFT, as a fraction of the makespan.

A queue is assumed to grow steadily, so later requests wait longer. A request that arrives after t
seconds of overload waits t (1 / throughput - 1) seconds, where the throughput is relative to the
arrivals.
"""


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
    served_result: ServedResult, decode: ServingMachine, *, in_flight: float, given_load: float | None
) -> ServiceRanges | None:
    """Return the 90 % intervals of the main figures of a simulated service.

    Args:
        served_result: Latencies, throughput, cost and energy of the simulation.
        decode: One replica of the machine that generates tokens.
        in_flight: Mean number of requests in flight on a replica.
        given_load: Arrival rate divided by capacity, below 1. None if the arrival rate depends on
            the machine's speed.

    Returns:
        The intervals. None if no request fits, or if the uncertainty of the machine is unknown.
    """
    deployment = decode.deployment
    if isinstance(deployment, GpuDeployment):
        time_ratios = gpu_time_ratios(deployment.server)
        ratios = {"ttft_s": time_ratios, "tpot_s": time_ratios, "tokens_per_s": 1 / time_ratios}
        names = gpu_price_and_power(deployment.server.gpu.name)
    elif isinstance(deployment, WaferDeployment) and decode.uncertainty is not None and deployment.max_concurrency:
        # Requests that arrive at a given rate wait in a queue, which is added below.
        in_machine = in_flight if given_load is None else min(in_flight, deployment.max_concurrency)
        ratios = _wafer_ratios(decode.uncertainty, deployment, in_machine)
        names = PRICE, POWER
    else:
        return None
    throughput, overloaded_share = ratios["tokens_per_s"], None
    queue_growth = np.zeros(SAMPLES)  # seconds of wait per second of arrivals
    if given_load is not None:
        overloaded_share = float(np.mean(throughput < given_load))
        throughput = np.minimum(1.0, throughput / given_load)
        queue_growth = 1 / throughput - 1
    waits = served_result.all
    figures = {"served.tokens_per_s": (served_result.tokens_per_s, served_result.tokens_per_s * throughput)}
    for name, arrived_share in ARRIVED_SHARES.items():
        ttft_s = getattr(waits.ttft, name)
        queue_s = arrived_share * served_result.makespan_s * queue_growth
        figures[f"served.all.ttft.{name}"] = ttft_s, ttft_s * ratios["ttft_s"] + queue_s
        if waits.tpot is not None and "tpot_s" in ratios:
            tpot_s = getattr(waits.tpot, name)
            figures[f"served.all.tpot.{name}"] = tpot_s, tpot_s * ratios["tpot_s"]
    for path, amount, machine_amount, name in (
        ("served.usd_per_million_tokens", served_result.usd_per_million_tokens, decode.usd_per_hour, names[0]),
        ("served.joules_per_token", served_result.joules_per_token, decode.power_w, names[1]),
    ):
        if amount is not None and machine_amount is not None:
            sampled = values_at(machine_amount, probabilities_of(name, SAMPLES, SEED)) / machine_amount.value
            figures[path] = amount.value, amount.value * sampled / throughput
    intervals = {path: range_of(value, samples) for path, (value, samples) in figures.items()}
    return ServiceRanges(intervals=intervals, overloaded_share=overloaded_share)


def _wafer_ratios(uncertainty: Uncertainty, deployment: WaferDeployment, in_flight: float) -> dict[str, F64]:
    """Sample how far latencies and throughput on wafers may deviate from their predictions.

    Each sample draws random values of the uncertain constants and of the timing model's error.

    Args:
        uncertainty: Constants and model errors that make the times uncertain.
        deployment: Deployment on one replica of the machine, with the stated constants.
        in_flight: Mean number of requests in flight on this replica.

    Returns:
        For each quantity, such as ``ttft_s`` or ``tokens_per_s``, the values in all samples divided
        by the predicted value, float64 ``[SAMPLES]``.
    """
    users = max(1, round(in_flight))
    point = operating_point(deployment, users)
    speeds = speeds_of(sampled_times(uncertainty, SAMPLES, SEED), deployment, users, 1)
    return {name: sampled / getattr(point, name) for name, sampled in speeds.items()}
