"""Headline figures of a deployment on GPUs for samples of the model error, the price and the power.

The constants of serving stacks have no ranges: they are fitted on measurements, so the model error
contains what is uncertain about them. The model error multiplies all times of a deployment by the
same ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.gpus.server import GpuServer
from wse.studies.estimate.ranges.model_error import model_error
from wse.studies.estimate.ranges.sampled_figures import cost_and_energy
from wse.studies.estimate.ranges.samples import SAMPLES, SEED, probabilities_of
from wse.studies.results.operating_points import OperatingPointResult

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
    return np.exp(error.at(probabilities_of(name, SAMPLES, SEED)))


def sampled_gpu_figures(deployment: GpuDeployment, point: OperatingPointResult) -> Mapping[str, F64]:
    """Return random samples of the latencies, speeds, cost and energy of a model on GPUs.

    Args:
        deployment: The model on the GPUs of one replica.
        point: The operating point, which states these figures and the number of replicas.

    Returns:
        float64 ``[SAMPLES]`` for each figure that the operating point has, keyed by field.
    """
    time_ratios = gpu_time_ratios(deployment.server)
    figures = {"ttft_s": point.ttft_s * time_ratios, "tokens_per_s": point.tokens_per_s / time_ratios}
    if point.tpot_s is not None:
        figures["tpot_s"] = point.tpot_s * time_ratios
        figures["tokens_per_s_per_user"] = 1 / figures["tpot_s"]
    return figures | cost_and_energy(
        figures["tokens_per_s"],
        point.replicas * deployment.chips,
        deployment.economics,
        names=gpu_price_and_power(deployment.server.gpu.name),
    )
