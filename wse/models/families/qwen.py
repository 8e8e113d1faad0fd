"""Qwen2 and Qwen3 (also Qwen2.5 and Qwen1.5-MoE), without and with experts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import add_scaled_mixture, read_experts, sparse_step_layers, with_mixture
from wse.models.configs.layer_kinds import equal_layers, layer_count, qwen_layers, read_window
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES, expert_tensors
from wse.models.tensors.tensor_names import canonical_tensors


def read_qwen2(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen2 or Qwen2.5 model from its config.json.

    If the config requests sliding windows, layers starting at a given index have them.

    The query, key and value projections always have biases (``qkv_bias``), although no key of a
    Qwen2 config says so.

    Raises:
        BadModel: A setting is missing, invalid or not supported, such as ``use_mrope``.
    """
    require_class(config, "Qwen2ForCausalLM")
    spec = read_decoder(
        config, read_heads(config, requires_kv_count=True), layers=qwen_layers(config, layer_count(config))
    )
    config.require("use_mrope", (False,), "positions in space are not supported; supported: false")
    return replace(spec, qkv_bias=True)


QWEN2: Final = Family(model_types=("qwen2",), read=read_qwen2, tensors=canonical_tensors)


def read_qwen2_moe(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen2-MoE model from its config.json.

    Qwen2-MoE (Qwen1.5-MoE) is Qwen2 with experts, and a shared expert with a trained gate.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen2MoeForCausalLM")
    has_experts = sparse_step_layers(config)
    spec = read_decoder(config, read_heads(config, requires_kv_count=True))
    config.require("use_sliding_window", (False,), "a sliding window is not supported in this family; supported: false")
    spec = add_scaled_mixture(config, spec, has_experts, unstated_normalised=False, unstated_shared_size=5632)
    return replace(spec, qkv_bias=config.flag("qkv_bias", default=True))


QWEN2_MOE: Final = Family(
    model_types=("qwen2_moe",),
    read=read_qwen2_moe,
    tensors=partial(expert_tensors, names=SCALED_SHARED_NAMES),
    harmless_keys=frozenset({"sliding_window", "max_window_layers"}),
)


def read_qwen3(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3 model without experts from its config.json.

    Qwen3 is Llama with a root mean square norm of each head's queries and keys before rotation.

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


QWEN3: Final = Family(model_types=("qwen3",), read=read_qwen3, tensors=canonical_tensors)


def read_qwen3_moe(config: ConfigReader) -> ModelSpec:
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


QWEN3_MOE: Final = Family(
    model_types=("qwen3_moe",),
    read=read_qwen3_moe,
    tensors=expert_tensors,
    harmless_keys=frozenset({"max_window_layers"}),
)
