"""Mistral: Llama with a sliding window in all layers or in none."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import plain_tensors

UNSTATED_WINDOW: Final = 4096


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Mistral model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MistralForCausalLM")
    return read_decoder(
        config,
        read_heads(config, requires_kv_count=True),
        layers=equal_layers(config, read_window(config, UNSTATED_WINDOW)),
    )


FAMILY: Final = Family(model_types=("mistral",), read=read, tensors=plain_tensors)
