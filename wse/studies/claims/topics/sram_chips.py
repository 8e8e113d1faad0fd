"""The claim about serving models on many small SRAM chips, and what their number costs."""

from __future__ import annotations

from typing import Final

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.tensors.model_tensors import parameter_count
from wse.studies.claims.claim import Finding, figure
from wse.studies.claims.laboratory import Laboratory

CHIP_SRAM_BYTES: Final = 230e6
CHIP_BYTES_PER_S: Final = 80e12
CHIP_W: Final = 215.0
"""SRAM, SRAM bandwidth and power of a first-generation LPU chip (vendor's datasheet, 2024)."""
CHIPS, RATES = 576, (250.0, 300.0)
"""Chips that serve Llama 70B, and tokens per second of a user without speculative decoding.

The vendor and an independent benchmark published these speeds in 2024."""
LAYERS, PARAMETERS = 80, 70.6e9
TRILLION: Final = "kimi-k2.6"
"""A trillion-parameter mixture-of-experts model, whose number of layers is used."""


def many_small_chips(_: Laboratory) -> Finding:
    """Decide whether many small SRAM chips can serve a trillion-parameter model (claim 7).

    The model's speed is extrapolated from the measured time per layer of a smaller model on 576
    chips. Each op of a layer is split over several chips. Their synchronisation is assumed to
    dominate, so a layer takes the same time regardless of its size. The number of chips is the
    model's parameter count divided by the number of parameters that fit on one chip.

    For comparison, the much higher speed that the SRAM bandwidth would allow is also computed.
    """
    spec = read_config(CONFIGURATIONS[TRILLION])
    parameters = parameter_count(spec)
    layer_s = [1 / rate / LAYERS for rate in RATES]
    rates = [1 / (spec.layer_count * seconds) for seconds in layer_s]
    bandwidth_bound = CHIPS * CHIP_BYTES_PER_S / PARAMETERS
    chips = parameters / CHIP_SRAM_BYTES
    power = chips * CHIP_W / 1e6
    return Finding(
        verdict="conditional",
        answer=f"A layer of Llama 70B took {1e6 * layer_s[1]:.0f} to {1e6 * layer_s[0]:.0f} µs on {CHIPS} chips, "
        f"{100 * RATES[1] / bandwidth_bound:.2f} % of the speed that SRAM bandwidth would allow. With the same time "
        f"per layer, a model of {parameters / 1e12:.1f} trillion parameters would generate {rates[0]:,.0f} to "
        f"{rates[1]:,.0f} tokens/s. But it would fill {chips:,.0f} chips at one byte per parameter, with "
        f"{power:.1f} MW. More parameters cost chips, more layers cost time.",
        numbers={
            "layer_us": figure(1e6 * layer_s[1], "µs", f"per layer of 70B on {CHIPS} chips at {RATES[1]:g} tokens/s"),
            "tokens_per_s_bandwidth": figure(bandwidth_bound, "tokens/s", "of 70B if limited by SRAM bandwidth only"),
            "share_of_bandwidth": figure(RATES[1] / bandwidth_bound, "", "measured speed divided by that limit"),
            "chips": figure(chips, "chips", f"for the weights of {TRILLION} at one byte per parameter"),
            "tokens_per_s_low": figure(rates[0], "tokens/s", f"of {TRILLION} with the slower layers of 70B"),
            "tokens_per_s_high": figure(rates[1], "tokens/s", f"of {TRILLION} with the faster layers of 70B"),
            "power_mw": figure(power, "MW", "of these chips"),
        },
        reason="wse has no model of these chips; one published measurement was extrapolated",
    )
