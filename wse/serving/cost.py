"""Joules per token and USD per million tokens, from the power and price of wafers or GPUs, and energy from below.

The power of a wafer is the peak that its vendor states, because its draw while serving is not published. The estimate
from below adds up what PEs and links do. It leaves out what no published figure covers (control, clocks of busy PEs,
the host), so the real energy of a wafer lies between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wse.hardware.number import SourcedNumber, weakest
from wse.serving.economics import ACTIVITY_KEYS, Economics

ENERGY_UNIT: Final = "J/token"
PRICE_UNIT: Final = "USD/million tokens"
SECONDS_PER_HOUR: Final = 3600
MILLION: Final = 1e6
BITS_PER_BYTE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Counts of what all PEs and links do for one token; ``pe_s`` is their number times the seconds of the token."""

    macs_fp16: float = 0
    macs_fp16_fp32: float = 0  # fp16 × fp16 into fp32
    macs_fp32: float = 0
    sram_read_bytes: float = 0
    sram_written_bytes: float = 0
    wavelet_hops: float = 0
    ramp_wavelets: float = 0  # crossings between router and compute element
    vector_operations: float = 0
    pe_s: float = 0


def joules_per_token(machines: int, power_w: float, tokens_per_s: float) -> float:
    """Return machines × power / tokens per second of all users together.

    >>> round(joules_per_token(1, 23_000, 1_800), 1)
    12.8
    """
    return machines * power_w / tokens_per_s


def usd_per_million_tokens(machines: int, usd_per_hour: float, tokens_per_s: float) -> float:
    """Return machines × USD per hour / (3,600 × tokens per second of all users together) × 10⁶.

    >>> round(usd_per_million_tokens(1, 41.96, 1_800), 2)
    6.48
    """
    return machines * usd_per_hour / (SECONDS_PER_HOUR * tokens_per_s) * MILLION


def system_energy(machines: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """Return `joules_per_token` on wafers or GPUs, at the assumed power and at both ends of its range."""
    number = economics.power_w
    low, value, high = (joules_per_token(machines, power, tokens_per_s) for power in number.low_value_high)
    return _from(f"{economics.kind}_power_w", number, ENERGY_UNIT, value, (low, high))


def system_cost(machines: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """Return `usd_per_million_tokens` on wafers or GPUs, at the assumed price and at both ends of its range."""
    number = economics.usd_per_hour
    low, value, high = (usd_per_million_tokens(machines, price, tokens_per_s) for price in number.low_value_high)
    return _from(f"{economics.kind}_usd_per_hour", number, PRICE_UNIT, value, (low, high))


def _from(key: str, number: SourcedNumber, unit: str, value: float, ends: tuple[float, float]) -> SourcedNumber:
    """Return a value that is proportional to a number, with the number's grade and source."""
    return SourcedNumber(value=value, unit=unit, grade=number.grade, source=_source(key, number), range=ends)


def _source(key: str, number: SourcedNumber) -> str:
    return f"{key} {number.value:g} {number.unit}: {number.source}"


def activity_joules(activity: Activity, energies: Mapping[str, float]) -> dict[str, float]:
    """Return joules at the wall of the activity of one token, by use: arithmetic, SRAM, fabric, issue, idle.

    Each count is multiplied by the energy of one, and by ``wall_ratio``.

    Args:
        activity: Counts for one token.
        energies: Values of `ACTIVITY_KEYS`.
    """
    at_pes = {
        "arithmetic": activity.macs_fp16 * energies["mac_fp16_joules"]
        + activity.macs_fp16_fp32 * energies["mac_fp16_fp32_joules"]
        + activity.macs_fp32 * energies["mac_fp32_joules"],
        "sram": BITS_PER_BYTE
        * (
            activity.sram_read_bytes * energies["sram_read_joules_per_bit"]
            + activity.sram_written_bytes * energies["sram_write_joules_per_bit"]
        ),
        "fabric": activity.wavelet_hops * energies["hop_joules_per_wavelet"]
        + activity.ramp_wavelets * energies["ramp_joules_per_wavelet"],
        "issue": activity.vector_operations * energies["issue_joules"],
        "idle": activity.pe_s * energies["idle_w_per_pe"],
    }
    return {use: joules * energies["wall_ratio"] for use, joules in at_pes.items()}


def activity_energies(economics: Economics) -> dict[str, float]:
    """Return the values of `ACTIVITY_KEYS` of a wafer."""
    return {key: economics.sources[key].value for key in ACTIVITY_KEYS}


def activity_energy(activity: Activity, economics: Economics) -> SourcedNumber:
    """Return the sum of `activity_joules` of a wafer: an estimate from below.

    The range has all energies at the low end of theirs, and all at the high end.
    """
    numbers = {key: economics.sources[key] for key in ACTIVITY_KEYS}
    low, value, high = (
        sum(activity_joules(activity, dict(zip(numbers, values, strict=True))).values())
        for values in zip(*(number.low_value_high for number in numbers.values()), strict=True)
    )
    return SourcedNumber(
        value=value,
        unit=ENERGY_UNIT,
        grade=weakest(number.grade for number in numbers.values()),
        source="; ".join(_source(key, number) for key, number in numbers.items()),
        range=(low, high),
    )


def power_and_cost(wafers: int, tokens_per_s: float, economics: Economics) -> dict[str, float]:
    """Return power at the wall, joules per token and USD per million tokens, at the assumptions and at their ends."""
    cost = system_cost(wafers, tokens_per_s, economics)
    return {
        "power_w": wafers * economics.power_w.value,
        "joules_per_token": system_energy(wafers, tokens_per_s, economics).value,
        "usd_per_million_tokens": cost.value,
        "usd_per_million_tokens_low": cost.low,
        "usd_per_million_tokens_high": cost.high,
    }
