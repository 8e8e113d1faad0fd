"""Read the settings of YaRN and LongRoPE, which scale rotary embeddings for long contexts."""

from __future__ import annotations

from typing import Final

from wse.models.attention_traits import Rope
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope import long_rope, long_rope_magnitude, yarn_magnitude, yarn_rope

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
