"""Gemma 4, text model: other heads in layers with windows, and keys that are also values.

One model has experts beside the dense block of each layer. The smallest models also have embeddings
per layer and KV caches that several layers share. These two traits are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wse.models.attention_traits import HeadShape
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import (
    MAX_EXPERTS,
    MAX_HEADS,
    MAX_MATRIX_ROWS,
    MAX_WIDTH,
    Heads,
    read_decoder,
    read_heads,
    read_text_model,
    require_class,
)
from wse.models.configs.expert_config import with_mixture
from wse.models.configs.layer_kinds import layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope_config import KINDS, read_ropes
from wse.models.expert_traits import Experts
from wse.models.families.gemma import ACTIVATIONS, NAMES_OF_FOUR_NORMS, read_cap
from wse.models.family import Family, harmless_names
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import text_tensors

UNIFIED: Final = ("gemma4_unified", "gemma4_unified_text")
"""Types of models without vision encoder. No text model of this kind has embeddings per layer."""

TYPES: Final = ("gemma4", "gemma4_text", *UNIFIED)

CLASSES: Final = tuple(
    f"Gemma4{kind}For{task}" for kind in ("", "Unified") for task in ("ConditionalGeneration", "CausalLM")
)

UNSTATED: Final[Mapping[str, Any]] = {
    "max_position_embeddings": 131_072,
    "sliding_window": 512,
    "hidden_size_per_layer_input": 256,
    "rms_norm_eps": 1e-6,
}
"""Settings that a config may leave out, with the values of transformers' config class."""

UNSTATED_ROPES: Final[Mapping[str, Any]] = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
"""Rotary settings of a config that has none."""

UNSTATED_UNIFIED: Final[Mapping[str, Any]] = {
    **UNSTATED,
    "max_position_embeddings": 262_144,
    "sliding_window": 1024,
    "hidden_size_per_layer_input": 0,
}
"""Settings that a config may leave out, for models without vision encoder."""


def read_gemma4(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 4 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, *CLASSES)
    return read_text_model(config, _read_gemma4_text, FAMILY.harmless_keys)


def _read_gemma4_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    config = config.with_defaults(UNSTATED_UNIFIED if config.value("model_type") in UNIFIED else UNSTATED)
    require_class(config, *CLASSES)
    config.require("model_type", TYPES, f"give {TYPES[1]}")
    _require_supported(config)
    kinds = pattern_kinds(config, layer_count(config), unstated_interval=6)
    layers = windowed_layers(config, kinds, read_window(config))
    layers = (*layers[:-1], Layer())  # transformers gives full attention to the last layer of every model
    window_heads = read_heads(config, default_size=256, requires_kv_count=True)
    heads = _full_heads(config, layers, window_heads)
    rope, window_rope = read_ropes(
        config,
        heads.size,
        base=1e4,
        window_base=1e4,
        window_key=None,
        window_head_size=window_heads.size,
        kinds={**KINDS, "proportional": "proportional"},
        unstated_table=UNSTATED_ROPES,
    )
    spec = read_decoder(
        config, heads, rope=rope, layers=layers, activations=ACTIVATIONS, tied=True, bias_key="attention_bias"
    )
    if config.flag("enable_moe_block", default=False):
        spec = with_mixture(spec, _read_experts(config, spec.ffn_size))
    return replace(
        spec,
        attention_scale=1.0,
        window_rope=window_rope,
        window_heads=HeadShape(kv_count=window_heads.kv_count, size=window_heads.size),
        head_norm="rms",
        value_norm=True,
        keys_as_values=config.flag("attention_k_eq_v", default=False),
        post_norms=True,
        stream_scale=True,
        embedding_scale=spec.hidden_size**0.5,
        logit_cap=read_cap(config, "final_logit_softcapping", None),
    )


def _require_supported(config: ConfigReader) -> None:
    """Check the config keys for which only one value is supported."""
    config.require("hidden_size_per_layer_input", (0,), "embeddings per layer are not supported; supported: 0")
    config.require("num_kv_shared_layers", (0,), "layers that share a KV cache are not supported; supported: 0")
    config.require("hidden_activation", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")
    config.require("use_bidirectional_attention", ("vision",), "text must be causal; supported: null, vision")


def _read_experts(config: ConfigReader, dense_size: int) -> Experts:
    """Return the experts beside the dense block of a layer, which serves as their shared expert.

    Args:
        config: Reader of the model's config.
        dense_size: Width of the dense block.
    """
    count = config.integer("num_experts", 1, MAX_EXPERTS)
    return Experts(
        count=count,
        active=config.integer("top_k_experts", 1, count),
        ffn_size=config.integer("moe_intermediate_size", 1, MAX_MATRIX_ROWS),
        shared_size=dense_size,
        separate_norms=True,
        expert_scale=True,
    )


def _full_heads(config: ConfigReader, layers: tuple[Layer, ...], window_heads: Heads) -> Heads:
    """Return the heads of layers with full attention.

    Published configs have the keys ``global_head_dim`` and ``num_global_key_value_heads``. The
    latter applies only if keys are also values. transformers writes the table ``per_layer_config``
    instead.

    Args:
        config: Reader of the model's config.
        layers: The layers of the model.
        window_heads: Heads of layers with a sliding window.

    Raises:
        BadModel: A value is impossible, or layers with full attention have different heads.
    """
    count_key, count = "num_global_key_value_heads", window_heads.kv_count
    stated_count = config.integer(count_key, 1, MAX_HEADS, default=count)
    size_key, size = "global_head_dim", config.integer("global_head_dim", 2, MAX_WIDTH, default=512)
    if config.flag("attention_k_eq_v", default=False):
        count = stated_count
    if (table := _settings_of_full_layers(config, layers)) is not None:
        count_key, count = (
            "num_key_value_heads",
            table.integer("num_key_value_heads", 1, MAX_HEADS, window_heads.kv_count),
        )
        size_key, size = "head_dim", table.integer("head_dim", 2, MAX_WIDTH, window_heads.size)
        table.finish(())
    reader = config if table is None else table
    if window_heads.count % count:
        reader.refuse(count_key, count, f"give a divisor of num_attention_heads = {window_heads.count}")
    if size % 2:
        reader.refuse(size_key, size, "rotary positions pair features of a head: give an even size")
    return Heads(count=window_heads.count, kv_count=count, size=size)


def _settings_of_full_layers(config: ConfigReader, layers: tuple[Layer, ...]) -> ConfigReader | None:
    """Return the settings that ``per_layer_config`` has for layers with full attention, None without it.

    Raises:
        BadModel: The table has different settings for these layers, or settings for other layers.
    """
    table = config.table("per_layer_config")
    if table is None:
        return None
    full_layers = [str(index) for index, layer in enumerate(layers) if layer.window is None]
    settings = [table.table(key) for key in full_layers]
    first, values = settings[0], [table.value(key) for key in full_layers]
    if first is None or sorted(table.keys()) != sorted(full_layers) or any(value != values[0] for value in values):
        remedy = "give all layers of full_attention the same settings, and no others"
        config.refuse("per_layer_config", config.value("per_layer_config"), remedy)
    return first


TENSOR_NAMES: Final[Mapping[str, str]] = {
    **NAMES_OF_FOUR_NORMS,
    "stream_scale": "layer_scalar",
    **{f"shared.{part}": f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
    "shared_post_norm": "post_feedforward_layernorm_1.weight",
    "router": "router.proj.weight",
    "router_norm": "router.scale",
    "expert_scale": "router.per_expert_scale",
    "expert_norm": "pre_feedforward_layernorm_2.weight",
    "expert_post_norm": "post_feedforward_layernorm_2.weight",
}

FAMILY: Final = Family(
    model_types=TYPES,
    read=read_gemma4,
    tensors=partial(
        text_tensors, names=TENSOR_NAMES, rules=(partial(stacked_slices, block="experts", transposed=False),)
    ),
    harmless_keys=frozenset(
        {
            *("vision_config", "audio_config", "vision_soft_tokens_per_image", "use_double_wide_mlp"),
            *("image_token_id", "video_token_id", "audio_token_id", "boi_token_id", "eoi_token_id"),
            *("boa_token_id", "eoa_token_id", "eoa_token_index", "vocab_size_per_layer_input"),
        }
    ),
    harmless_tensors=harmless_names(r"(model\.)?(vision_tower|embed_vision|audio_tower|embed_audio)\..*"),
)
