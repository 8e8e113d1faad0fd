"""Gemma 2: capped scores and logits, norms before and after each block, every other layer windowed, gated GELU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import alternating_kinds, read_window, windowed_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, wanted_tensors

UNSTATED_HEAD_SIZE: Final = 256
UNSTATED_WINDOW: Final = 4096
ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh"}


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a Gemma 2 config.

    Gains are stored minus one; embeddings are scaled by the root of the hidden size.
    """
    require_class(config, "Gemma2ForCausalLM")
    heads = read_heads(config, size=UNSTATED_HEAD_SIZE, kv_count=True)
    window = read_window(config, UNSTATED_WINDOW)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="gemma2",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=windowed_layers(config, alternating_kinds(layer_count(config)), window),
        activations=ACTIVATIONS,
        activation_key="hidden_activation",
        tied=True,
    )
    config.require("hidden_act", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")  # the same, in older configs
    config.require("sliding_window_size", (window,), f"contradicts sliding_window = {window}; remove it")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")
    biased = config.flag("attention_bias", default=False)
    return replace(
        spec,
        attention_scale=config.number("query_pre_attn_scalar", 0.0, 1e6) ** -0.5,
        score_cap=_cap(config, "attn_logit_softcapping", 50.0),
        logit_cap=_cap(config, "final_logit_softcapping", 30.0),
        qkv_bias=biased,
        output_bias=biased,
        norm_unit_offset=True,
        post_norms=True,
        embedding_scale=spec.hidden_size**0.5,
    )


def _cap(config: ConfigReader, key: str, unstated: float) -> float | None:
    """Return the cap under a key; none where it is null."""
    if config.is_stated(key) and not config.has(key):
        return None
    return config.number(key, 0.0, 1e6, default=unstated)


NORM_NAMES: Final = {
    "post_attention_norm": "post_attention_layernorm.weight",
    "mlp_norm": "pre_feedforward_layernorm.weight",
    "post_mlp_norm": "post_feedforward_layernorm.weight",
}


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a Gemma 2 checkpoint."""
    return wanted_tensors(spec, {**NAMES, **NORM_NAMES})


FAMILY: Final = Family(model_types=("gemma2",), read=read, tensors=tensors)
