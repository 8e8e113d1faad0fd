"""Bundled models on GPUs, and operating points as claims compare them: users, speeds, cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from wse.arrays import F64
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.gpus.server import GpuServer
from wse.serving.operating_point import Deployment, operating_point
from wse.studies.claims.certainty import Cases
from wse.studies.estimate.gpus.prepare import prepare_gpus
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

GPUS: Final = 8
STACK: Final = "trtllm"
DTYPE: Final = "fp8"
"""Element type of the weights on GPUs, as in most published measurements of the same models."""


def gpu_request(model: str, gpu: str, **options: Any) -> EstimateRequest:
    """Return the request for an estimate of a bundled model on `GPUS` GPUs.

    Args:
        model: Name of a bundled model. Its weights have the type `DTYPE`.
        gpu: Name of a bundled GPU. The software that serves the model is `STACK`.
        options: Further options of ``wse estimate``, with underscores instead of hyphens.
    """
    return make_request(EstimateRequest, model=model, gpu=gpu, gpus=GPUS, stack=STACK, dtype=DTYPE, **options)


@cache
def gpu_deployment(
    model: str, gpu: str, prompt: int = 1_024, new: int = 1_024, price: str | None = None
) -> GpuDeployment:
    """Return the deployment of a bundled model on GPUs, from which speed and cost are computed.

    Args:
        model: Name of a bundled model.
        gpu: Name of a bundled GPU.
        prompt: Number of tokens per prompt.
        new: Number of generated tokens per request.
        price: Price of the GPU, in the format of ``--price``; None for the bundled price.
    """
    return prepare_gpus(gpu_request(model, gpu, prompt_len=prompt, new_tokens=new, price=price)).deployment


def gpu_server(model: str, gpu: str) -> GpuServer:
    """Return the timing model for a bundled model on GPUs, with the arguments of `gpu_request`."""
    return gpu_deployment(model, gpu).server


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving:
    """The speed and cost of serving a given number of users on GPUs or wafers.

    Attributes:
        machines: Number of GPUs or wafers.
        users: Number of users in flight.
        rate_of_user: Output tokens per second for each user, after the first token.
        tokens_per_s: Output tokens per second for all users, while prompts are also being
            processed.
        usd_per_million_tokens: Cost per million output tokens at the machine's central price.
        usd_per_million_tokens_ends: Cost at the low and high ends of the price range.
        sampled_usd_per_million_tokens: float64 ``[samples]``, cost per million output tokens for
            samples of the uncertain constants; None if the cost is not sampled.
    """

    machines: int
    users: int
    rate_of_user: float
    tokens_per_s: float
    usd_per_million_tokens: float
    usd_per_million_tokens_ends: tuple[float, float]
    sampled_usd_per_million_tokens: F64 | None = None

    @property
    def usd_cases(self) -> Cases:
        """Cost per million output tokens for the stated constants, followed by one cost per sample.

        There are no samples if the cost was not sampled.
        """
        sampled = self.sampled_usd_per_million_tokens
        return np.append(self.usd_per_million_tokens, () if sampled is None else sampled)

    def cost_ratio(self, reference: Serving) -> float:
        """Return the cost per token, divided by the cost per token of ``reference``.

        The prices of both machines must be equal, because only the machine time per token is
        compared.
        """
        return (self.machines / self.tokens_per_s) / (reference.machines / reference.tokens_per_s)


def serving_of(deployment: Deployment, users: int, sampled_usd: F64 | None = None) -> Serving:
    """Return the speed and cost per token when a deployment serves ``users`` users.

    Args:
        deployment: A model on wafers or GPUs with a known price.
        users: Number of concurrent users.
        sampled_usd: float64 ``[samples]``, cost per million output tokens for samples of the
            uncertain constants; None if the cost is not sampled.
    """
    point = operating_point(deployment, users)
    cost = point.usd_per_million_tokens
    assert cost is not None  # bundled machines have prices
    return Serving(
        machines=deployment.chips,
        users=users,
        rate_of_user=point.tokens_per_s_per_user or 0.0,
        tokens_per_s=point.tokens_per_s,
        usd_per_million_tokens=cost.value,
        usd_per_million_tokens_ends=(cost.low, cost.high),
        sampled_usd_per_million_tokens=sampled_usd,
    )
