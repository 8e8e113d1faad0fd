"""Claims about other memory: weights read from outside the wafer, and many small SRAM chips."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import provenance
from wse.hardware.number import SourcedNumber
from wse.models.configs.config import bundled_spec
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.number_text import plural
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.serving.weight_streaming import StreamingBound
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.shared_computations import SharedComputations, with_type
from wse.studies.compare.grid.streaming import weights_of

CHIP_SRAM_BYTES: Final = 230e6
CHIP_BYTES_PER_S: Final = 80e12
CHIP_W: Final = 215.0
"""SRAM, SRAM bandwidth and power of a first-generation LPU chip (vendor's datasheet, 2024)."""
CHIPS, RATES = 576, (250.0, 300.0)
"""Chips that serve Llama 70B, and tokens per second of a user without speculative decoding.

The vendor and an independent benchmark published these speeds in 2024."""
RATE: Final = SourcedNumber(
    value=math.sqrt(RATES[0] * RATES[1]), unit="token/s", grade="M", source="geometric mean", range=RATES
)
LAYER_TIME: Final = "time of a layer, relative to that of 70B"
LAYERS, PARAMETERS = 80, 70.6e9
TRILLION: Final = "kimi-k2.6"
"""A trillion-parameter mixture-of-experts model, whose number of layers is used."""


def small_chips(shared_computations: SharedComputations) -> Finding:
    """Decide whether many small SRAM chips can serve a trillion-parameter model (claim 7).

    The model's speed is extrapolated from a smaller model that was measured on 576 chips. It
    depends on the time per layer, for which the claim is tested within a range:

    - The stated value is the measured time per layer. This is correct if the time is dominated by
      the synchronisation of the chips that share an op.
    - At the other end, the time is proportional to the number of chips per layer. The number of
      chips is the parameter count divided by the number of parameters that fit on one chip.

    The claim is true if the model fits on 576 chips and users get at least the speed of a fast mode
    (`FAST_TIMES` times the plain speed). It is false if users get less. For comparison, the speed
    that the SRAM bandwidth would allow is also computed.
    """
    spec = bundled_spec(TRILLION)
    parameters = parameter_count(spec)
    layer_s = [1 / rate / LAYERS for rate in RATES]
    rates = [1 / (spec.layer_count * seconds) for seconds in layer_s]
    bandwidth_bound = CHIPS * CHIP_BYTES_PER_S / PARAMETERS
    chips = parameters / CHIP_SRAM_BYTES
    chips_ratio = (chips / spec.layer_count) / (CHIPS / LAYERS)
    layer_time = SourcedNumber(
        value=1.0, unit="1", grade="I", source="judgement: synchronisation dominates", range=(1.0, chips_ratio)
    )
    sampled_rates = (
        shared_computations.sampled("tokens/s of 70B on small chips", RATE)
        * (LAYERS / spec.layer_count)
        / shared_computations.sampled(LAYER_TIME, layer_time)
    )
    fast_speed = FAST_TIMES * PLAIN_SPEED_TOKENS_PER_S
    is_fast = sampled_rates >= fast_speed
    builder = FindingBuilder("small_chips", model=TRILLION, measured_chips=CHIPS, measured_rate=RATES[1])
    builder.add("layer_us", 1e6 * layer_s[1])
    builder.add("tokens_per_s_bandwidth", bandwidth_bound)
    builder.add("share_of_bandwidth", RATES[1] / bandwidth_bound)
    builder.add("chips", chips)
    builder.add("tokens_per_s_low", rates[0])
    builder.add("tokens_per_s_high", rates[1])
    builder.add("chips_ratio", chips_ratio)
    builder.add("power_mw", chips * CHIP_W / 1e6)
    return builder.finding(
        by_rule(holds=is_fast & (chips <= CHIPS), never=~is_fast),
        max_layer_us=1e6 * layer_s[0],
        bandwidth_ratio=bandwidth_bound / RATES[1],
        trillions=parameters / 1e12,
        min_rate=rates[0] / chips_ratio,
        max_rate=rates[1] / chips_ratio,
        fast_speed=fast_speed,
    )


MODEL: Final = "llama-3.1-70b"
BATCHES: Final = (1, 8, 64, 512, 4096)


def weight_streaming_speed(shared_computations: SharedComputations) -> Finding:
    """Decide whether wafers would be much slower if they read their weights from DRAM (claim 15).

    One user's speed with weights in SRAM is compared with an upper bound on the speed when the
    weights are read from outside the wafer for every token.
    """
    resident = shared_computations.estimate(MODEL)
    assert resident.schedule is not None
    wafers = resident.system.wafers
    weights = weights_of(bundled_spec(MODEL), "bfloat16", "bfloat16")
    resident_rates = shared_computations.speeds(MODEL)
    bandwidths = shared_computations.sampled("wafer.host_bytes_per_s", provenance(DEFAULT_WAFER)["host_bytes_per_s"])
    bounds = [
        StreamingBound(weights=weights, bytes_per_s=bandwidth, pass_s=1 / rate)
        for bandwidth, rate in np.broadcast(bandwidths, resident_rates)
    ]
    speed_ratios = resident_rates / [bound.tokens_per_s(1) for bound in bounds]
    builder = FindingBuilder(
        "weight_streaming_speed",
        model=with_type(MODEL),
        gb_per_s=float(bandwidths[0]) / 1e9,
        wafers=plural(wafers, "wafer"),
    )
    builder.add("tokens_per_s_streamed", bounds[0].tokens_per_s(1))
    builder.add("tokens_per_s_held", resident_rates)
    builder.add("ratio", speed_ratios)
    users_for_parity = bounds[0].users_for(resident.schedule.tokens_per_s_at_saturation / wafers)
    if users_for_parity is not None:
        builder.add("users_for_parity", users_for_parity)
    streamed_rates = tuple((float(batch), bounds[0].tokens_per_s(batch) / batch) for batch in BATCHES)
    return builder.finding(by_rule(holds=speed_ratios > 10, never=speed_ratios <= 10), {"streamed": streamed_rates})
