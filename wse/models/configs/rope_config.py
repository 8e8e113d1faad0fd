"""Rotary positions in a config, in both spellings of Hugging Face transformers.

4.x  ``rope_theta`` and ``partial_rotary_factor`` on their own, and the table ``rope_scaling`` with ``rope_type`` or
     ``type``
5.x  all of it in the table ``rope_parameters``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from wse.errors import BadModel
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope import (
    linear_rope,
    llama3_rope,
    long_rope,
    long_rope_magnitude,
    plain_rope,
    yarn_magnitude,
    yarn_rope,
)
from wse.models.spec import Rope

LONGEST_CONTEXT: Final = 2**30
LARGEST_BASE: Final = 1e15
SMALLEST_FACTOR: Final = 1e-6
LARGEST_FACTOR: Final = 1e6
ORIGINAL_BASE: Final = 10_000.0
"""The base of configs that were written before the key existed."""

TABLES: Final = ("rope_parameters", "rope_scaling")
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {kind: kind for kind in ("default", "dynamic", "linear", "llama3", "yarn", "longrope")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary positions as a config states them.

    ``context_limit``: tokens for which ``rope`` holds. ``score_factor``: the factor of scores in DeepSeek's YaRN.
    """

    rope: Rope
    context_limit: int
    score_factor: float = 1.0


def read_rope(
    config: ConfigReader,
    head_size: int,
    *,
    base: float = ORIGINAL_BASE,
    share: float | None = None,
    kinds: Mapping[str, str] = KINDS,
    unstated: Mapping[str, Any] = MappingProxyType({}),
) -> RopeConfig:
    """Return the rotary positions of heads of ``head_size`` features.

    Args:
        config: The config.
        head_size: Features of a head; with a share, that part of them turns, the first ones.
        base: Base where none is stated.
        share: Share of a head that turns where none is stated; None where the family knows whole heads only.
        kinds: The scalings that the family knows, by the names that its configs use.
        unstated: What holds where the config has no table.
    """
    table = _table(config, unstated)
    kind = _kind(config, table, kinds)
    base = _base(config, table, base)
    size = _rotated_features(config, table, head_size, share)
    context = config.integer("max_position_embeddings", 1, LONGEST_CONTEXT)
    original = _original(config, table, context)
    limit, factor = context, 1.0
    if kind == "linear":
        rope = linear_rope(size, base, table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR))
    elif kind == "llama3":
        rope = llama3_rope(
            size,
            base,
            factor=table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR),
            low=table.number("low_freq_factor", SMALLEST_FACTOR, LARGEST_FACTOR),
            high=table.number("high_freq_factor", SMALLEST_FACTOR, LARGEST_FACTOR),
            original=original,
        )
    elif kind == "yarn":
        rope, factor = _yarn(table, size, base, context, original)
    elif kind == "longrope":
        rope, limit = _longrope(table, size, base, context, original), min(context, original)
    else:
        if kind == "dynamic":  # changes the base beyond the context alone, which is refused
            table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR)
        rope = plain_rope(size, base)
    table.finish(())
    return RopeConfig(rope=rope, context_limit=limit, score_factor=factor)


def _table(config: ConfigReader, unstated: Mapping[str, Any]) -> ConfigReader:
    """Return the table of either spelling; both are accepted where they say the same."""
    tables = [table for table in map(config.table, TABLES) if table is not None]
    newer, older = (config.value(key) for key in TABLES)
    if len(tables) == 2 and newer != older:
        config.refuse(TABLES[1], older, f"contradicts {TABLES[0]} = {newer!r}; keep one")
    return tables[0] if tables else ConfigReader(config.path, dict(unstated), f"{config.prefix}{TABLES[0]}.")


def _kind(config: ConfigReader, table: ConfigReader, kinds: Mapping[str, str]) -> str:
    stated = [table.value(key) for key in ("rope_type", "type") if table.has(key)]
    for kind in stated:
        if not isinstance(kind, str) or kind not in kinds or kinds[kind] != kinds[stated[0]]:
            key = next(key for key in TABLES if config.has(key))
            config.refuse(
                key,
                config.value(key),
                f"this scaling of rotary positions is not supported; supported: {', '.join(sorted(kinds))}",
            )
    return kinds[stated[0]] if stated else "default"


def _base(config: ConfigReader, table: ConfigReader, unstated: float) -> float:
    key = "rope_theta"
    stated = {reader: reader.number(key, 1.0, LARGEST_BASE) for reader in (config, table) if reader.has(key)}
    return _agreed_value(key, stated, unstated)


def _agreed_value(key: str, stated: Mapping[ConfigReader, float], unstated: float) -> float:
    """Return the value that every reader states, ``unstated`` without one."""
    if len(set(stated.values())) > 1:
        conflict = ", ".join(f"{reader.prefix}{key} = {value:g}" for reader, value in stated.items())
        path = next(iter(stated)).path
        msg = f"{path}: {conflict} contradict each other; keep one"
        raise BadModel(msg)
    return next(iter(stated.values()), unstated)


def _rotated_features(config: ConfigReader, table: ConfigReader, head_size: int, unstated: float | None) -> int:
    """Features of a head that turn."""
    key = "partial_rotary_factor"
    if unstated is None:
        for reader in (config, table):
            reader.require(key, (1.0, 1), "only whole heads are rotated; supported: 1.0")
        share = 1.0
    else:
        stated = {reader: reader.number(key, 0.0, 1.0) for reader in (config, table) if reader.has(key)}
        share = _agreed_value(key, stated, unstated)
    size = int(head_size * share)
    if size < 2 or size % 2:
        what = "head_dim" if config.has("head_dim") else "hidden_size / num_attention_heads"
        what = what if share == 1.0 else f"{what} = {head_size} x {key}"
        config.refuse(what, size, "rotary positions pair features of a head: give an even size")
    return size


def _original(config: ConfigReader, table: ConfigReader, context: int) -> int:
    """Return the tokens of the context before it was made longer."""
    key = "original_max_position_embeddings"
    stated: dict[ConfigReader, float] = {
        reader: reader.integer(key, 2, LONGEST_CONTEXT) for reader in (config, table) if reader.has(key)
    }
    return int(_agreed_value(key, stated, context))


def _yarn(table: ConfigReader, size: int, base: float, context: int, original: int) -> tuple[Rope, float]:
    factor = table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=context / original)
    weight, weight_all = _weight(table, "mscale"), _weight(table, "mscale_all_dim")
    unstated = yarn_magnitude(factor)
    if weight and weight_all:
        unstated = yarn_magnitude(factor, weight) / yarn_magnitude(factor, weight_all)
    rope = yarn_rope(
        size,
        base,
        factor=factor,
        fast=table.number("beta_fast", SMALLEST_FACTOR, LARGEST_FACTOR, default=32.0),
        slow=table.number("beta_slow", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        original=original,
        truncate=table.flag("truncate", default=True),
        multiplier=table.number("attention_factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=unstated),
    )
    return rope, yarn_magnitude(factor, weight_all) ** 2 if weight_all else 1.0


def _weight(table: ConfigReader, key: str) -> float:
    """0 and null both say that there is none."""
    return 0.0 if table.value(key) in (None, 0) else table.number(key, SMALLEST_FACTOR, LARGEST_FACTOR)


def _longrope(table: ConfigReader, size: int, base: float, context: int, original: int) -> Rope:
    """Return the factors for short contexts: with them the first ``original`` tokens are computed.

    A longer text would have all its positions computed anew with the factors for long ones, its first tokens too.
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
