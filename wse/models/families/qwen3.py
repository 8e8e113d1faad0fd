"""Qwen3: Llama with a root mean square norm of each head's queries and keys before rotation."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import layer_count, qwen_layers
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read_dense(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3 model without experts from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3ForCausalLM")
    spec = read_decoder(
        config,
        read_heads(config, default_size=128, requires_kv_count=True),
        layers=qwen_layers(config, layer_count(config)),
        bias_key="attention_bias",
    )
    return replace(spec, head_norm="rms")


FAMILY: Final = Family(model_types=("qwen3",), read=read_dense, tensors=canonical_tensors)
