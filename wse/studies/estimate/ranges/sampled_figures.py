"""Headline figures of a deployment for samples of all that is uncertain about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.serving.cost import joules_per_token, usd_per_million_tokens
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import operating_point
from wse.studies.estimate.ranges.model_error import ModelError
from wse.studies.estimate.ranges.retiming import TIMES, scaled_deployment
from wse.studies.estimate.ranges.samples import probabilities_of, values_at
from wse.studies.estimate.ranges.surface import ResponseSurface

DECODE_ERROR, PREFILL_ERROR = "model error of decode", "model error of prefill"
PRICE, POWER = "economics.wafer_usd_per_hour", "economics.wafer_power_w"
_SPEEDS: Final = ("ttft_s", "tpot_s", "tokens_per_s_per_user", "tokens_per_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uncertainty:
    """Sources of uncertainty in a deployment's times: constants with ranges, and model errors.

    Attributes:
        surface: Effect of the uncertain constants on the times.
        decode_error: Distribution of the timing model's error for decode passes.
        prefill_error: Distribution of the timing model's error for reading prompts.
    """

    surface: ResponseSurface
    decode_error: ModelError
    prefill_error: ModelError


def sampled_times(uncertainty: Uncertainty, samples: int, seed: int, only_name: str = "") -> F64:
    """Return a deployment's times for samples of the constants, relative to the stated constants.

    Args:
        uncertainty: The uncertain constants and model errors.
        samples: Number of samples.
        seed: Seed of the random numbers.
        only_name: Name of the only constant or model error that varies. Empty if all of them vary.

    Returns:
        float64 ``[samples, 4]``, for each of the four times that `retiming.TIMES` names, the
        sampled time divided by the time with the stated constants.
    """

    def probabilities(name: str) -> F64:
        """Return the sampled probabilities of an uncertain number; all 0.5 if it does not vary."""
        return probabilities_of(name, samples, seed) if only_name in ("", name) else np.full(samples, 0.5)

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
        times: float64 ``[samples, 4]``, relative to the times with the stated constants.
        deployment: The deployment with the stated constants.
        users: Concurrent requests on all replicas.
        replicas: Number of equal deployments.

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
    uncertainty: Uncertainty, deployment: WaferDeployment, users: int, replicas: int, *, samples: int, seed: int
) -> Mapping[str, F64]:
    """Return the main figures of an operating point for samples of all uncertain numbers.

    The figures are latencies, speeds, cost and energy. The uncertain numbers are constants, model
    errors, power and price.

    Args:
        uncertainty: The constants and model errors that make the times uncertain.
        deployment: The deployment with the stated constants, including its power and price.
        users: Concurrent requests on all replicas.
        replicas: Number of equal deployments.
        samples: Number of samples.
        seed: Seed of the random numbers.

    Returns:
        float64 ``[samples]`` for each figure, keyed by field of an operating point. Cost and energy
        are left out if price and power are unknown.
    """
    figures = speeds_of(sampled_times(uncertainty, samples, seed), deployment, users, replicas)
    economics = deployment.economics
    if economics is not None:
        wafers, tokens_per_s = replicas * deployment.chips, figures["tokens_per_s"]
        for key, number, name, figure_of in (
            ("usd_per_million_tokens", economics.usd_per_hour, PRICE, usd_per_million_tokens),
            ("joules_per_token", economics.power_w, POWER, joules_per_token),
        ):
            values = values_at(number, probabilities_of(name, samples, seed))
            figures[key] = np.array(
                [figure_of(wafers, value, rate) for value, rate in zip(values.tolist(), tokens_per_s, strict=True)]
            )
    return figures
