"""OLMo 2: a norm of all query heads and of all key heads, and norms only after blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read_olmo2(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 2 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo2ForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    return replace(spec, head_norm="rms_all", pre_norms=False, post_norms=True)


FAMILY: Final = Family(model_types=("olmo2",), read=read_olmo2, tensors=canonical_tensors)
