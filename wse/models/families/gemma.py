"""Gemma, Gemma 2 and the text model of Gemma 3: gated GELU and scaled embeddings.

Two properties do not appear in a config: checkpoints store each norm gain minus 1, and embeddings
are multiplied by the square root of the hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, read_text_model, require_class
from wse.models.configs.layer_kinds import alternating_kinds, layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import read_ropes
from wse.models.family import Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, canonical_tensors, text_tensors

ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh"}


def read_gemma(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma model from its config.json.

    The activation name ``gelu`` means the tanh approximation, with which Gemma was trained (source:
    transformers pull request 29402).

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GemmaForCausalLM")
    spec = read_decoder(
        config,
        read_heads(config, default_size=256, requires_kv_count=True),
        activations={**ACTIVATIONS, "gelu": "gelu_tanh"},
        tied=True,
        bias_key="attention_bias",
    )
    require_gemma(config)
    return replace(spec, norm_unit_offset=True, embedding_scale=spec.hidden_size**0.5)


def require_gemma(config: ConfigReader) -> None:
    """Check the config keys for which all Gemma models support only one value."""
    config.require("hidden_activation", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")


GEMMA: Final = Family(model_types=("gemma",), read=read_gemma, tensors=canonical_tensors)


def read_gemma2(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 2 model from its config.json.

    Gemma 2 is Gemma with capped scores and logits, and norms before and after blocks. Every other
    layer has a sliding window.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Gemma2ForCausalLM")
    window = read_window(config, unstated_window=4096)
    spec = read_decoder(
        config,
        read_heads(config, default_size=256, requires_kv_count=True),
        layers=windowed_layers(config, alternating_kinds(layer_count(config)), window),
        activations=ACTIVATIONS,
        tied=True,
        bias_key="attention_bias",
    )
    require_gemma(config)
    config.require("sliding_window_size", (window,), f"contradicts sliding_window = {window}; remove it")
    return replace(
        spec,
        attention_scale=config.number("query_pre_attn_scalar", SMALLEST_FACTOR, LARGEST_FACTOR) ** -0.5,
        score_cap=read_cap(config, "attn_logit_softcapping", 50.0),
        logit_cap=read_cap(config, "final_logit_softcapping", 30.0),
        norm_unit_offset=True,
        post_norms=True,
        embedding_scale=spec.hidden_size**0.5,
    )


def read_cap(config: ConfigReader, key: str, default: float | None) -> float | None:
    """Read a soft cap from the config: ``default`` if absent, None (no cap) if null."""
    if config.has_value(key):
        return config.number(key, SMALLEST_FACTOR, LARGEST_FACTOR)
    return None if config.is_stated(key) else default


NAMES_OF_FOUR_NORMS: Final = {**NAMES, "mlp_norm": "pre_feedforward_layernorm.weight"}

GEMMA2: Final = Family(
    model_types=("gemma2",), read=read_gemma2, tensors=partial(canonical_tensors, names=NAMES_OF_FOUR_NORMS)
)

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

    Its text model is Gemma 2 without caps, with query and key norms per head and two rotary bases.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Gemma3ForConditionalGeneration", "Gemma3ForCausalLM")
    return read_text_model(config, _read_gemma3_text, GEMMA3.harmless_keys)


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


GEMMA3: Final = Family(
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
