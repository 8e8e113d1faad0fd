"""Dollars of a million tokens, from what a wafer costs by the hour."""

from __future__ import annotations

from typing import Final

from wse.hardware.number import Source
from wse.serving.economics import Economics, spread
from wse.serving.energy import system_energy

UNIT: Final = "USD/million tokens"
SECONDS_PER_HOUR: Final = 3600
MILLION: Final = 1e6


def usd_per_million_tokens(wafers: int, wafer_usd_per_hour: float, tokens_per_s: float) -> float:
    """wafers × dollars an hour / (3,600 × tokens a second of all users together) × 10⁶.

    >>> round(usd_per_million_tokens(1, 41.96, 1_800), 2)
    6.48
    """
    return wafers * wafer_usd_per_hour / (SECONDS_PER_HOUR * tokens_per_s) * MILLION


def system_cost(wafers: int, tokens_per_s: float, economics: Economics) -> Source:
    """`usd_per_million_tokens` at the assumed price of a wafer's hour, with its range, grade and source."""
    return spread(
        lambda changed: usd_per_million_tokens(wafers, changed.wafer_usd_per_hour, tokens_per_s),
        economics,
        ("wafer_usd_per_hour",),
        UNIT,
    )


def money(wafers: int, tokens_per_s: float, of_one_stream: float, economics: Economics) -> dict[str, float]:
    """Power at the wall, and joules and dollars of tokens, at the assumptions and at the ends of their range."""
    cost = system_cost(wafers, tokens_per_s, economics)
    low, high = cost.range or (cost.value, cost.value)
    return {
        "power_w": wafers * economics.wafer_power_w,
        "joules_per_token": system_energy(wafers, tokens_per_s, economics).value,
        "usd_per_million_tokens": cost.value,
        "usd_per_million_tokens_low": low,
        "usd_per_million_tokens_high": high,
        "usd_per_million_tokens_of_one_stream": system_cost(wafers, of_one_stream, economics).value,
    }
