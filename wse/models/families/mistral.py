"""Mistral, Ministral 3 and Mixtral: Llama with a sliding window in all layers or in none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wse.models.attention_traits import PositionScale
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, read_text_model, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope import LARGEST_FACTOR
from wse.models.configs.rope_config import LONGEST_CONTEXT, read_rope, rope_table
from wse.models.family import Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import numbered_expert_tensors
from wse.models.tensors.tensor_names import canonical_tensors, text_tensors


def read_mistral(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Mistral model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MistralForCausalLM")
    return read_decoder(
        config,
        read_heads(config, requires_kv_count=True),
        layers=equal_layers(config, read_window(config, unstated_window=4096)),
    )


MISTRAL: Final = Family(model_types=("mistral",), read=read_mistral, tensors=canonical_tensors)

UNSTATED_ROPE: Final[Mapping[str, Any]] = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}

BETA: Final = "llama_4_scaling_beta"


def read_ministral3(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Ministral 3 model from its config.json.

    Its text model is Mistral with YaRN, and queries scaled by their position. Multimodal models
    whose text model is Mistral (``mistral3``) are read here as well.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Mistral3ForConditionalGeneration", "Ministral3ForCausalLM")
    return read_text_model(config, _read_ministral3_text, MINISTRAL3.harmless_keys)


def _read_ministral3_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model.

    The text model of Mistral Small 3.1 and 3.2 has the ``model_type`` ``mistral`` and is read like
    a model of that family.
    """
    if config.value("model_type") == "mistral":
        return read_mistral(config)
    require_class(config, "Ministral3ForCausalLM", "Mistral3ForConditionalGeneration")
    config.require("model_type", ("ministral3",), "give ministral3 or mistral")
    heads = read_heads(config, default_size=128, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, unstated_table=UNSTATED_ROPE, other_keys=(BETA, "max_position_embeddings")),
        layers=equal_layers(config, read_window(config)),
    )
    return replace(spec, position_scale=_position_scale(config))


def _position_scale(config: ConfigReader) -> PositionScale | None:
    """Return the factor by which queries are multiplied, depending on their position.

    The factor increases at each multiple of the original context length. The result is None if the
    config disables the factor with a coefficient of 0, as in Devstral 2 (123B).
    """
    table = rope_table(config, UNSTATED_ROPE)
    if table.value(BETA) == 0:
        return None
    return PositionScale(
        coefficient=table.number(BETA, 0.0, LARGEST_FACTOR),
        floor_tokens=table.integer("original_max_position_embeddings", 1, LONGEST_CONTEXT),
        first=0,
        rotary=True,
    )


MINISTRAL3: Final = Family(
    model_types=("ministral3", "mistral3"),
    read=read_ministral3,
    tensors=text_tensors,
    harmless_keys=frozenset(
        {
            *("vision_config", "image_token_index", "image_token_id", "multimodal_projector_bias"),
            *("projector_hidden_act", "spatial_merge_size", "vision_feature_layer"),
        }
    ),
    harmless_tensors=harmless_names(r"(model\.)?(vision_tower|multi_modal_projector)\..*"),
)


def read_mixtral(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Mixtral model from its config.json.

    Mixtral applies a softmax to the scores of the selected experts. This is equivalent to a softmax
    over all experts that is renormalised over the selected experts, which is the default of
    `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MixtralForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config, heads, rope=read_rope(config, heads.size, base=1e6), layers=equal_layers(config, read_window(config))
    )
    return with_mixture(spec, read_experts(config, "intermediate_size"))


MIXTRAL: Final = Family(model_types=("mixtral",), read=read_mixtral, tensors=numbered_expert_tensors)
