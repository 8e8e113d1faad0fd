"""Rotary frequencies, and the settings of each kind of scaling for long contexts.

The float32 results are the same as in Hugging Face transformers. Frequencies without scaling follow
RoFormer (Su et al., arXiv 2104.09864): base ** (-2 p / size) for pair p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.models.attention_traits import Rope
from wse.models.configs.config_reader import ConfigReader

F32 = npt.NDArray[np.float32]


def plain_rope(size: int, base: float) -> Rope:
    """Return rotary position embeddings (RoPE) without scaling.

    The frequency of pair p is ``base ** (-2 p / size)``.

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies.
    """
    return Rope(frequencies=as_tuple(_inverse(_periods(size, base))))


def linear_rope(size: int, base: float, factor: float) -> Rope:
    """Return rotary position embeddings (RoPE) with all positions divided by a factor.

    This is position interpolation (Chen et al., arXiv 2306.15595).

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies.
        factor: Divisor applied to positions.
    """
    return Rope(frequencies=as_tuple(_inverse(_periods(size, base)) / np.float32(factor)))


def llama3_rope(size: int, base: float, *, factor: float, low: float, high: float, original: int) -> Rope:
    """Return RoPE with Llama 3.1 scaling.

    Frequencies with a wavelength above ``original / low`` tokens are divided by ``factor``.
    Frequencies with a wavelength below ``original / high`` tokens are unchanged. Frequencies in
    between are interpolated. Source: meta-llama/llama-models, models/llama3/model.py,
    apply_scaling.

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies.
        factor: Divisor of the low frequencies.
        low: The config's ``low_freq_factor``.
        high: The config's ``high_freq_factor``.
        original: Context length in tokens before scaling.
    """
    plain = _inverse(_periods(size, base))
    wavelengths = _inverse(plain) * np.float32(2 * math.pi)
    scaled = plain / np.float32(factor)
    frequencies = np.where(wavelengths > np.float32(original / low), scaled, plain)
    if high != low:
        smooth = (_inverse(wavelengths) * np.float32(original) - np.float32(low)) / np.float32(high - low)
        interpolated = (np.float32(1) - smooth) * plain / np.float32(factor) + smooth * plain
        is_between = (wavelengths >= np.float32(original / high)) & (wavelengths <= np.float32(original / low))
        frequencies = np.where(is_between, interpolated, frequencies)
    return Rope(frequencies=as_tuple(frequencies))


def yarn_rope(
    size: int,
    base: float,
    *,
    factor: float,
    fast_rotations: float,
    slow_rotations: float,
    original: int,
    truncate: bool,
    multiplier: float,
) -> Rope:
    """Return RoPE with YaRN scaling (Peng et al., arXiv 2309.00071, section 3.2).

    Feature pairs that rotate more than ``fast_rotations`` times in the original context are
    unchanged. The frequencies of pairs that rotate less than ``slow_rotations`` times are divided
    by ``factor``. In between, a linear ramp over the pair index blends the two.

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies, above 1.
        factor: Divisor of the low frequencies.
        fast_rotations: Rotations in the original context at the start of the ramp.
        slow_rotations: Rotations in the original context at the end of the ramp.
        original: Context length in tokens before scaling.
        truncate: Whether the ends of the ramp are rounded outwards to whole pairs.
        multiplier: Factor applied to cosine and sine.
    """
    periods = _periods(size, base)
    ends = [
        size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (fast_rotations, slow_rotations)
    ]
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if truncate else ends
    first, last = max(first, 0), min(last, size - 1)
    if first == last:
        last += 0.001  # avoids a division by zero, as in the authors' code
    ramp = (np.arange(size // 2, dtype=np.float32) - np.float32(first)) / np.float32(last - first)
    unscaled_weight = np.float32(1) - np.clip(ramp, np.float32(0), np.float32(1))
    scaled = _inverse(np.float32(factor) * periods)
    frequencies = scaled * (np.float32(1) - unscaled_weight) + _inverse(periods) * unscaled_weight
    return Rope(frequencies=as_tuple(frequencies), multiplier=multiplier)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """Return the factor by which YaRN multiplies cosine and sine: 0.1 * weight * ln(factor) + 1.

    It is 1 for factors up to 1. Source: arXiv 2309.00071, equation 22.

    Args:
        factor: Ratio of the extended context to the original one.
        weight: ``mscale`` in DeepSeek's configs; 1 in the paper.
    """
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def long_rope(size: int, base: float, *, factors: Sequence[float], multiplier: float) -> Rope:
    """Return RoPE with LongRoPE scaling: each frequency is divided by its own factor.

    Source: Ding et al., arXiv 2402.13753.

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies.
        factors: Divisors of the size / 2 frequencies.
        multiplier: Factor applied to cosine and sine.
    """
    scaled_periods = np.array(factors, np.float32) * _periods(size, base)
    return Rope(frequencies=as_tuple(_inverse(scaled_periods)), multiplier=multiplier)


def long_rope_magnitude(factor: float, original: int) -> float:
    """Return LongRoPE's factor for cosine and sine: sqrt(1 + ln(factor) / ln(original)).

    It is 1 for factors up to 1. Source: microsoft/LongRoPE and the code of Phi-3.

    Args:
        factor: Ratio of the extended context to the original one.
        original: Context length in tokens before scaling, above 1.
    """
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))


def as_tuple(frequencies: F32) -> tuple[float, ...]:
    """Return float32 values as a tuple of Python floats."""
    return tuple(float(value) for value in frequencies)


def _periods(size: int, base: float) -> F32:
    """Return the inverse frequency ``base ** (2 p / size)`` of each rotated pair p.

    The powers are computed in float64 and rounded once, so they are the same on every machine.
    """
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    return np.power(float(base), exponents.astype(np.float64)).astype(np.float32)


def _inverse(values: F32) -> F32:
    """Return 1 / values in float32."""
    return np.asarray(np.float32(1.0) / values, np.float32)


SMALLEST_FACTOR: Final = 1e-6
LARGEST_FACTOR: Final = 1e6
LARGEST_WEIGHT: Final = 100.0
"""Upper bound of YaRN's weights; published models have at most 1. Scores scale with their square."""


def read_yarn(table: ConfigReader, size: int, base: float, context: int, original: int) -> tuple[Rope, float]:
    """Return the rotary position embeddings of a config that uses YaRN (arXiv 2309.00071).

    Args:
        table: The rotary settings in the config.
        size: Number of rotary dimensions per head.
        base: Base of the frequencies.
        context: Maximum context length in tokens.
        original: Context length in tokens before scaling.

    Returns:
        The embeddings, and the factor by which attention scores are multiplied.
    """
    factor = table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=context / original)
    weight, weight_all = _weight(table, "mscale"), _weight(table, "mscale_all_dim")
    default_multiplier = yarn_magnitude(factor)
    if weight and weight_all:
        default_multiplier = yarn_magnitude(factor, weight) / yarn_magnitude(factor, weight_all)
    rope = yarn_rope(
        size,
        base,
        factor=factor,
        fast_rotations=table.number("beta_fast", SMALLEST_FACTOR, LARGEST_FACTOR, default=32.0),
        slow_rotations=table.number("beta_slow", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        original=original,
        truncate=table.flag("truncate", default=True),
        multiplier=table.number("attention_factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=default_multiplier),
    )
    return rope, yarn_magnitude(factor, weight_all) ** 2 if weight_all else 1.0


def _weight(table: ConfigReader, key: str) -> float:
    """Read ``mscale`` or ``mscale_all_dim``, a weight in YaRN's factor for cosine and sine.

    The result is 0 (no weight) if the key is absent, null or 0.
    """
    return 0.0 if table.value(key) in (None, 0) else table.number(key, SMALLEST_FACTOR, LARGEST_WEIGHT)


def read_long_rope(table: ConfigReader, size: int, base: float, context: int, original: int) -> Rope:
    """Return the rotary embeddings of a config with LongRoPE, valid up to the original context.

    LongRoPE has one set of factors for short contexts and one for long contexts. Only the factors
    for short contexts are used. A sequence that grows beyond the original context would need the
    long factors at all positions, including those already computed.

    Args:
        table: The rotary settings in the config.
        size: Number of rotary dimensions per head.
        base: Base of the frequencies.
        context: Maximum context length in tokens.
        original: Context length in tokens before scaling.
    """
    table.numbers("long_factor", size // 2, SMALLEST_FACTOR, LARGEST_FACTOR)
    factor = table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=context / original)
    return long_rope(
        size,
        base,
        factors=table.numbers("short_factor", size // 2, SMALLEST_FACTOR, LARGEST_FACTOR),
        multiplier=table.number(
            "attention_factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=long_rope_magnitude(factor, original)
        ),
    )
