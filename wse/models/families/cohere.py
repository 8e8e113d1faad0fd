"""Cohere (Command R, Command R7B, Command A): parallel blocks and scaled logits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import ORIGINAL_BASE, read_rope
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import NAMES, adjacent_pairs, canonical_tensors


def read_cohere(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Cohere model from its config.json.

    Blocks are parallel and share a layer norm without bias. Logits are scaled.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "CohereForCausalLM")
    config.require("use_qk_norm", (False,), "layer norms of heads are not supported; supported: false")
    return read_with_layers(config, layers=equal_layers(config), base=500_000.0)


def read_with_layers(config: ConfigReader, *, layers: tuple[Layer, ...], base: float) -> ModelSpec:
    """Return the specification of a Cohere or Cohere 2 model with the given layers.

    Args:
        config: Reader of the keys in config.json.
        layers: Layers of the model.
        base: Base of the rotary frequencies if the config does not specify one.
    """
    heads = read_heads(config)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=base),
        layers=layers,
        eps_key="layer_norm_eps",
        tied=True,
        bias_key="attention_bias",
    )
    return replace(
        spec,
        norm="layer",
        norm_bias=False,
        parallel_blocks=True,
        logit_scale=config.number("logit_scale", SMALLEST_FACTOR, LARGEST_FACTOR, default=0.0625),
    )


tensors: Final = partial(
    canonical_tensors, names={**NAMES, "mlp_norm": NAMES["attention_norm"]}, rules=(adjacent_pairs,)
)

COHERE: Final = Family(model_types=("cohere",), read=read_cohere, tensors=tensors)


def read_cohere2(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Cohere 2 model from its config.json.

    A Cohere 2 model is a Cohere model with sliding windows in most layers and no RoPE in the others.

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


COHERE2: Final = Family(
    model_types=("cohere2",),
    read=read_cohere2,
    tensors=tensors,
    harmless_keys=frozenset(
        {"layer_switch", "use_embedding_sharing", "use_parallel_embedding", "_sliding_window_pattern"}
    ),
)
