"""Mistral: Llama with a sliding window in all layers or in none."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import plain_tensors

UNSTATED_WINDOW: Final = 4096


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a Mistral model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MistralForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    return read_decoder(
        config,
        name,
        unstated_dtype,
        family="mistral",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=equal_layers(config, layer_count(config), read_window(config, UNSTATED_WINDOW)),
    )


FAMILY: Final = Family(model_types=("mistral",), read=read, tensors=plain_tensors)
