"""Gemma 3, text model: Gemma 2 without caps, with query and key norms per head and two rotary bases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, read_text_model, require_class
from wse.models.configs.layer_kinds import (
    layer_count,
    pattern_kinds,
    read_window,
    windowed_layers,
)
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import read_ropes
from wse.models.families.gemma import ACTIVATIONS, require_gemma
from wse.models.families.gemma2 import NAMES_OF_FOUR_NORMS
from wse.models.family import Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import text_tensors

UNSTATED: Final[Mapping[str, Any]] = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-6,
    "query_pre_attn_scalar": 256,
}
"""Settings that published configs of Gemma 3 leave out, with the values of transformers' config class."""


def read_gemma3(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 3 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Gemma3ForConditionalGeneration", "Gemma3ForCausalLM")
    return read_text_model(config, _read_gemma3_text, FAMILY.harmless_keys)


def _read_gemma3_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    config = config.with_defaults(UNSTATED)
    require_class(config, "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
    config.require("model_type", ("gemma3", "gemma3_text"), "give gemma3_text")
    heads = read_heads(config)
    rope, window_rope = read_ropes(config, heads.size, base=1e6, window_base=1e4, window_key="rope_local_base_freq")
    kinds = pattern_kinds(config, layer_count(config), unstated_interval=6)
    spec = read_decoder(
        config,
        heads,
        rope=rope,
        layers=windowed_layers(config, kinds, read_window(config, unstated_window=4096)),
        activations=ACTIVATIONS,
        tied=True,
        bias_key="attention_bias",
    )
    require_gemma(config)
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        config.require(key, (), "caps are not supported in this family; supported: null")
    return replace(
        spec,
        attention_scale=config.number("query_pre_attn_scalar", SMALLEST_FACTOR, LARGEST_FACTOR) ** -0.5,
        window_rope=window_rope,
        head_norm="rms",
        norm_unit_offset=True,
        post_norms=True,
        embedding_scale=spec.hidden_size**0.5,
    )


FAMILY: Final = Family(
    model_types=("gemma3", "gemma3_text"),
    read=read_gemma3,
    tensors=partial(text_tensors, names=NAMES_OF_FOUR_NORMS),
    harmless_keys=frozenset(
        {
            *("vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"),
            *("_sliding_window_pattern",),
        }
    ),
    harmless_tensors=harmless_names(r"(model\.)?(vision_tower|multi_modal_projector)\..*"),
)
