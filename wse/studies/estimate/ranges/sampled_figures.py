"""Headline figures of a deployment on wafers or GPUs, for samples of all uncertain inputs.

The constants of serving stacks have no ranges: they are fitted on measurements, so the model error
contains what is uncertain about them. The model error multiplies all times of a deployment by the
same ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.reports.intervals import RangeResult, range_of
from wse.reports.result import Result
from wse.serving.cost import joules_per_token, usd_per_million_tokens
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.economics import Economics
from wse.serving.gpus.server import GpuServer
from wse.serving.operating_point import operating_point
from wse.studies.estimate.ranges.constants import SAMPLES, probabilities_of, values_at
from wse.studies.estimate.ranges.model_error import ModelError, model_error
from wse.studies.estimate.ranges.retiming import TIMES, scaled_deployment
from wse.studies.estimate.ranges.surface import ResponseSurface
from wse.studies.results.operating_points import OperatingPointResult

DECODE_ERROR, PREFILL_ERROR = "model error of decode", "model error of prefill"
PRICE, POWER = "economics.wafer_usd_per_hour", "economics.wafer_power_w"
COST: Final = "usd_per_million_tokens"
_SPEEDS: Final = ("ttft_s", "tpot_s", "tokens_per_s_per_user", "tokens_per_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uncertainty:
    """What makes the times of a deployment uncertain: constants with ranges, and model errors.

    Attributes:
        surface: Effect of the uncertain constants on the times.
        decode_error: Distribution of the timing model's error for decode passes.
        prefill_error: Distribution of the timing model's error for processing prompts.
    """

    surface: ResponseSurface
    decode_error: ModelError
    prefill_error: ModelError


def sampled_times(uncertainty: Uncertainty, samples: int, only_name: str = "") -> F64:
    """Return the times of a deployment for random samples of constants and model errors.

    Args:
        uncertainty: The uncertain constants and model errors.
        samples: Number of samples.
        only_name: Name of the only constant or model error that varies. Empty if all of them vary.

    Returns:
        float64 ``[samples, 4]``, one column for each duration in `retiming.TIMES`, such as the
        time per token. Each is divided by the duration with the stated constants.
    """

    def probabilities(name: str) -> F64:
        """Return the cumulative probabilities at which an uncertain number is sampled.

        If the number is not to vary, they are all 0.5. A constant then has its stated value, and a
        model error is 0.

        Args:
            name: Name of the constant or model error.
        """
        return probabilities_of(name, samples) if only_name in ("", name) else np.full(samples, 0.5)

    constants = uncertainty.surface.constants
    values = np.zeros((samples, len(constants)))
    for column, constant in enumerate(constants):
        values[:, column] = values_at(constant.number, probabilities(constant.name))
    decode = uncertainty.decode_error.at(probabilities(DECODE_ERROR))
    prefill = uncertainty.prefill_error.at(probabilities(PREFILL_ERROR))
    return np.asarray(uncertainty.surface.ratios(values) * np.exp(np.stack([decode, decode, prefill, prefill], axis=1)))


def speeds_of(times: F64, deployment: WaferDeployment, users: int, replicas: int) -> dict[str, F64]:
    """Return latencies and speeds of an operating point for each sample of the times.

    Args:
        times: float64 ``[samples, 4]``, result of `sampled_times`: durations relative to those with
            the stated constants.
        deployment: The deployment with the stated constants.
        users: Users of all replicas.
        replicas: Number of identical deployments.

    Returns:
        Arrays ``[samples]`` of seconds and tokens per second, keyed by field of an operating point.
        The time per output token is left out if each request generates a single token.
    """
    assert times.shape[1] == len(TIMES)
    unpriced = replace(deployment, economics=None)
    points = [operating_point(scaled_deployment(unpriced, ratios), users, replicas) for ratios in times]
    return {
        name: np.array([getattr(point, name) for point in points])
        for name in _SPEEDS
        if getattr(points[0], name) is not None
    }


def sampled_figures(
    uncertainty: Uncertainty, deployment: WaferDeployment, users: int, replicas: int
) -> Mapping[str, F64]:
    """Return the main figures of an operating point for samples of all uncertain numbers.

    The figures are latencies, speeds, cost and energy. The uncertain numbers are constants, model
    errors, power and price.

    Args:
        uncertainty: The constants and model errors that make the times uncertain.
        deployment: The deployment with the stated constants, including its power and price.
        users: Users of all replicas.
        replicas: Number of identical deployments.

    Returns:
        float64 ``[SAMPLES]`` for each figure, keyed by field of an operating point. Cost and energy
        are left out if price and power are unknown.
    """
    speeds = speeds_of(sampled_times(uncertainty, SAMPLES), deployment, users, replicas)
    return speeds | cost_and_energy(
        speeds["tokens_per_s"], replicas * deployment.chips, deployment.economics, names=(PRICE, POWER)
    )


def cost_and_energy(
    tokens_per_s: F64, chips: int, economics: Economics | None, *, names: tuple[str, str]
) -> dict[str, F64]:
    """Return the cost and energy of a token for random samples of throughput, price and power.

    Args:
        tokens_per_s: float64 ``[SAMPLES]``, output tokens per second of all machines.
        chips: Number of wafers or GPUs.
        economics: Price and power of one wafer or GPU; None if they are unknown.
        names: Names of the price and of the power. Calls with the same names draw the same samples.

    Returns:
        float64 ``[SAMPLES]`` in USD per million tokens and in J, keyed by field of an operating
        point. Empty if price and power are unknown.
    """
    if economics is None:
        return {}
    figures = {}
    for key, number, name, figure_of in (
        (COST, economics.usd_per_hour, names[0], usd_per_million_tokens),
        ("joules_per_token", economics.power_w, names[1], joules_per_token),
    ):
        values = values_at(number, probabilities_of(name, SAMPLES)).tolist()
        figures[key] = np.array(
            [figure_of(chips, value, rate) for value, rate in zip(values, tokens_per_s.tolist(), strict=True)]
        )
    return figures


def intervals_of(point: Result, figures: Mapping[str, F64]) -> dict[str, RangeResult]:
    """Return the 90 % interval of each sampled figure that an operating point has.

    Args:
        point: The operating point or another result, which states the figures.
        figures: float64 ``[samples]`` for each figure, keyed by field of the operating point.

    Returns:
        Intervals, keyed by field of the operating point.
    """
    return {
        name: range_of(getattr(point, name), sampled)
        for name, sampled in figures.items()
        if getattr(point, name) is not None
    }


GPU_ERROR: Final = "model error of GPUs"


def gpu_price_and_power(gpu: str) -> tuple[str, str]:
    """Return the names under which the price and the power of a type of GPU are sampled.

    Random samples of a number depend only on its name. All estimates for this type of GPU therefore
    use the same samples of its price and power.
    """
    return f"economics.gpu_usd_per_hour.{gpu}", f"economics.gpu_power_w.{gpu}"


def gpu_time_ratios(server: GpuServer, name: str = GPU_ERROR) -> F64:
    """Return random samples of the actual time on GPUs, divided by the predicted time.

    Samples depend on ``name``. By default, all estimates use the same name, so errors that two GPU
    estimates have in common cancel in a comparison.

    Args:
        server: Model, GPUs and serving stack.
        name: Name of the model error.

    Returns:
        float64 ``[SAMPLES]``.
    """
    error = model_error("gpu_dense" if server.spec.experts is None else "gpu_experts", server.stack.name)
    return np.exp(error.at(probabilities_of(name, SAMPLES)))


def sampled_gpu_figures(deployment: GpuDeployment, point: OperatingPointResult) -> Mapping[str, F64]:
    """Return random samples of the latencies, speeds, cost and energy of a model on GPUs.

    A sample multiplies all times of the machine by r, but not the pauses of users. The result is that
    of the predicted machine with pauses divided by r, with all times then multiplied by r.

    Args:
        deployment: The model on the GPUs of one replica.
        point: The operating point, which states these figures and the numbers of users and replicas.

    Returns:
        float64 ``[SAMPLES]`` for each figure that the operating point has, keyed by field.
    """
    time_ratios = gpu_time_ratios(deployment.server)
    points = [
        operating_point(deployment, point.users, point.replicas, deployment.shape.think_s / ratio)
        for ratio in (time_ratios.tolist() if deployment.shape.think_s else [1.0])
    ]
    figures = {
        "ttft_s": np.array([sample.ttft_s for sample in points]) * time_ratios,
        "tokens_per_s": np.array([sample.tokens_per_s for sample in points]) / time_ratios,
    }
    if point.tpot_s is not None:
        figures["tpot_s"] = np.array([sample.tpot_s for sample in points]) * time_ratios
        figures["tokens_per_s_per_user"] = 1 / figures["tpot_s"]
    return figures | cost_and_energy(
        figures["tokens_per_s"],
        point.replicas * deployment.chips,
        deployment.economics,
        names=gpu_price_and_power(deployment.server.gpu.name),
    )
