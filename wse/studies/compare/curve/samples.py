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
from wse.studies.estimate.ranges.constants import probabilities_of, values_at
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
        shape: Prompt and answer length of the requests.
        max_concurrency: Maximum number of requests whose KV caches fit.
        chips: Number of wafers or GPUs.
        stated_state: The method `steady_state` of the original deployment, wrapped so that results
            are cached.
        time_ratio: Factor by which all times are multiplied.
        economics: Power and price of a chip.
    """

    shape: RequestShape
    max_concurrency: int
    chips: int
    stated_state: Callable[[float, float], SteadyState]
    time_ratio: float
    economics: Economics | None

    def steady_state(self, users: float, think_s: float = 0.0) -> SteadyState:
        """Return the mean times and the rate of requests.

        Args:
            users: Number of users, at least 1. If they do not pause, all have a request in flight,
                and there may be at most `max_concurrency`.
            think_s: Mean pause of a user between two requests in seconds.
        """
        state = self.stated_state(users, think_s / self.time_ratio)
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
    deployment = machine.deployment
    economics = _sampled_economics(deployment.economics, names, len(machine.time_ratios))
    stated_state = cache(deployment.steady_state)
    samples: list[Deployment] = []
    for ratios, sampled_economics in zip(machine.time_ratios, economics, strict=True):
        if isinstance(deployment, WaferDeployment):
            samples.append(replace(scaled_deployment(deployment, ratios), economics=sampled_economics))
        else:
            samples.append(
                SlowedDeployment(
                    shape=deployment.shape,
                    max_concurrency=deployment.max_concurrency,
                    chips=deployment.chips,
                    stated_state=stated_state,
                    time_ratio=float(ratios),
                    economics=sampled_economics,
                )
            )
    return tuple(replace(machine, deployment=sample, _points={}) for sample in samples)


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
        values_at(economics.sources[key], probabilities_of(name, samples)).tolist()
        for key, name in zip(keys, names, strict=True)
    ]
    samples_by_key = (
        {key: replace(economics.sources[key], value=value, range=None) for key, value in zip(keys, pair, strict=True)}
        for pair in zip(*values, strict=True)
    )
    return [replace(economics, sources={**economics.sources, **sampled}) for sampled in samples_by_key]


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
