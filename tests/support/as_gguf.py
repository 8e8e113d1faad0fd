"""Conversion of a checkpoint's config and tensors to GGUF metadata and tensors, as in llama.cpp.

It follows convert_hf_to_gguf.py of github.com/ggml-org/llama.cpp, with one function per architecture. All functions
take the config and the tensors by their Hugging Face names, and return the metadata and the tensors by GGUF names.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gguf_mixtures import (
    Array,
    Config,
    Converted,
    Tensors,
    common_metadata,
    deepseek,
    glm4_moe,
    gpt_oss,
    head_sizes,
    interleave_rotated_pairs,
    llama4,
    qwen3_moe,
    rename_tensors,
    stack_experts,
)


def as_gguf(config: Config, tensors: Mapping[str, Array]) -> Converted:
    """Convert a checkpoint of any supported architecture; return (metadata, tensors)."""
    return WRITERS[config["model_type"]](config, dict(tensors))


def llama(config: Config, tensors: Tensors) -> Converted:
    """Convert Llama, Mistral or Mixtral."""
    size = config["head_dim"]
    metadata = common_metadata("llama", config) | {"llama.rope.dimension_count": size} | head_sizes("llama", size)
    result = rename_tensors(tensors, {"block_sparse_moe.gate": "ffn_gate_inp"})
    pattern = r"model\.layers\.(\d+)\.block_sparse_moe\.experts\.(\d+)\.(w\d)\.weight"
    result = stack_experts(result, pattern, {"w1": "gate", "w2": "down", "w3": "up"})
    for name in result:
        if ".attn_q." in name:
            result[name] = interleave_rotated_pairs(result[name], config["num_attention_heads"])
        elif ".attn_k." in name:
            result[name] = interleave_rotated_pairs(result[name], config["num_key_value_heads"])
    if "num_local_experts" in config:
        metadata["llama.expert_count"] = config["num_local_experts"]
        metadata["llama.expert_used_count"] = config["num_experts_per_tok"]
    scaling = config["rope_parameters"]
    if scaling["rope_type"] == "llama3":
        result["rope_freqs.weight"] = _llama3_factors(scaling, size)
    return metadata, result


def _llama3_factors(scaling: Mapping[str, Any], size: int) -> Array:
    base = 1.0 / scaling["rope_theta"] ** (np.arange(0, size, 2, dtype=np.float32) / size)
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    context = scaling["original_max_position_embeddings"]
    factors = []
    for frequency in base:
        wavelength = 2 * np.pi / frequency
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def qwen2(config: Config, tensors: Tensors) -> Converted:
    """Convert Qwen2."""
    return common_metadata("qwen2", config), rename_tensors(tensors)


def qwen3(config: Config, tensors: Tensors) -> Converted:
    """Convert Qwen3."""
    return common_metadata("qwen3", config) | head_sizes("qwen3", config["head_dim"]), rename_tensors(tensors)


def gemma2(config: Config, tensors: Tensors) -> Converted:
    """Convert Gemma 2; 1 is added to all gains of norms."""
    metadata = common_metadata("gemma2", config) | head_sizes("gemma2", config["head_dim"])
    metadata |= {
        "gemma2.attn_logit_softcapping": config["attn_logit_softcapping"],
        "gemma2.final_logit_softcapping": config["final_logit_softcapping"],
        "gemma2.attention.sliding_window": config["sliding_window"],
    }
    norms = {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    }
    result = rename_tensors(tensors, norms)
    return metadata, {name: array + 1 if name.endswith("norm.weight") else array for name, array in result.items()}


def phi3(config: Config, tensors: Tensors) -> Converted:
    """Convert Phi-3."""
    size = config["hidden_size"] // config["num_attention_heads"]
    metadata = common_metadata("phi3", config) | {
        "phi3.rope.dimension_count": size,
        "phi3.rope.scaling.original_context_length": config["original_max_position_embeddings"],
        "phi3.attention.sliding_window": config["sliding_window"],
    }
    return metadata, rename_tensors(tensors, {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"})


def gpt2(config: Config, tensors: Tensors) -> Converted:
    """Convert GPT-2; weight matrices are transposed to [out, in]."""
    metadata = {
        "general.architecture": "gpt2",
        "gpt2.block_count": config["n_layer"],
        "gpt2.context_length": config["n_positions"],
        "gpt2.embedding_length": config["n_embd"],
        "gpt2.feed_forward_length": config["n_inner"],
        "gpt2.attention.head_count": config["n_head"],
        "gpt2.attention.layer_norm_epsilon": config["layer_norm_epsilon"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
    }
    names = {
        "wte": "token_embd",
        "wpe": "position_embd",
        "ln_f": "output_norm",
        "ln_1": "attn_norm",
        "ln_2": "ffn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    }
    result = {}
    for name, array in tensors.items():
        stem, _, suffix = name.removeprefix("transformer.").rpartition(".")
        match = re.fullmatch(r"h\.(\d+)\.(.+)", stem)
        prefix, name_in_layer = (f"blk.{match[1]}.", match[2]) if match else ("", stem)
        result[f"{prefix}{names[name_in_layer]}.{suffix}"] = array.T if ".c_" in stem and suffix == "weight" else array
    return metadata, result


WRITERS: dict[str, Callable[[Config, Tensors], Converted]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral"), llama),
    "qwen2": qwen2,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "gemma2": gemma2,
    "phi3": phi3,
    "gpt2": gpt2,
    "gpt_oss": gpt_oss,
    "llama4_text": llama4,
    "glm4_moe": glm4_moe,
    "deepseek_v3": deepseek,
}
