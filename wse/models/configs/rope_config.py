"""Read rotary position embeddings from a config, in the spellings of two transformers versions.

4.x  keys ``rope_theta`` and ``partial_rotary_factor``; table ``rope_scaling`` with ``rope_type``
     or ``type``
5.x  everything in the table ``rope_parameters``
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wse.errors import BadModel
from wse.models.attention_traits import Rope
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope import (
    LARGEST_FACTOR,
    SMALLEST_FACTOR,
    llama3_rope,
    plain_rope,
    proportional_rope,
    read_long_rope,
    read_yarn,
)

LONGEST_CONTEXT: Final = 2**30
LARGEST_BASE: Final = 1e15
ORIGINAL_BASE: Final = 10_000.0
"""Base for configs that predate the key ``rope_theta``."""

TABLES: Final = ("rope_parameters", "rope_scaling")
KINDS: Final = {kind: kind for kind in ("default", "dynamic", "linear", "llama3", "yarn", "longrope")}
NO_TABLE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary position embeddings from a config, and the settings that depend on them.

    Attributes:
        rope: The frequencies.
        context_limit: Maximum number of tokens for which ``rope`` is valid.
        score_factor: Factor applied to attention scores in DeepSeek's variant of YaRN scaling; 1
            otherwise.
    """

    rope: Rope
    context_limit: int
    score_factor: float = 1.0


def read_rope(
    config: ConfigReader,
    head_size: int,
    *,
    base: float = ORIGINAL_BASE,
    rotated_fraction: float | None = None,
    kinds: Mapping[str, str] = KINDS,
    unstated_table: Mapping[str, Any] = NO_TABLE,
    other_keys: Collection[str] = (),
) -> RopeConfig:
    """Return the rotary position embeddings that a config describes.

    Args:
        config: Reader of the model's config.
        head_size: Features per head.
        base: Base of the frequencies if the config does not specify one.
        rotated_fraction: Fraction of each head's features, starting with the first, that is rotated
            if the config does not specify it. None if the family only supports rotating whole
            heads.
        kinds: Supported scaling methods: names in the config mapped to names in `KINDS`.
        unstated_table: Rotary settings to use if the config has no table of rotary settings.
        other_keys: Keys in the table that the caller reads itself. All other keys that this
            function does not know are errors.

    Raises:
        BadModel: A setting is missing, impossible, contradictory or not supported.
    """
    table = rope_table(config, unstated_table)
    rope = _rope(config, table, head_size, base, rotated_fraction, kinds)
    table.finish(other_keys)
    return rope


def read_ropes(
    config: ConfigReader,
    head_size: int,
    *,
    base: float,
    window_base: float,
    window_key: str | None,
    window_head_size: int | None = None,
    kinds: Mapping[str, str] = KINDS,
    unstated_table: Mapping[str, Any] = NO_TABLE,
) -> tuple[RopeConfig, Rope]:
    """Read the rotary embeddings of a model with two kinds of layers: full attention and windows.

    The two kinds use different frequencies. transformers 5 writes one table for each kind into the
    config. A config of transformers 4, or one with a single table, scales only the frequencies of
    full attention.

    Args:
        config: Reader of the model's config.
        head_size: Features per head.
        base: Base of the frequencies of full attention if the config does not specify one.
        window_base: Base of the frequencies of layers with windows if the config does not specify
            one.
        window_key: Key of transformers 4 for the base in layers with windows. None if it is
            ``rope_theta``, as for full attention.
        window_head_size: Features per head in layers with windows, if it differs from ``head_size``.
        kinds: Supported scaling methods of full attention.
        unstated_table: Rotary settings to use if the config has no table of rotary settings.

    Raises:
        BadModel: A setting is missing, impossible, contradictory or not supported.
    """
    nested = config.table(TABLES[0])
    if nested is None and unstated_table:
        nested = ConfigReader(config.path, dict(unstated_table), f"{config.prefix}{TABLES[0]}.")
    tables = [None, None] if nested is None else [nested.table(key) for key in ("full_attention", "sliding_attention")]
    if nested is None or tables == [None, None]:
        full = read_rope(config, head_size, base=base)
        if window_key is None:
            window_base = _base(config, rope_table(config), window_base)
        else:
            window_base = config.number(window_key, 1.0, LARGEST_BASE, default=window_base)
        return full, plain_rope(window_head_size or head_size, window_base)
    full_table, window_table = (table or ConfigReader(config.path, {}, nested.prefix) for table in tables)
    full = _rope(config, full_table, head_size, base, None, kinds)
    window = _rope(config, window_table, window_head_size or head_size, window_base, None, KINDS)
    for table in (nested, *tables):
        if table is not None:
            table.finish(())
    return full, window.rope


def disables_rope(config: ConfigReader) -> bool:
    """Return whether a config states that no layer has rotary position embeddings.

    Such a config states null as the base or as the type of the rotary embeddings.
    """
    table = rope_table(config)
    base_reader = table if table.is_stated("rope_theta") else config
    return any(
        reader.is_stated(key) and not reader.has_value(key)
        for reader, key in ((base_reader, "rope_theta"), (table, "rope_type"))
    )


def _rope(
    config: ConfigReader,
    table: ConfigReader,
    head_size: int,
    base: float,
    rotated_fraction: float | None,
    kinds: Mapping[str, str],
) -> RopeConfig:
    """Return the rotary position embeddings that a table of a config describes.

    Args:
        config: Reader of the model's config.
        table: The rotary settings in the config.
        head_size: Features per head.
        base: Base of the frequencies if the config does not specify one.
        rotated_fraction: Fraction of each head that is rotated if the config does not specify it;
            None if only whole heads are supported.
        kinds: Supported scaling methods.
    """
    kind = _kind(config, table, kinds)
    base = _base(config, table, base)
    if kind == "proportional":
        fraction = table.number("partial_rotary_factor", 0.0, 1.0, default=1.0)
        factor = table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0)
        context = config.integer("max_position_embeddings", 1, LONGEST_CONTEXT)
        return RopeConfig(rope=proportional_rope(head_size, base, fraction, factor), context_limit=context)
    size = _rotated_features(config, table, head_size, rotated_fraction)
    context = config.integer("max_position_embeddings", 1, LONGEST_CONTEXT)
    original = _original(config, table, context)
    limit, factor = context, 1.0
    if kind == "linear":
        rope = plain_rope(size, base, table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR))
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
        rope, factor = read_yarn(table, size, base, context, original)
    elif kind == "longrope":
        rope, limit = read_long_rope(table, size, base, context, original), min(context, original)
    else:
        if kind == "dynamic":  # would change the base only beyond the context limit, which no text may exceed
            table.number("factor", SMALLEST_FACTOR, LARGEST_FACTOR)
        rope = plain_rope(size, base)
    return RopeConfig(rope=rope, context_limit=limit, score_factor=factor)


def rope_table(config: ConfigReader, unstated_table: Mapping[str, Any] = NO_TABLE) -> ConfigReader:
    """Return a config's rotary settings, which may be stored under a new or an old key.

    Both keys (`TABLES`) may be present if their values are equal. If neither is present, the
    settings are ``unstated_table``.
    """
    tables = [table for table in map(config.table, TABLES) if table is not None]
    new_table, old_table = (config.value(key) for key in TABLES)
    if len(tables) == 2 and new_table != old_table:
        config.refuse(TABLES[1], old_table, f"contradicts {TABLES[0]} = {new_table!r}; keep one")
    return tables[0] if tables else ConfigReader(config.path, dict(unstated_table), f"{config.prefix}{TABLES[0]}.")


def _kind(config: ConfigReader, table: ConfigReader, kinds: Mapping[str, str]) -> str:
    """Return the scaling method for rotary positions, or "default" if the config has none.

    Args:
        config: Reader of the model's config.
        table: The rotary settings in the config.
        kinds: Supported methods: names in the config mapped to names in wse.

    Raises:
        BadModel: The method is not supported.
    """
    stated_kinds = [table.value(key) for key in ("rope_type", "type") if table.has_value(key)]
    for kind in stated_kinds:
        if not isinstance(kind, str) or kind not in kinds or kinds[kind] != kinds[stated_kinds[0]]:
            key = next(key for key in TABLES if config.has_value(key))
            config.refuse(
                key,
                config.value(key),
                f"this scaling of rotary positions is not supported; supported: {', '.join(sorted(kinds))}",
            )
    return kinds[stated_kinds[0]] if stated_kinds else "default"


def _base(config: ConfigReader, table: ConfigReader, unstated_base: float) -> float:
    """Return the base of the rotary frequencies, or ``unstated_base`` if none is specified."""
    key = "rope_theta"
    stated_bases = {
        reader: reader.number(key, 1.0, LARGEST_BASE) for reader in (config, table) if reader.has_value(key)
    }
    return _agreed_value(key, stated_bases, unstated_base)


def _agreed_value(key: str, stated_values: Mapping[ConfigReader, float], default: float) -> float:
    """Return the value of a key that may occur in several parts of a config.

    Args:
        key: The key, for the message.
        stated_values: The value in each part of the config that has the key.
        default: Value to return if no part has the key.

    Raises:
        BadModel: The parts contain different values.
    """
    if len(set(stated_values.values())) > 1:
        conflict = ", ".join(f"{reader.prefix}{key} = {value:g}" for reader, value in stated_values.items())
        path = next(iter(stated_values)).path
        raise BadModel(f"{path}: {conflict} contradict each other; keep one")
    return next(iter(stated_values.values()), default)


def _rotated_features(
    config: ConfigReader, table: ConfigReader, head_size: int, unstated_fraction: float | None
) -> int:
    """Return the number of rotary dimensions per head.

    Args:
        config: Reader of the model's config.
        table: The rotary settings in the config.
        head_size: Features per head.
        unstated_fraction: Fraction to use if the config does not specify one; None if only whole
            heads are supported.

    Raises:
        BadModel: The number of rotary dimensions is odd or too small, or the fraction is not
            supported.
    """
    key = "partial_rotary_factor"
    if unstated_fraction is None:
        for reader in (config, table):
            reader.require(key, (1.0, 1), "only whole heads are rotated; supported: 1.0")
        fraction = 1.0
    else:
        stated_fractions = {reader: reader.number(key, 0.0, 1.0) for reader in (config, table) if reader.has_value(key)}
        fraction = _agreed_value(key, stated_fractions, unstated_fraction)
    size = int(head_size * fraction)
    if size < 2 or size % 2:
        size_name = "head_dim" if config.has_value("head_dim") else "hidden_size / num_attention_heads"
        size_name = size_name if fraction == 1.0 else f"{size_name} = {head_size} x {key}"
        config.refuse(size_name, size, "rotary positions pair features of a head: give an even size")
    return size


def _original(config: ConfigReader, table: ConfigReader, context: int) -> int:
    """Return the context length in tokens before the model's rotary positions were scaled.

    Args:
        config: Reader of the model's config.
        table: The rotary settings in the config.
        context: Context length to return if neither of them specifies the original one.
    """
    key = "original_max_position_embeddings"
    stated_contexts: dict[ConfigReader, float] = {
        reader: reader.integer(key, 2, LONGEST_CONTEXT) for reader in (config, table) if reader.has_value(key)
    }
    return int(_agreed_value(key, stated_contexts, context))
