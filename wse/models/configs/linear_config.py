"""Read the config keys of models in which most layers have linear attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.attention_traits import LinearAttention
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_HEADS, MAX_WIDTH, read_decoder, read_heads
from wse.models.configs.layer_kinds import FULL, MAX_LAYERS, layer_count, layer_kinds
from wse.models.configs.rope_config import read_rope
from wse.models.spec import Layer, ModelSpec

LINEAR: Final = "linear_attention"
UNSTATED_HEAD_SIZE: Final = 256
UNSTATED_ROTATED_FRACTION: Final = 0.25
UNSTATED_INTERVAL: Final = 4
UNSTATED_SIZES: Final = LinearAttention(key_heads=16, value_heads=32, key_size=128, value_size=128, taps=4)
MAX_TAPS: Final = 64
KEYS_OF_POSITIONS_IN_SPACE: Final = ("mrope_section", "mrope_interleaved")
"""Rotary settings that affect images only. In a text, the three positions of a token are equal."""


def read_hybrid(config: ConfigReader) -> ModelSpec:
    """Return the specification of a hybrid model such as Qwen3-Next.

    Some layers of the model use linear attention. The others use full attention, whose output is
    multiplied by a gate.

    Args:
        config: Reader of the model's config.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    heads = read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(
            config, heads.size, rotated_fraction=UNSTATED_ROTATED_FRACTION, other_keys=KEYS_OF_POSITIONS_IN_SPACE
        ),
        layers=_layers(config),
    )
    biased, linear = config.flag("attention_bias", default=False), read_linear_attention(config, UNSTATED_SIZES)
    return replace(
        spec,
        head_norm="rms",
        qkv_bias=biased,
        output_bias=biased,
        attention_gate=True,
        linear=linear if any(layer.linear for layer in spec.layers) else None,
        norm_unit_offset=True,
    )


def _layers(config: ConfigReader) -> tuple[Layer, ...]:
    """Return one `Layer` per layer of a model, each with full attention or linear attention.

    Without ``layer_types``, every ``full_attention_interval``-th layer has full attention.

    Raises:
        BadModel: A value is impossible, or no layer has full attention.
    """
    count = layer_count(config)
    interval = config.integer("full_attention_interval", 1, MAX_LAYERS, default=UNSTATED_INTERVAL)
    kinds = hybrid_kinds(config, interval)
    if FULL not in kinds:
        remedy = f"no layer has full attention; give at least one of {count:,} layers {FULL}"
        if config.has_value("layer_types"):
            config.refuse("layer_types", [*kinds], remedy)
        config.refuse("full_attention_interval", interval, remedy)
    return tuple(Layer(linear=kind == LINEAR) for kind in kinds)


def hybrid_kinds(config: ConfigReader, interval: int) -> tuple[str, ...]:
    """Return the attention type of each layer: full or linear attention.

    Args:
        config: Reader of the model's config.
        interval: Without ``layer_types``, every ``interval``-th layer has full attention.
    """
    unstated_kinds = [LINEAR if (index + 1) % interval else FULL for index in range(layer_count(config))]
    return layer_kinds(config, (FULL, LINEAR), unstated_kinds)


def read_linear_attention(config: ConfigReader, unstated_sizes: LinearAttention) -> LinearAttention:
    """Return the sizes of linear attention that a config describes.

    Args:
        config: Reader of the model's config.
        unstated_sizes: Sizes that the config may leave out.

    Raises:
        BadModel: A value is impossible, or the number of value heads is not a multiple of the
            number of key heads.
    """
    key_heads = config.integer("linear_num_key_heads", 1, MAX_HEADS, default=unstated_sizes.key_heads)
    value_heads = config.integer("linear_num_value_heads", 1, MAX_HEADS, default=unstated_sizes.value_heads)
    if value_heads % key_heads:
        config.refuse("linear_num_value_heads", value_heads, f"give a multiple of linear_num_key_heads = {key_heads}")
    return replace(
        unstated_sizes,
        key_heads=key_heads,
        value_heads=value_heads,
        key_size=config.integer("linear_key_head_dim", 1, MAX_WIDTH, default=unstated_sizes.key_size),
        value_size=config.integer("linear_value_head_dim", 1, MAX_WIDTH, default=unstated_sizes.value_size),
        taps=config.integer("linear_conv_kernel_dim", 2, MAX_TAPS, default=unstated_sizes.taps),
    )
