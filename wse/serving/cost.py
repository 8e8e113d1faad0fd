"""Joules of a token and dollars of a million: from the power and the price of whole systems, and from below.

The power of systems is what a user pays for, with the peak that vendors state in place of the draw while serving, which
nobody has published. From below joules are those of what PEs and links do, which leaves out what no published figure
covers (control, clocks of busy PEs, the host): real energy lies between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.hardware.number import SourcedNumber
from wse.serving.economics import Economics, spread

ENERGY_UNIT: Final = "J/token"
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


def joules_per_token(wafers: int, wafer_power_w: float, tokens_per_s: float) -> float:
    """wafers × power / tokens a second of all users together.

    >>> round(joules_per_token(1, 23_000, 1_800), 1)
    12.8
    """
    return wafers * wafer_power_w / tokens_per_s


def system_energy(wafers: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """`joules_per_token` at the assumed power of a wafer's system, with its range, grade and source."""
    return spread(
        lambda changed: joules_per_token(wafers, changed.wafer_power_w, tokens_per_s),
        economics,
        ("wafer_power_w",),
        ENERGY_UNIT,
    )


def activity_joules(activity: Activity, economics: Economics) -> dict[str, float]:
    """Joules at the wall of one token's activity by use: arithmetic, SRAM, fabric, issue, idle.

    Each count times the energy of one, times ``wall_ratio``.
    """
    at_pes = {
        "arithmetic": activity.macs_fp16 * economics.mac_fp16_joules
        + activity.macs_fp16_fp32 * economics.mac_fp16_fp32_joules
        + activity.macs_fp32 * economics.mac_fp32_joules,
        "sram": BITS_PER_BYTE
        * (
            activity.sram_read_bytes * economics.sram_read_joules_per_bit
            + activity.sram_written_bytes * economics.sram_write_joules_per_bit
        ),
        "fabric": activity.wavelet_hops * economics.hop_joules_per_wavelet
        + activity.ramp_wavelets * economics.ramp_joules_per_wavelet,
        "issue": activity.vector_operations * economics.issue_joules,
        "idle": activity.pe_s * economics.idle_w_per_pe,
    }
    return {use: joules * economics.wall_ratio for use, joules in at_pes.items()}


def activity_energy(activity: Activity, economics: Economics) -> SourcedNumber:
    """The sum of `activity_joules`, with its range, grade and sources: an estimate from below."""
    used = (
        *("mac_fp16_joules", "mac_fp16_fp32_joules", "mac_fp32_joules"),
        *("sram_read_joules_per_bit", "sram_write_joules_per_bit"),
        *("hop_joules_per_wavelet", "ramp_joules_per_wavelet", "issue_joules", "idle_w_per_pe", "wall_ratio"),
    )
    return spread(lambda changed: sum(activity_joules(activity, changed).values()), economics, used, ENERGY_UNIT)


PRICE_UNIT: Final = "USD/million tokens"
SECONDS_PER_HOUR: Final = 3600
MILLION: Final = 1e6


def usd_per_million_tokens(wafers: int, wafer_usd_per_hour: float, tokens_per_s: float) -> float:
    """wafers × dollars an hour / (3,600 × tokens a second of all users together) × 10⁶.

    >>> round(usd_per_million_tokens(1, 41.96, 1_800), 2)
    6.48
    """
    return wafers * wafer_usd_per_hour / (SECONDS_PER_HOUR * tokens_per_s) * MILLION


def system_cost(wafers: int, tokens_per_s: float, economics: Economics) -> SourcedNumber:
    """`usd_per_million_tokens` at the assumed price of a wafer's hour, with its range, grade and source."""
    return spread(
        lambda changed: usd_per_million_tokens(wafers, changed.wafer_usd_per_hour, tokens_per_s),
        economics,
        ("wafer_usd_per_hour",),
        PRICE_UNIT,
    )


def power_and_cost(wafers: int, tokens_per_s: float, of_one_stream: float, economics: Economics) -> dict[str, float]:
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
