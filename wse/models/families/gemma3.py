"""Gemma 3, text model only: Gemma 2 without caps, with norms of heads and two rotary bases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, read_text_model, require_class
from wse.models.configs.layer_kinds import layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import read_ropes
from wse.models.family import CanonicalTensor, Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, POST_NORM_NAMES, text_tensors

UNSTATED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 256,
    }
)
"""Settings that published configs leave out, with the values of transformers' config class."""
UNSTATED_WINDOW: Final = 4096
UNSTATED_INTERVAL: Final = 6
UNSTATED_BASE, UNSTATED_WINDOW_BASE = 1e6, 1e4
ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma 3 model from its config.json.

    If the model is multimodal, only its text model (``text_config``) is read.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Gemma3ForConditionalGeneration", "Gemma3ForCausalLM")
    return read_text_model(config, _read_text, FAMILY.harmless_keys)


def _read_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    config = config.with_defaults(UNSTATED)
    require_class(config, "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
    config.require("model_type", ("gemma3", "gemma3_text"), "give gemma3_text")
    heads = read_heads(config)
    rope, window_rope = read_ropes(
        config,
        heads.size,
        base=UNSTATED_BASE,
        window_base=UNSTATED_WINDOW_BASE,
        window_key="rope_local_base_freq",
    )
    kinds = pattern_kinds(config, layer_count(config), UNSTATED_INTERVAL)
    spec = read_decoder(
        config,
        heads,
        rope=rope,
        layers=windowed_layers(config, kinds, read_window(config, UNSTATED_WINDOW)),
        activations=ACTIVATIONS,
        tied=True,
        bias_key="attention_bias",
    )
    config.require("hidden_activation", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")
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


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Gemma 3 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect a multimodal model.
    """
    return text_tensors(spec, {**NAMES, **POST_NORM_NAMES, "mlp_norm": "pre_feedforward_layernorm.weight"}, file_names)


FAMILY: Final = Family(
    model_types=("gemma3", "gemma3_text"),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset(
        {
            *("vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"),
            *("_sliding_window_pattern",),
        }
    ),
    harmless_tensors=harmless_names(r"(model\.)?(vision_tower|multi_modal_projector)\..*"),
)
