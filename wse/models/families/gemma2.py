"""Gemma 2: Gemma with capped scores and logits, norms before and after blocks, and windows.

Every other layer has a sliding window.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import (
    alternating_kinds,
    layer_count,
    read_window,
    windowed_layers,
)
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.families.gemma import ACTIVATIONS, require_gemma
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, canonical_tensors


def read_gemma2(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 2 model from its config.json.

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

FAMILY: Final = Family(
    model_types=("gemma2",),
    read=read_gemma2,
    tensors=partial(canonical_tensors, names=NAMES_OF_FOUR_NORMS),
)
