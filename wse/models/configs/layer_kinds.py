"""Read the attention types of layers, full or windowed: ``layer_types``, or older window keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope_config import LONGEST_CONTEXT
from wse.models.spec import Layer

MAX_LAYERS: Final = 10_000  # far above any published model, so that a damaged file cannot request terabytes
FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def layer_count(config: ConfigReader) -> int:
    """Return the number of layers."""
    return config.integer("num_hidden_layers", 1, MAX_LAYERS)


def layer_kinds(config: ConfigReader, choices: Sequence[str], unstated_kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each layer's attention type, such as ``full_attention``.

    Args:
        config: Reader of the model's config.
        choices: Supported types.
        unstated_kinds: Type of each layer if the config has no ``layer_types``.
    """
    kinds = config.value("layer_types")
    if kinds is None:
        return tuple(unstated_kinds)
    if not isinstance(kinds, list) or len(kinds) != len(unstated_kinds) or any(kind not in choices for kind in kinds):
        config.refuse(
            "layer_types", kinds, f"give one of {', '.join(choices)} for each of {len(unstated_kinds):,} layers"
        )
    return tuple(kinds)


def read_window(config: ConfigReader, unstated_window: int | None = None) -> int | None:
    """Return the sliding-window size that a config specifies, in tokens.

    A layer with a window attends to this number of tokens, including the current one.

    Args:
        config: Reader of the model's config.
        unstated_window: Window if ``sliding_window`` is absent.

    Returns:
        The number of tokens, or None if ``sliding_window`` is null or is absent without a default.
    """
    if config.is_stated("sliding_window") and not config.has_value("sliding_window"):
        return None
    if unstated_window is None and not config.has_value("sliding_window"):
        return None
    return config.integer("sliding_window", 1, LONGEST_CONTEXT, default=unstated_window or 1)


def windowed_layers(config: ConfigReader, unstated_kinds: Sequence[str], window: int | None) -> tuple[Layer, ...]:
    """Return one `Layer` per layer of a model, each with full attention or a sliding window.

    Args:
        config: Reader of the model's config.
        unstated_kinds: Type of each layer if the config has no ``layer_types``.
        window: Size of the sliding window in tokens. None is an error if any layer has a window.
    """
    kinds = layer_kinds(config, (FULL, SLIDING), unstated_kinds)
    if SLIDING in kinds and window is None:
        config.refuse("sliding_window", None, f"layers of {SLIDING} need one: give an integer")
    return tuple(Layer(window=window if kind == SLIDING else None) for kind in kinds)


def equal_layers(config: ConfigReader, window: int | None = None) -> tuple[Layer, ...]:
    """Return identical layers, all with a sliding window or all with full attention.

    Args:
        config: Reader of the config. An error is raised if its ``layer_types`` contains another
            attention type.
        window: Size of the window in tokens; None for full attention.
    """
    kind = FULL if window is None else SLIDING
    stated_kinds = config.value("layer_types")
    if stated_kinds is not None and (not isinstance(stated_kinds, list) or any(item != kind for item in stated_kinds)):
        config.refuse("layer_types", stated_kinds, f"supported: {kind} in every layer")
    return (Layer(window=window),) * layer_count(config)


def read_rotary(config: ConfigReader, count: int) -> tuple[bool, ...]:
    """Return, for each layer, whether it uses rotary position embeddings.

    The list ``no_rope_layers`` in the config contains 1 for each layer that uses them, and 0 for
    the others. Without this list, every ``no_rope_layer_interval``-th layer (by default, every
    fourth) does not use them.

    Args:
        config: Reader of the model's config.
        count: Number of layers.
    """
    interval = config.integer("no_rope_layer_interval", 1, LONGEST_CONTEXT, default=4)
    flags = config.integers("no_rope_layers", 0, 1)
    if not flags:
        return tuple((index + 1) % interval != 0 for index in range(count))
    if len(flags) != count:
        config.refuse("no_rope_layers", list(flags), f"give 0 or 1 for each of {count:,} layers")
    return tuple(map(bool, flags))


def alternating_kinds(count: int) -> list[str]:
    """Return the attention type of each layer: alternately a sliding window and full attention.

    The first layer has a window.
    """
    return [FULL if index % 2 else SLIDING for index in range(count)]


def pattern_kinds(config: ConfigReader, count: int, unstated_interval: int) -> list[str]:
    """Return the attention type of each layer: full attention in every n-th layer, else a window.

    Args:
        config: Reader of the model's config, in which ``sliding_window_pattern`` is n.
        count: Number of layers.
        unstated_interval: n if the config does not specify it.
    """
    interval = config.integer("sliding_window_pattern", 1, LONGEST_CONTEXT, default=unstated_interval)
    return [SLIDING if (index + 1) % interval else FULL for index in range(count)]


def qwen_layers(config: ConfigReader, count: int) -> tuple[Layer, ...]:
    """Return the layers of a Qwen2 or Qwen3 model.

    If ``use_sliding_window`` is set, ``layer_types`` determines which layers have a sliding window.
    Without ``layer_types``, these are the layers starting at index ``max_window_layers``.

    Args:
        config: Reader of the model's config.
        count: Number of layers.
    """
    has_window = config.flag("use_sliding_window", default=False)
    window = read_window(config)
    if not has_window:
        config.value("max_window_layers")
        return windowed_layers(config, [FULL] * count, None)
    if not config.is_stated("sliding_window"):
        config.refuse("use_sliding_window", has_window, "add sliding_window, or set it to false")
    if window is None or config.has_value("layer_types"):
        config.value("max_window_layers")
        return windowed_layers(config, [FULL] * count, window)
    first = config.integer("max_window_layers", 0, LONGEST_CONTEXT)
    return windowed_layers(config, [SLIDING if index >= first else FULL for index in range(count)], window)
