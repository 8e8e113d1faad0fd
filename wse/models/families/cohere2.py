"""Cohere 2 (Command R7B, Command A): Cohere with sliding windows in most layers, and no RoPE in the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.configs.layer_kinds import layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope_config import ORIGINAL_BASE
from wse.models.families.cohere import read_with_layers, tensors
from wse.models.family import Family
from wse.models.spec import ModelSpec


def read_cohere2(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Cohere 2 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Cohere2ForCausalLM")
    kinds = pattern_kinds(config, layer_count(config), unstated_interval=4)
    layers = windowed_layers(config, kinds, read_window(config, unstated_window=4096))
    layers = tuple(replace(layer, rotary=layer.window is not None) for layer in layers)
    spec = read_with_layers(config, layers=layers, base=ORIGINAL_BASE)
    config.require("head_dim", (spec.head_size,), f"is hidden_size / num_attention_heads = {spec.head_size}")
    config.require("position_embedding_type", ("rope_gptj",), "supported: rope_gptj")
    config.require("order_of_interleaved_layers", ("local_attn_first",), "supported: local_attn_first")
    config.require("rotary_pct", (1.0, 1), "whole heads are rotated; supported: 1.0")
    config.require("use_gated_activation", (True,), "supported: true")
    config.require("use_parallel_block", (True,), "supported: true")
    config.require("use_qk_norm", (False,), "supported: false")
    return spec


FAMILY: Final = Family(
    model_types=("cohere2",),
    read=read_cohere2,
    tensors=tensors,
    harmless_keys=frozenset(
        {"layer_switch", "use_embedding_sharing", "use_parallel_embedding", "_sliding_window_pattern"}
    ),
)
