"""Qwen3: Llama with a root mean square norm of each head's queries and keys before rotation."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import qwen_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import plain_tensors

UNSTATED_HEAD_SIZE: Final = 128


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a Qwen3 model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3ForCausalLM")
    heads = read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="qwen3",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=qwen_layers(config, layer_count(config)),
    )
    biased = config.flag("attention_bias", default=False)
    return replace(spec, head_norm="rms", qkv_bias=biased, output_bias=biased)


FAMILY: Final = Family(model_types=("qwen3",), read=read, tensors=plain_tensors)
