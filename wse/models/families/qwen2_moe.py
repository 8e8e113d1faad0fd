"""Qwen2-MoE (Qwen1.5-MoE): Qwen2 with experts, and a shared expert with a trained gate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, sparse_step_layers, with_mixture
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES, expert_tensors


def read_mixture(config: ConfigReader) -> ModelSpec:
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
        shared_size=config.integer("shared_expert_intermediate_size", 1, LARGEST_TABLE, default=5632),
        shared_gate=True,
    )
    return replace(with_mixture(spec, experts, has_experts), qkv_bias=config.flag("qkv_bias", default=True))


FAMILY: Final = Family(
    model_types=("qwen2_moe",),
    read=read_mixture,
    tensors=partial(expert_tensors, names=SCALED_SHARED_NAMES),
    harmless_keys=frozenset({"sliding_window", "max_window_layers"}),
)
