"""Mixtures of experts as llama.cpp's converter would write them to GGUF, one function an architecture."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
Config = Mapping[str, Any]
Made = tuple[dict[str, Any], Tensors]
BASE = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"self_attn.{x}_norm": f"attn_{x}_norm" for x in "qk"},
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
}
TABLES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def common(name: str, config: Config) -> dict[str, Any]:
    """Metadata of all except GPT-2."""
    scaling = config["rope_parameters"]
    made: dict[str, Any] = {
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
        made |= {
            f"{name}.rope.scaling.type": "yarn",
            f"{name}.rope.scaling.factor": float(scaling["factor"]),
            f"{name}.rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
        }
    return made


def head_sizes(name: str, size: int) -> dict[str, Any]:
    """Where the size of a head does not follow from the others."""
    return {f"{name}.attention.key_length": size, f"{name}.attention.value_length": size}


def renamed(tensors: Mapping[str, Array], layer: Mapping[str, str] = {}) -> Tensors:
    """Tensors that only change their names; those of experts are left as they are."""
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


def neighbours(array: Array, heads: int) -> Array:
    """Rotated pairs side by side, where they stood across the halves of a head."""
    return array.reshape(heads, 2, len(array) // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def stacked(tensors: Tensors, pattern: str, names: Mapping[str, str]) -> Tensors:
    """Matrices of single experts as stacks."""
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
SAME = {name: name for name in ("gate", "up", "down")}


def qwen3_moe(config: Config, tensors: Tensors) -> Made:
    """Qwen3-MoE."""
    metadata = common("qwen3moe", config) | head_sizes("qwen3moe", config["head_dim"])
    metadata |= {
        "qwen3moe.expert_count": config["num_local_experts"],
        "qwen3moe.expert_used_count": config["num_experts_per_tok"],
        "qwen3moe.expert_feed_forward_length": config["moe_intermediate_size"],
    }
    return metadata, stacked(renamed(tensors, {"mlp.gate": "ffn_gate_inp"}), EXPERTS, SAME)


def gpt_oss(config: Config, tensors: Tensors) -> Made:
    """gpt-oss: gate and up apart, matrices [out, in]."""
    metadata = common("gpt-oss", config) | head_sizes("gpt-oss", config["head_dim"])
    metadata |= {
        "gpt-oss.attention.sliding_window": config["sliding_window"],
        "gpt-oss.expert_count": config["num_local_experts"],
        "gpt-oss.expert_used_count": config["num_experts_per_tok"],
        "gpt-oss.expert_feed_forward_length": config["intermediate_size"],
    }
    names = {"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp"}
    made = {}
    plain = {name: array for name, array in tensors.items() if ".experts." not in name and "sinks" not in name}
    for name, array in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.(?:self_attn|mlp\.experts)\.(.+)", name)
        if match is None or name in plain:
            continue
        at, inside = f"blk.{match[1]}.", match[2]
        if inside == "sinks":
            made[f"{at}attn_sinks.weight"] = array
        elif inside == "gate_up_proj":
            made[f"{at}ffn_gate_exps.weight"] = array[:, :, 0::2].swapaxes(1, 2)
            made[f"{at}ffn_up_exps.weight"] = array[:, :, 1::2].swapaxes(1, 2)
        elif inside == "gate_up_proj_bias":
            made[f"{at}ffn_gate_exps.bias"] = array[:, 0::2]
            made[f"{at}ffn_up_exps.bias"] = array[:, 1::2]
        elif inside == "down_proj":
            made[f"{at}ffn_down_exps.weight"] = array.swapaxes(1, 2)
        else:
            made[f"{at}ffn_down_exps.bias"] = array
    return metadata, renamed(plain, names) | made


def llama4(config: Config, tensors: Tensors) -> Made:
    """Llama 4: gate and up apart, matrices [out, in]; queries and keys as they are."""
    name = "llama4"
    metadata = common(name, config) | head_sizes(name, config["head_dim"])
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
    made = renamed({key: array for key, array in tensors.items() if ".experts." not in key}, names)
    for key, array in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.feed_forward\.experts\.(.+)", key)
        if match is None:
            continue
        if match[2] == "gate_up_proj":
            gate, up = np.split(array.swapaxes(1, 2), 2, axis=1)
            made |= {f"blk.{match[1]}.ffn_gate_exps.weight": gate, f"blk.{match[1]}.ffn_up_exps.weight": up}
        else:
            made[f"blk.{match[1]}.ffn_down_exps.weight"] = array.swapaxes(1, 2)
    return metadata, made


ROUTED = {
    **{f"mlp.shared_experts.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")},
    "mlp.gate": "ffn_gate_inp",
}


def _routed(name: str, config: Config) -> dict[str, Any]:
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


def _with_corrections(made: Tensors) -> Tensors:
    old = re.compile(r"model\.layers\.(\d+)\.mlp\.gate\.e_score_correction_bias|blk\.(\d+)\.ffn_gate_inp\.e_score.*")
    result = {}
    for name, array in made.items():
        match = old.fullmatch(name)
        result[f"blk.{match[1] or match[2]}.exp_probs_b.bias" if match else name] = array
    return result


def glm4_moe(config: Config, tensors: Tensors) -> Made:
    """GLM-4-MoE, with a further layer that predicts more tokens."""
    name, size = "glm4moe", config["head_dim"]
    metadata = common(name, config) | head_sizes(name, size) | _routed(name, config)
    metadata[f"{name}.block_count"] = config["num_hidden_layers"] + 1
    metadata[f"{name}.nextn_predict_layers"] = 1
    metadata[f"{name}.rope.dimension_count"] = int(size * config["rope_parameters"]["partial_rotary_factor"])
    made = renamed(tensors, ROUTED | {"post_attention_layernorm": "post_attention_norm"})
    made = stacked(_with_corrections(made), EXPERTS, SAME)
    made[f"blk.{config['num_hidden_layers']}.nextn.enorm.weight"] = np.ones(4, np.float32)
    return metadata, made


def deepseek(config: Config, tensors: Tensors) -> Made:
    """DeepSeek-V3, with kv_b_proj split as for its compressed cache."""
    name, heads = "deepseek2", config["num_attention_heads"]
    nope, rotated, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    rank = config["kv_lora_rank"]
    metadata = common(name, config) | _routed(name, config)
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
    made = stacked(_with_corrections(renamed(tensors, ROUTED | names)), EXPERTS, SAME)
    for key in [key for key in made if ".attn_kv_b." in key]:
        both = made.pop(key).reshape(heads, nope + value, rank)
        made[key.replace("kv_b", "k_b")] = both[:, :nope].swapaxes(1, 2)
        made[key.replace("kv_b", "v_b")] = both[:, nope:]
    return metadata, made
