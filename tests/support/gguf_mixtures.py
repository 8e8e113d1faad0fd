"""Conversion of mixture-of-experts checkpoints to GGUF, and functions that all architectures use. See `as_gguf`."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
Config = Mapping[str, Any]
Converted = tuple[dict[str, Any], Tensors]
BASE = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"self_attn.{x}_norm": f"attn_{x}_norm" for x in "qk"},
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
}
TABLES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def common_metadata(name: str, config: Config) -> dict[str, Any]:
    """Return the metadata that all architectures except GPT-2 have; ``name`` is the GGUF name of the architecture."""
    scaling = config["rope_parameters"]
    converted: dict[str, Any] = {
        "general.architecture": name,
        "general.name": "random",
        f"{name}.block_count": config["num_hidden_layers"],
        f"{name}.context_length": config["max_position_embeddings"],
        f"{name}.embedding_length": config["hidden_size"],
        f"{name}.feed_forward_length": config["intermediate_size"],
        f"{name}.attention.head_count": config["num_attention_heads"],
        f"{name}.attention.head_count_kv": config["num_key_value_heads"],
        f"{name}.rope.freq_base": float(scaling["rope_theta"]),
        f"{name}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{name}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
    }
    if scaling["rope_type"] == "yarn":
        converted |= {
            f"{name}.rope.scaling.type": "yarn",
            f"{name}.rope.scaling.factor": float(scaling["factor"]),
            f"{name}.rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
        }
    return converted


def head_sizes(name: str, size: int) -> dict[str, Any]:
    """Return the metadata of a head size that does not follow from the other sizes."""
    return {f"{name}.attention.key_length": size, f"{name}.attention.value_length": size}


def rename_tensors(tensors: Mapping[str, Array], layer: Mapping[str, str] = {}) -> Tensors:
    """Rename tensors to their GGUF names. Unknown names, such as those of experts, are kept.

    Args:
        tensors: Tensors by Hugging Face name.
        layer: Additional names within a layer, or names that replace those of `BASE`.
    """
    names = BASE | dict(layer)
    result = {}
    for name, array in tensors.items():
        stem, _, suffix = name.rpartition(".")
        match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
        if match is None:
            result[f"{TABLES[stem]}.{suffix}"] = array
        elif match[2] in names:
            result[f"blk.{match[1]}.{names[match[2]]}.{suffix}"] = array
        else:
            result[name] = array
    return result


def interleave_rotated_pairs(array: Array, heads: int) -> Array:
    """Reorder the rows of a query or key matrix so that the two rows of each rotated pair are adjacent.

    In the input, the rows of a pair are half a head apart.
    """
    return array.reshape(heads, 2, len(array) // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def stack_experts(tensors: Tensors, pattern: str, names: Mapping[str, str]) -> Tensors:
    """Stack the matrices of single experts into one tensor per layer and kind.

    Args:
        tensors: All tensors; those that do not match are kept.
        pattern: Regular expression with the groups layer, expert and kind.
        names: GGUF name of each kind: gate, up or down.
    """
    result, stacks = {}, {}
    for name, array in tensors.items():
        match = re.fullmatch(pattern, name)
        if match is None:
            result[name] = array
        else:
            stacks[f"blk.{match[1]}.ffn_{names[match[3]]}_exps.weight", int(match[2])] = array
    for key in dict.fromkeys(name for name, _ in stacks):
        result[key] = np.stack([array for (name, _), array in sorted(stacks.items()) if name == key])
    return result


EXPERTS = r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight"
GGUF_KINDS = {name: name for name in ("gate", "up", "down")}


def qwen3_moe(config: Config, tensors: Tensors) -> Converted:
    """Convert Qwen3-MoE."""
    metadata = common_metadata("qwen3moe", config) | head_sizes("qwen3moe", config["head_dim"])
    metadata |= {
        "qwen3moe.expert_count": config["num_local_experts"],
        "qwen3moe.expert_used_count": config["num_experts_per_tok"],
        "qwen3moe.expert_feed_forward_length": config["moe_intermediate_size"],
    }
    return metadata, stack_experts(rename_tensors(tensors, {"mlp.gate": "ffn_gate_inp"}), EXPERTS, GGUF_KINDS)


def gpt_oss(config: Config, tensors: Tensors) -> Converted:
    """Convert gpt-oss; gate and up are separated and matrices are transposed to [out, in]."""
    metadata = common_metadata("gpt-oss", config) | head_sizes("gpt-oss", config["head_dim"])
    metadata |= {
        "gpt-oss.attention.sliding_window": config["sliding_window"],
        "gpt-oss.expert_count": config["num_local_experts"],
        "gpt-oss.expert_used_count": config["num_experts_per_tok"],
        "gpt-oss.expert_feed_forward_length": config["intermediate_size"],
    }
    names = {"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp"}
    converted = {}
    other_tensors = {name: array for name, array in tensors.items() if ".experts." not in name and "sinks" not in name}
    for name, array in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.(?:self_attn|mlp\.experts)\.(.+)", name)
        if match is None or name in other_tensors:
            continue
        prefix, name_in_layer = f"blk.{match[1]}.", match[2]
        if name_in_layer == "sinks":
            converted[f"{prefix}attn_sinks.weight"] = array
        elif name_in_layer == "gate_up_proj":
            converted[f"{prefix}ffn_gate_exps.weight"] = array[:, :, 0::2].swapaxes(1, 2)
            converted[f"{prefix}ffn_up_exps.weight"] = array[:, :, 1::2].swapaxes(1, 2)
        elif name_in_layer == "gate_up_proj_bias":
            converted[f"{prefix}ffn_gate_exps.bias"] = array[:, 0::2]
            converted[f"{prefix}ffn_up_exps.bias"] = array[:, 1::2]
        elif name_in_layer == "down_proj":
            converted[f"{prefix}ffn_down_exps.weight"] = array.swapaxes(1, 2)
        else:
            converted[f"{prefix}ffn_down_exps.bias"] = array
    return metadata, rename_tensors(other_tensors, names) | converted


def llama4(config: Config, tensors: Tensors) -> Converted:
    """Convert Llama 4; gate and up are separated and matrices transposed to [out, in]; queries and keys are kept."""
    name = "llama4"
    metadata = common_metadata(name, config) | head_sizes(name, config["head_dim"])
    metadata |= {
        f"{name}.rope.dimension_count": config["head_dim"],
        f"{name}.feed_forward_length": config["intermediate_size_mlp"],
        f"{name}.expert_feed_forward_length": config["intermediate_size"],
        f"{name}.interleave_moe_layer_step": config["interleave_moe_layer_step"],
        f"{name}.expert_count": config["num_local_experts"],
        f"{name}.expert_used_count": config["num_experts_per_tok"],
    }
    names = {
        **{f"feed_forward.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
        **{f"feed_forward.shared_expert.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")},
        "feed_forward.router": "ffn_gate_inp",
    }
    converted = rename_tensors({key: array for key, array in tensors.items() if ".experts." not in key}, names)
    for key, array in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.feed_forward\.experts\.(.+)", key)
        if match is None:
            continue
        if match[2] == "gate_up_proj":
            gate, up = np.split(array.swapaxes(1, 2), 2, axis=1)
            converted |= {f"blk.{match[1]}.ffn_gate_exps.weight": gate, f"blk.{match[1]}.ffn_up_exps.weight": up}
        else:
            converted[f"blk.{match[1]}.ffn_down_exps.weight"] = array.swapaxes(1, 2)
    return metadata, converted


EXPERT_NAMES = {
    **{f"mlp.shared_experts.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")},
    "mlp.gate": "ffn_gate_inp",
}


def _expert_metadata(name: str, config: Config) -> dict[str, Any]:
    return {
        f"{name}.leading_dense_block_count": config["first_k_dense_replace"],
        f"{name}.expert_count": config["n_routed_experts"],
        f"{name}.expert_used_count": config["num_experts_per_tok"],
        f"{name}.expert_shared_count": config["n_shared_experts"],
        f"{name}.expert_feed_forward_length": config["moe_intermediate_size"],
        f"{name}.expert_weights_scale": config["routed_scaling_factor"],
        f"{name}.expert_weights_norm": config["norm_topk_prob"],
        f"{name}.expert_gating_func": 2,
        f"{name}.expert_group_count": config["n_group"],
        f"{name}.expert_group_used_count": config["topk_group"],
    }


def _rename_corrections(converted: Tensors) -> Tensors:
    old = re.compile(r"model\.layers\.(\d+)\.mlp\.gate\.e_score_correction_bias|blk\.(\d+)\.ffn_gate_inp\.e_score.*")
    result = {}
    for name, array in converted.items():
        match = old.fullmatch(name)
        result[f"blk.{match[1] or match[2]}.exp_probs_b.bias" if match else name] = array
    return result


def glm4_moe(config: Config, tensors: Tensors) -> Converted:
    """Convert GLM-4-MoE; one tensor of an additional layer for multi-token prediction is added."""
    name, size = "glm4moe", config["head_dim"]
    metadata = common_metadata(name, config) | head_sizes(name, size) | _expert_metadata(name, config)
    metadata[f"{name}.block_count"] = config["num_hidden_layers"] + 1
    metadata[f"{name}.nextn_predict_layers"] = 1
    metadata[f"{name}.rope.dimension_count"] = int(size * config["rope_parameters"]["partial_rotary_factor"])
    converted = rename_tensors(tensors, EXPERT_NAMES | {"post_attention_layernorm": "post_attention_norm"})
    converted = stack_experts(_rename_corrections(converted), EXPERTS, GGUF_KINDS)
    converted[f"blk.{config['num_hidden_layers']}.nextn.enorm.weight"] = np.ones(4, np.float32)
    return metadata, converted


def deepseek(config: Config, tensors: Tensors) -> Converted:
    """Convert DeepSeek-V3; ``kv_b_proj`` is split into keys and values, as for a compressed cache."""
    name, heads = "deepseek2", config["num_attention_heads"]
    nope, rotated, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    rank = config["kv_lora_rank"]
    metadata = common_metadata(name, config) | _expert_metadata(name, config)
    metadata |= {
        f"{name}.attention.head_count_kv": 1,
        f"{name}.attention.kv_lora_rank": rank,
        f"{name}.attention.key_length": rank + rotated,
        f"{name}.attention.value_length": rank,
        f"{name}.attention.key_length_mla": nope + rotated,
        f"{name}.attention.value_length_mla": value,
        f"{name}.rope.dimension_count": rotated,
    }
    if config["q_lora_rank"] is not None:
        metadata[f"{name}.attention.q_lora_rank"] = config["q_lora_rank"]
    if config["rope_parameters"]["rope_type"] == "yarn":
        metadata[f"{name}.rope.scaling.yarn_log_multiplier"] = 0.1 * config["rope_parameters"]["mscale_all_dim"]
    names = {
        **{f"self_attn.{x}_proj": f"attn_{x}" for x in ("q_a", "q_b", "kv_b")},
        "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
        "self_attn.q_a_layernorm": "attn_q_a_norm",
        "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    }
    converted = stack_experts(_rename_corrections(rename_tensors(tensors, EXPERT_NAMES | names)), EXPERTS, GGUF_KINDS)
    for key in [key for key in converted if ".attn_kv_b." in key]:
        keys_and_values = converted.pop(key).reshape(heads, nope + value, rank)
        converted[key.replace("kv_b", "k_b")] = keys_and_values[:, :nope].swapaxes(1, 2)
        converted[key.replace("kv_b", "v_b")] = keys_and_values[:, nope:]
    return metadata, converted
