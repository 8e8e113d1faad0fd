"""Energy and cost per token, from the power and price of machines, and energy from activity.

The power of a wafer is the maximum that its vendor states, because its consumption while serving
has not been published. The bottom-up estimate adds up the energy of operations on PEs and links. It
omits everything without a published figure (control, clocks of busy PEs, the host). A wafer's real
energy is therefore between the two.
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
    """Operation counts of all PEs and links for one generated token.

    A PE is a core with its own memory and router.

    Attributes:
        macs_fp16, macs_fp16_fp32, macs_fp32: Numbers of multiply-adds in fp16, of fp16 products
            accumulated in fp32, and in fp32.
        sram_read_bytes, sram_written_bytes: Bytes read from and written to SRAM.
        wavelet_hops: Sum, over all 32-bit words, of the number of links that each word crosses.
        ramp_wavelets: Words that cross the ramp between a router and its PE.
        vector_operations: Number of vector operations issued.
        pe_s: PE-seconds per output token: number of all PEs, divided by the tokens per second.
    """

    macs_fp16: float = 0
    macs_fp16_fp32: float = 0
    macs_fp32: float = 0
    sram_read_bytes: float = 0
    sram_written_bytes: float = 0
    wavelet_hops: float = 0
    ramp_wavelets: float = 0
    vector_operations: float = 0
    pe_s: float = 0


def joules_per_token(machines: int, power_w: float, tokens_per_s: float) -> float:
    """Return the energy per token in joules: machines × power / tokens per second.

    Args:
        machines: Number of machines.
        power_w: Power of a machine in W.
        tokens_per_s: Output tokens per second, summed over all users.

    >>> round(joules_per_token(1, 23_000, 1_800), 1)
    12.8
    """
    return machines * power_w / tokens_per_s


def usd_per_million_tokens(machines: int, usd_per_hour: float, tokens_per_s: float) -> float:
    """Return the cost per million tokens: machines × price / (3,600 × tokens per second) × 10⁶.

    Args:
        machines: Number of machines.
        usd_per_hour: Price of a machine in USD per hour.
        tokens_per_s: Output tokens per second, summed over all users.

    >>> round(usd_per_million_tokens(1, 41.96, 1_800), 2)
    6.48
    """
    return machines * usd_per_hour / (SECONDS_PER_HOUR * tokens_per_s) * MILLION


def system_energy(machines: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """Return the energy per token of several machines, with a range based on their power.

    The evidence grade and the source of the energy are those of the power.

    Args:
        machines: Number of wafers or GPUs.
        tokens_per_s: Output tokens per second, summed over all users.
        economics: Power and price of one machine.
    """
    number = economics.power_w
    low, value, high = (joules_per_token(machines, power, tokens_per_s) for power in number.low_value_high)
    source = _source(f"{economics.kind}_power_w", number)
    return SourcedNumber(value=value, unit=ENERGY_UNIT, grade=number.grade, source=source, range=(low, high))


def system_cost(machines: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """Return the cost per million tokens of several machines, with a range based on the price.

    The evidence grade and the source of the cost are those of the price.

    Args:
        machines: Number of wafers or GPUs.
        tokens_per_s: Output tokens per second, summed over all users.
        economics: Power and price of one machine.
    """
    number = economics.usd_per_hour
    low, value, high = (usd_per_million_tokens(machines, price, tokens_per_s) for price in number.low_value_high)
    source = _source(f"{economics.kind}_usd_per_hour", number)
    return SourcedNumber(value=value, unit=PRICE_UNIT, grade=number.grade, source=source, range=(low, high))


def _source(key: str, number: SourcedNumber) -> str:
    """Return a description of a number's origin: its name, value, unit and source."""
    return f"{key} {number.value:g} {number.unit}: {number.source}"


def activity_joules(activity: Activity, energies: Mapping[str, float]) -> dict[str, float]:
    """Return the energy per token in joules, broken down by use.

    The uses are ``arithmetic``, ``sram``, ``fabric``, ``issue`` and ``idle``. Each count is
    multiplied by the energy per operation. The sums are multiplied by ``wall_ratio``, the ratio of
    the power at the wall socket to the power at the PEs.

    Args:
        activity: Operation counts for one token.
        energies: Value of each key in `ACTIVITY_KEYS`.
    """
    joules_at_pes = {
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
    return {use: joules * energies["wall_ratio"] for use, joules in joules_at_pes.items()}


def activity_energies(economics: Economics) -> dict[str, float]:
    """Return the assumed energy per operation, keyed by `ACTIVITY_KEYS`."""
    return {key: economics.sources[key].value for key in ACTIVITY_KEYS}


def activity_energy(activity: Activity, economics: Economics) -> SourcedNumber:
    """Return a wafer's energy per token, summed over its operations.

    The result ranges from all energies per operation at their minimum to all at their maximum.

    Args:
        activity: Operation counts for one token.
        economics: Energies per operation of the wafer.
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
    """Return the power, energy per token, and cost per million tokens of several wafers.

    Args:
        wafers: Number of wafers.
        tokens_per_s: Output tokens per second, summed over all users.
        economics: Power and price of one wafer.

    Returns:
        ``power_w``, ``joules_per_token`` and ``usd_per_million_tokens``; the cost also with the
        suffixes ``_low`` and ``_high`` for the ends of the price range.
    """
    cost = system_cost(wafers, tokens_per_s, economics)
    return {
        "power_w": wafers * economics.power_w.value,
        "joules_per_token": system_energy(wafers, tokens_per_s, economics).value,
        "usd_per_million_tokens": cost.value,
        "usd_per_million_tokens_low": cost.low,
        "usd_per_million_tokens_high": cost.high,
    }
