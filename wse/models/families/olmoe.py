"""OLMoE: a mixture of experts in every layer, and a norm of all query heads and of all key heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors


def read_olmoe(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMoE model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "OlmoeForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    config.require("clip_qkv", (), "clipped queries, keys and values are not supported; supported: null")
    normalised = config.flag("norm_topk_prob", default=False)
    experts = replace(read_experts(config, "intermediate_size"), normalised=normalised)
    return replace(with_mixture(spec, experts), head_norm="rms_all")


FAMILY: Final = Family(model_types=("olmoe",), read=read_olmoe, tensors=expert_tensors)
