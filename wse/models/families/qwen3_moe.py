"""Qwen3-MoE: Qwen3 with a mixture of experts in most layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, sparse_step_layers, with_mixture
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors


def read_mixture(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3-MoE model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3MoeForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    has_experts = sparse_step_layers(config)
    spec = read_decoder(config, heads, layers=_mixture_layers(config), bias_key="attention_bias")
    normalised = config.flag("norm_topk_prob", default=False)
    experts = replace(read_experts(config, "moe_intermediate_size"), normalised=normalised)
    config.require("use_qk_norm", (True,), "heads are always normalised; supported: true")
    config.require("qkv_bias", (False,), "name biases with attention_bias; supported: false")
    config.require("shared_expert_intermediate_size", (0,), "there is no shared expert; supported: 0")
    return replace(with_mixture(spec, experts, has_experts), head_norm="rms")


def _mixture_layers(config: ConfigReader) -> tuple[Layer, ...]:
    """Return identical layers, with a sliding window if ``use_sliding_window`` is set.

    Unlike in Qwen3 without experts, ``max_window_layers`` has no effect.
    """
    window = read_window(config)
    has_window = config.flag("use_sliding_window", default=False)
    if has_window and not config.is_stated("sliding_window"):
        config.refuse("use_sliding_window", has_window, "add sliding_window, or set it to false")
    return equal_layers(config, window if has_window else None)


FAMILY: Final = Family(
    model_types=("qwen3_moe",),
    read=read_mixture,
    tensors=expert_tensors,
    harmless_keys=frozenset({"max_window_layers"}),
)
