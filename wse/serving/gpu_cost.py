"""Joules of a token and dollars of a million on GPUs, from the power and the price of a GPU."""

from __future__ import annotations

from wse.hardware.number import SourcedNumber
from wse.serving.cost import ENERGY_UNIT, PRICE_UNIT, joules_per_token, usd_per_million_tokens
from wse.serving.economics import GpuEconomics, spread


def gpu_energy(gpus: int, tokens_per_s: float, economics: GpuEconomics) -> SourcedNumber:
    """GPUs × power / tokens a second of all users together, with its range, grade and source."""
    return spread(
        lambda changed: joules_per_token(gpus, changed.gpu_power_w, tokens_per_s),
        economics,
        ("gpu_power_w",),
        ENERGY_UNIT,
    )


def gpu_cost(gpus: int, tokens_per_s: float, economics: GpuEconomics) -> SourcedNumber:
    """GPUs × dollars an hour over the million tokens of all users together, with its range, grade and source."""
    return spread(
        lambda changed: usd_per_million_tokens(gpus, changed.gpu_usd_per_hour, tokens_per_s),
        economics,
        ("gpu_usd_per_hour",),
        PRICE_UNIT,
    )
