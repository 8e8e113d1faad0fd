"""OLMoE: a mixture of experts in every layer, and a norm of all query heads and of all key heads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import add_experts, read_experts
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors
from wse.models.tensors.tensor_names import NAMES


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of an OLMoE model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "OlmoeForCausalLM")
    heads, count = read_heads(config), layer_count(config)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="olmoe",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=add_experts(equal_layers(config, count, None), [True] * count),
    )
    config.require("clip_qkv", (), "clipped queries, keys and values are not supported; supported: null")
    biased = config.flag("attention_bias", default=False)
    experts = read_experts(config, "intermediate_size")
    return replace(
        spec,
        qkv_bias=biased,
        output_bias=biased,
        head_norm="rms_all",
        ffn_size=0,
        experts=replace(experts, normalised=config.flag("norm_topk_prob", default=False)),
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OLMoE model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """
    return expert_tensors(spec, {**NAMES, "router": "mlp.gate.weight"}, file_names)


FAMILY: Final = Family(model_types=("olmoe",), read=read, tensors=tensors)
