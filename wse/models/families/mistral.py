"""Mistral: Llama with a sliding window in all layers or in none."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


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


FAMILY: Final = Family(model_types=("mistral",), read=read_mistral, tensors=canonical_tensors)
