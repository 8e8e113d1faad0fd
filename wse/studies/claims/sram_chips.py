"""The claim about many small chips with SRAM: what their number costs, and what it does not."""

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
"""SRAM, its bandwidth and the power of a first-generation LPU (datasheet of its vendor, 2024)."""
CHIPS, RATES = 576, (250.0, 300.0)
"""Chips that serve Llama 70B, and tokens a second of a user, as the vendor and an independent benchmark gave them in
2024, without speculation."""
LAYERS, PARAMETERS = 80, 70.6e9
TRILLION: Final = "kimi-k2.6"
"""A mixture of a trillion parameters, whose layers count."""


def many_small_chips(_: Laboratory) -> Finding:
    """Claim 7: speed and chips of a model of a trillion parameters, from what a layer took on 576 chips.

    Each layer's ops are split over some chips, so that a layer takes its synchronisations whatever its size, and more
    parameters take more chips. What SRAM's bandwidth would allow is far above.
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
        answer=f"A layer took {1e6 * layer_s[1]:.0f} to {1e6 * layer_s[0]:.0f} µs on {CHIPS} chips, "
        f"{100 * RATES[1] / bandwidth_bound:.2f} % of the speed that SRAM would allow. With layers as long "
        f"{parameters / 1e12:.1f} trillion parameters would answer at {rates[0]:,.0f} to {rates[1]:,.0f} tokens/s, but "
        f"fill {chips:,.0f} chips at a byte each, {power:.1f} MW. Size costs chips, and layers time.",
        numbers={
            "layer_us": figure(1e6 * layer_s[1], "µs", f"of a layer of 70B on {CHIPS} chips at {RATES[1]:g} tokens/s"),
            "tokens_per_s_bandwidth": figure(bandwidth_bound, "tokens/s", "if SRAM's bandwidth were the limit of 70B"),
            "share_of_bandwidth": figure(RATES[1] / bandwidth_bound, "", "of that which was measured"),
            "chips": figure(chips, "chips", f"that {TRILLION} would fill at a byte a parameter, weights alone"),
            "tokens_per_s_low": figure(rates[0], "tokens/s", f"of {TRILLION} with the slower layers of 70B"),
            "tokens_per_s_high": figure(rates[1], "tokens/s", f"of {TRILLION} with the faster layers of 70B"),
            "power_mw": figure(power, "MW", "of so many chips"),
        },
        confidence="low",
        reason="this program has no model of these chips: one published point, and a layer's time taken over",
    )
