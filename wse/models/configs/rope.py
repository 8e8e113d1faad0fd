"""Rotary frequencies of every scaling for long contexts, as Hugging Face transformers computes them: in float32.

Frequencies without scaling are those of RoFormer (Su and others, arXiv 2104.09864): base ** (-2 p / size).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wse.models.spec import Rope

F32 = npt.NDArray[np.float32]


def plain_rope(size: int, base: float) -> Rope:
    """``base ** (-2 p / size)`` for each pair p of ``size`` features (even)."""
    return Rope(frequencies=as_tuple(_inverse(_periods(size, base))))


def linear_rope(size: int, base: float, factor: float) -> Rope:
    """Positions divided by ``factor`` (position interpolation, Chen and others, arXiv 2306.15595)."""
    return Rope(frequencies=as_tuple(_inverse(_periods(size, base)) / np.float32(factor)))


def llama3_rope(size: int, base: float, *, factor: float, low: float, high: float, original: int) -> Rope:
    """Llama 3.1: waves longer than ``original / low`` tokens are slowed by ``factor``, those in between partly.

    Waves shorter than ``original / high`` stay as they are. With ``low == high`` nothing lies in between.
    Source: meta-llama/llama-models, models/llama3/model.py, apply_scaling.
    """
    plain = _inverse(_periods(size, base))
    wave = _inverse(plain) * np.float32(2 * math.pi)
    slowed = plain / np.float32(factor)
    frequencies = np.where(wave > np.float32(original / low), slowed, plain)
    if high != low:
        smooth = (_inverse(wave) * np.float32(original) - np.float32(low)) / np.float32(high - low)
        between = (np.float32(1) - smooth) * plain / np.float32(factor) + smooth * plain
        inside = (wave >= np.float32(original / high)) & (wave <= np.float32(original / low))
        frequencies = np.where(inside, between, frequencies)
    return Rope(frequencies=as_tuple(frequencies))


def yarn_rope(
    size: int,
    base: float,
    *,
    factor: float,
    fast: float,
    slow: float,
    original: int,
    truncate: bool,
    multiplier: float,
) -> Rope:
    """YaRN (Peng and others, arXiv 2309.00071, section 3.2): ``base`` above 1.

    Pairs that turn more than ``fast`` times in ``original`` tokens stay as they are, those that turn less than ``slow``
    times are slowed by ``factor``, with a ramp over the pairs between; with ``truncate`` its ends are whole pairs.
    """
    periods = _periods(size, base)
    ends = [size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (fast, slow)]
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if truncate else ends
    first, last = max(first, 0), min(last, size - 1)
    if first == last:
        last += 0.001  # as the authors' code does: a step instead of a ramp
    ramp = (np.arange(size // 2, dtype=np.float32) - np.float32(first)) / np.float32(last - first)
    unscaled = np.float32(1) - np.clip(ramp, np.float32(0), np.float32(1))
    slowed = _inverse(np.float32(factor) * periods)
    frequencies = slowed * (np.float32(1) - unscaled) + _inverse(periods) * unscaled
    return Rope(frequencies=as_tuple(frequencies), multiplier=multiplier)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """YaRN's factor of cosine and sine: 0.1 weight ln(factor) + 1 (arXiv 2309.00071, equation 22)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def long_rope(size: int, base: float, *, factors: Sequence[float], multiplier: float) -> Rope:
    """LongRoPE (Ding and others, arXiv 2402.13753): each pair is slowed by a factor of its own."""
    slowed = np.array(factors, np.float32) * _periods(size, base)
    return Rope(frequencies=as_tuple(_inverse(slowed)), multiplier=multiplier)


def long_rope_magnitude(factor: float, original: int) -> float:
    """sqrt(1 + ln(factor) / ln(original)) (microsoft/LongRoPE and the code of Phi-3); ``original`` above 1."""
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))


def as_tuple(frequencies: F32) -> tuple[float, ...]:
    """float32 values as Python numbers."""
    return tuple(float(value) for value in frequencies)


def _periods(size: int, base: float) -> F32:
    """Rounded once from float64, so that they are the same on every machine."""
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    return np.power(float(base), exponents.astype(np.float64)).astype(np.float32)


def _inverse(values: F32) -> F32:
    return np.asarray(np.float32(1.0) / values, np.float32)
