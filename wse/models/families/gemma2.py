"""Gemma 2: capped scores and logits, norms before and after blocks, windows, and gated GELU.

Every other layer has a sliding window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import alternating_kinds, layer_count, read_window, windowed_layers
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, POST_NORM_NAMES, canonical_tensors

UNSTATED_HEAD_SIZE: Final = 256
UNSTATED_WINDOW: Final = 4096
ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 2 model from its config.json.

    Two properties are common to the family and do not appear in the config: checkpoints store each
    norm gain minus 1, and embeddings are multiplied by the square root of the hidden size.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Gemma2ForCausalLM")
    window = read_window(config, UNSTATED_WINDOW)
    spec = read_decoder(
        config,
        read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True),
        layers=windowed_layers(config, alternating_kinds(layer_count(config)), window),
        activations=ACTIVATIONS,
        tied=True,
        bias_key="attention_bias",
    )
    config.require("hidden_activation", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")
    config.require("sliding_window_size", (window,), f"contradicts sliding_window = {window}; remove it")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")
    return replace(
        spec,
        attention_scale=config.number("query_pre_attn_scalar", SMALLEST_FACTOR, LARGEST_FACTOR) ** -0.5,
        score_cap=_cap(config, "attn_logit_softcapping", 50.0),
        logit_cap=_cap(config, "final_logit_softcapping", 30.0),
        norm_unit_offset=True,
        post_norms=True,
        embedding_scale=spec.hidden_size**0.5,
    )


def _cap(config: ConfigReader, key: str, default: float) -> float | None:
    """Read a soft cap from the config: ``default`` if absent, None (no cap) if null."""
    if config.is_stated(key) and not config.has_value(key):
        return None
    return config.number(key, SMALLEST_FACTOR, LARGEST_FACTOR, default=default)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Gemma 2 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return canonical_tensors(spec, {**NAMES, **POST_NORM_NAMES, "mlp_norm": "pre_feedforward_layernorm.weight"})


FAMILY: Final = Family(model_types=("gemma2",), read=read, tensors=tensors)
