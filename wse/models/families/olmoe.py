"""OLMoE: a mixture of experts in every layer, and a norm of all query heads and of all key heads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors
from wse.models.tensors.tensor_names import NAMES


def read(config: ConfigReader) -> ModelSpec:
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


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OLMoE model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """
    return expert_tensors(spec, {**NAMES, "router": "mlp.gate.weight"}, file_names)


FAMILY: Final = Family(model_types=("olmoe",), read=read, tensors=tensors)
