"""Qwen2-MoE (Qwen1.5-MoE): Qwen2 with experts, and a shared expert with a trained gate."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, sparse_step_layers, with_mixture
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES, expert_tensors
from wse.models.tensors.tensor_names import NAMES

UNSTATED_SHARED_SIZE: Final = 5632


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen2-MoE model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen2MoeForCausalLM")
    has_experts = sparse_step_layers(config)
    spec = read_decoder(config, read_heads(config, requires_kv_count=True))
    config.require("use_sliding_window", (False,), "a sliding window is not supported in this family; supported: false")
    experts = replace(
        read_experts(config, "moe_intermediate_size"),
        normalised=config.flag("norm_topk_prob", default=False),
        shared_size=config.integer("shared_expert_intermediate_size", 1, LARGEST_TABLE, default=UNSTATED_SHARED_SIZE),
        shared_gate=True,
    )
    return replace(with_mixture(spec, experts, has_experts), qkv_bias=config.flag("qkv_bias", default=True))


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Qwen2-MoE model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """
    return expert_tensors(spec, {**NAMES, **SCALED_SHARED_NAMES}, file_names)


FAMILY: Final = Family(
    model_types=("qwen2_moe",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"sliding_window", "max_window_layers"}),
)
