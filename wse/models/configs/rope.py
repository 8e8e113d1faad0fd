"""Rotary frequencies, and the settings of each kind of scaling for long contexts.

The float32 results are the same as in Hugging Face transformers. Frequencies without scaling follow
RoFormer (Su et al., arXiv 2104.09864): base ** (-2 p / size) for pair p.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.models.attention_traits import Rope
from wse.models.configs.config_reader import ConfigReader

F32 = npt.NDArray[np.float32]


def plain_rope(size: int, base: float, factor: float = 1.0) -> Rope:
    """Return rotary position embeddings (RoPE) with all positions divided by a factor.

    The frequency of pair p is ``base ** (-2 p / size) / factor``. A factor other than 1 is
    position interpolation (Chen et al., arXiv 2306.15595).

    Args:
        size: Number of rotary dimensions per head; must be even.
        base: Base of the frequencies.
        factor: Divisor applied to positions.
    """
    return _rope(_inverse(_periods(size, base)) / np.float32(factor))


def proportional_rope(size: int, base: float, fraction: float, factor: float) -> Rope:
    """Return RoPE that pairs all features of a head, but rotates only the first pairs.

    The frequencies of the rotated pairs are those of `plain_rope`; the other pairs have the
    frequency 0.

    Args:
        size: Number of features per head; must be even.
        base: Base of the frequencies.
        fraction: Fraction of the pairs that are rotated.
        factor: Divisor applied to positions.
    """
    rotated, pairs = int(fraction * size // 2), size // 2
    frequencies = plain_rope(size, base, factor).frequencies[:rotated]
    return Rope(frequencies=(*frequencies, *(0.0,) * (pairs - rotated)))


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
    return _rope(frequencies)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """Return the factor by which YaRN multiplies cosine and sine: 0.1 * weight * ln(factor) + 1.

    It is 1 for factors up to 1. Source: arXiv 2309.00071, equation 22.

    Args:
        factor: Ratio of the extended context to the original one.
        weight: ``mscale`` in DeepSeek's configs; 1 in the paper.
    """
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _rope(frequencies: F32, multiplier: float = 1.0) -> Rope:
    """Return rotary position embeddings with these frequencies, as Python floats."""
    return Rope(frequencies=tuple(frequencies.tolist()), multiplier=multiplier)


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
    frequencies = _yarn_frequencies(table, size, base, factor, original)
    multiplier = table.number("attention_factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=default_multiplier)
    return _rope(frequencies, multiplier), yarn_magnitude(factor, weight_all) ** 2 if weight_all else 1.0


def _yarn_frequencies(table: ConfigReader, size: int, base: float, factor: float, original: int) -> F32:
    """Return frequencies with YaRN scaling (Peng et al., arXiv 2309.00071, section 3.2).

    Feature pairs that rotate more than ``beta_fast`` times in the original context are unchanged.
    The frequencies of pairs that rotate less than ``beta_slow`` times are divided by ``factor``. In
    between, a linear ramp over the pair index blends the two. If ``truncate`` is true, the ends of
    the ramp are rounded outwards to whole pairs.

    Args:
        table: The rotary settings in the config.
        size: Number of rotary dimensions per head.
        base: Base of the frequencies, above 1.
        factor: Divisor of the low frequencies.
        original: Context length in tokens before scaling.
    """
    rotations = [
        table.number(key, SMALLEST_FACTOR, LARGEST_FACTOR, default=default)
        for key, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
    ]
    periods = _periods(size, base)
    ends = [size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in rotations]
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if table.flag("truncate", default=True) else ends
    first, last = max(first, 0), min(last, size - 1)
    if first == last:
        last += 0.001  # avoids a division by zero, as in the authors' code
    ramp = (np.arange(size // 2, dtype=np.float32) - np.float32(first)) / np.float32(last - first)
    unscaled_weight = np.float32(1) - np.clip(ramp, np.float32(0), np.float32(1))
    scaled = _inverse(np.float32(factor) * periods)
    frequencies: F32 = scaled * (np.float32(1) - unscaled_weight) + _inverse(periods) * unscaled_weight
    return frequencies


def _weight(table: ConfigReader, key: str) -> float:
    """Read ``mscale`` or ``mscale_all_dim``, a weight in YaRN's factor for cosine and sine.

    The result is 0 (no weight) if the key is absent, null or 0.
    """
    return 0.0 if table.value(key) in (None, 0) else table.number(key, SMALLEST_FACTOR, LARGEST_WEIGHT)


def read_long_rope(table: ConfigReader, size: int, base: float, context: int, original: int) -> Rope:
    """Return the rotary embeddings of a config with LongRoPE, valid up to the original context.

    LongRoPE divides each frequency by its own factor (Ding et al., arXiv 2402.13753). By default,
    cosines and sines are multiplied by sqrt(1 + ln(factor) / ln(original)) for factors above 1
    (source: microsoft/LongRoPE and the code of Phi-3).

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
    factors = table.numbers("short_factor", size // 2, SMALLEST_FACTOR, LARGEST_FACTOR)
    magnitude = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    multiplier = table.number("attention_factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=magnitude)
    return _rope(_inverse(np.array(factors, np.float32) * _periods(size, base)), multiplier)
