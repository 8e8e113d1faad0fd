"""Kinds of layers by what they see: ``layer_types``, or the older keys about windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope_config import LONGEST_CONTEXT
from wse.models.spec import Layer

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def layer_kinds(config: ConfigReader, choices: Sequence[str], unstated: Sequence[str]) -> tuple[str, ...]:
    """Return the kind of each layer; ``unstated``, of the same length, where the config has no layer_types."""
    kinds = config.value("layer_types")
    if kinds is None:
        return tuple(unstated)
    if not isinstance(kinds, list) or len(kinds) != len(unstated) or any(kind not in choices for kind in kinds):
        config.refuse("layer_types", kinds, f"give one of {', '.join(choices)} for each of {len(unstated):,} layers")
    return tuple(kinds)


def read_window(config: ConfigReader, unstated: int | None = None) -> int | None:
    """Return the tokens that a layer with a sliding window sees, itself included; None without a window."""
    if config.is_stated("sliding_window") and not config.has("sliding_window"):
        return None
    if unstated is None and not config.has("sliding_window"):
        return None
    return config.integer("sliding_window", 1, LONGEST_CONTEXT, default=unstated or 1)


def windowed_layers(config: ConfigReader, unstated: Sequence[str], window: int | None) -> tuple[Layer, ...]:
    """Return layers of both kinds, by layer_types or else by ``unstated``; ``window`` belongs to the sliding ones."""
    kinds = layer_kinds(config, (FULL, SLIDING), unstated)
    if SLIDING in kinds and window is None:
        config.refuse("sliding_window", None, f"layers of {SLIDING} need one: give an integer")
    return tuple(Layer(window=window if kind == SLIDING else None) for kind in kinds)


def equal_layers(config: ConfigReader, count: int, window: int | None) -> tuple[Layer, ...]:
    """Return ``count`` layers with the same window, or none; layer_types may only agree."""
    kind = FULL if window is None else SLIDING
    stated = config.value("layer_types")
    if stated is not None and (not isinstance(stated, list) or any(item != kind for item in stated)):
        config.refuse("layer_types", stated, f"supported: {kind} in every layer")
    return (Layer(window=window),) * count


def alternating_kinds(count: int) -> list[str]:
    """Return the kinds of layers with a sliding window in every other layer, beginning with the first."""
    return [FULL if index % 2 else SLIDING for index in range(count)]


def qwen_layers(config: ConfigReader, count: int) -> tuple[Layer, ...]:
    """Return layers of Qwen2 and Qwen3: with use_sliding_window, those from max_window_layers on have the window."""
    has_window = config.flag("use_sliding_window", default=False)
    window = read_window(config)
    if not has_window:
        config.value("max_window_layers")
        return windowed_layers(config, [FULL] * count, None)
    if not config.is_stated("sliding_window"):
        config.refuse("use_sliding_window", has_window, "add sliding_window, or set it to false")
    if window is None or config.has("layer_types"):
        config.value("max_window_layers")
        return windowed_layers(config, [FULL] * count, window)
    first = config.integer("max_window_layers", 0, LONGEST_CONTEXT)
    return windowed_layers(config, [SLIDING if index >= first else FULL for index in range(count)], window)
