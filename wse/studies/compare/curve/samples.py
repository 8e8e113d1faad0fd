"""Compared machines, with samples of everything uncertain: constants, model errors and prices.

All machines are sampled with the same random numbers. What two machines have in common, such as the
price of a wafer or the model error of GPUs, therefore cancels when they are compared sample by
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.economics import Economics
from wse.serving.operating_point import Deployment, RequestShape
from wse.serving.steady_state import SteadyState
from wse.studies.compare.machine import GPU, Machine
from wse.studies.estimate.ranges.constants import SEED, probabilities_of, values_at
from wse.studies.estimate.ranges.retiming import scaled_deployment
from wse.studies.estimate.ranges.sampled_figures import POWER, PRICE, gpu_price_and_power

SampledMachines = Mapping[Machine, Sequence[Machine]]
"""For each machine with the stated constants, the same machine in each sample."""

_FIGURES: Final = ("ttft_s", "tokens_per_s_per_user", "tokens_per_s")
_AMOUNTS: Final = ("usd_per_million_tokens", "joules_per_token")
"""Amounts of an operating point that have an interval. Each is a number with a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowedDeployment:
    """A deployment derived from another one by multiplying all its times by the same factor.

    It implements `wse.serving.operating_point.Deployment`.

    Attributes:
        deployment: The original deployment.
        stated_state: The method `steady_state` of ``deployment``, wrapped so that results are
            cached.
        time_ratio: Factor by which all times are multiplied.
        economics: Power and price of a chip.
    """

    deployment: Deployment
    stated_state: Callable[[float], SteadyState]
    time_ratio: float
    economics: Economics | None

    @property
    def shape(self) -> RequestShape:
        """Prompt and answer length of the requests."""
        return self.deployment.shape

    @property
    def max_concurrency(self) -> int:
        """Maximum number of requests whose KV caches fit."""
        return self.deployment.max_concurrency

    @property
    def chips(self) -> int:
        """Number of wafers or GPUs."""
        return self.deployment.chips

    def steady_state(self, concurrency: float) -> SteadyState:
        """Return the mean times and the rate of requests, with a constant number in flight.

        Args:
            concurrency: Number of requests in flight, at least 1.
        """
        state = self.stated_state(concurrency)
        return replace(
            state,
            ttft_s=state.ttft_s * self.time_ratio,
            answer_s=state.answer_s * self.time_ratio,
            requests_per_s=state.requests_per_s / self.time_ratio,
        )


def sampled_machines(machine: Machine) -> tuple[Machine, ...]:
    """Return copies of a machine, each with the times, price and power of one random sample.

    Args:
        machine: The machine, which contains samples of its times.
    """
    names = gpu_price_and_power(machine.name) if machine.kind == GPU else (PRICE, POWER)
    economics = _sampled_economics(machine.deployment.economics, names, len(machine.time_ratios))
    stated_state = cache(machine.deployment.steady_state)
    return tuple(
        replace(machine, deployment=_sampled(machine.deployment, stated_state, ratios, sampled_economics), _points={})
        for ratios, sampled_economics in zip(machine.time_ratios, economics, strict=True)
    )


def _sampled(
    deployment: Deployment, stated_state: Callable[[float], SteadyState], ratios: F64, economics: Economics | None
) -> Deployment:
    """Return a copy of a deployment with the times, power and price of one random sample.

    Args:
        deployment: The deployment with the stated constants.
        stated_state: The method `steady_state` of ``deployment``, wrapped so that results are
            cached.
        ratios: Times of the sample divided by the times with the stated constants: float64 ``[4]``
            on wafers (in the order of `retiming.TIMES`), a single number on GPUs.
        economics: Power and price in the sample.
    """
    if isinstance(deployment, WaferDeployment):
        return replace(scaled_deployment(deployment, ratios), economics=economics)
    return SlowedDeployment(
        deployment=deployment, stated_state=stated_state, time_ratio=float(ratios), economics=economics
    )


def _sampled_economics(
    economics: Economics | None, names: tuple[str, str], samples: int
) -> Sequence[Economics] | Sequence[None]:
    """Draw random samples of the price and the power of a chip from their ranges.

    Args:
        economics: Price and power with their ranges; None if they are unknown.
        names: Names of the price and the power. Calls with the same names draw the same samples.
        samples: Number of samples.

    Returns:
        Price and power for each sample; None for each sample if they are unknown.
    """
    if economics is None:
        return (None,) * samples
    keys = f"{economics.kind}_usd_per_hour", f"{economics.kind}_power_w"
    values = [
        values_at(economics.sources[key], probabilities_of(name, samples, SEED)).tolist()
        for key, name in zip(keys, names, strict=True)
    ]
    return [
        replace(
            economics,
            sources={
                **economics.sources,
                **{
                    key: replace(economics.sources[key], value=value, range=None)
                    for key, value in zip(keys, pair, strict=True)
                },
            },
        )
        for pair in zip(*values, strict=True)
    ]


def figures_of(samples: Sequence[Machine], users: int) -> dict[str, F64]:
    """Return speed, latency, cost and energy of a machine for each sample.

    Args:
        samples: The machine in each sample.
        users: Number of concurrent users.

    Returns:
        float64 ``[samples]``, keyed by field of `CurveRow`. Unknown figures are left out.
    """
    points = [machine.point(users) for machine in samples]
    figures = {name: [getattr(point, name) for point in points] for name in _FIGURES}
    for name in _AMOUNTS:
        amounts = [getattr(point, name) for point in points]
        figures[name] = [None if amount is None else amount.value for amount in amounts]
    return {name: np.array(values) for name, values in figures.items() if None not in values}
