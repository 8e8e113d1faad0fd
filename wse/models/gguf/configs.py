"""Convert GGUF metadata to the keys of a Hugging Face config, for each supported architecture.

Sources for the meaning of keys and for what an architecture implies: gguf-py's ``constants.py``,
``convert_hf_to_gguf.py`` and ``src/models`` of github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.models.configs.layer_kinds import alternating_kinds
from wse.models.gguf.config_keys import (
    Config,
    common_keys,
    expert_keys,
    rope_scaling,
    rotary_keys,
    routing_keys,
    vocabulary_keys,
)
from wse.models.gguf.file import Header

LAYERS_OF_GEMMA_2_27B: Final = 46
EXPERTS_OF_MAVERICK: Final = 128
LLAMA_4_CHUNK: Final = 8192  # tokens
LONG_FACTORS: Final = ("rope_factors_short.weight", "rope_factors_long.weight")


def _llama(header: Header) -> Config:
    """Return the Hugging Face config keys of a Llama, Mistral or Mixtral model in a GGUF file.

    These three families have the same architecture name in GGUF files.
    """
    if header.count("expert_count"):
        return {**common_keys(header), "model_type": "mixtral", **expert_keys(header, "num_local_experts")}
    biases = {
        "attention_bias": header.has_tensor("blk.0.attn_q.bias"),
        "mlp_bias": header.has_tensor("blk.0.ffn_up.bias"),
    }
    header.count("expert_used_count")
    return {**common_keys(header), "model_type": "llama", **biases}


def _qwen3_moe(header: Header) -> Config:
    """Return the Hugging Face config keys of a Qwen3-MoE model in a GGUF file.

    The routing weights of the selected experts are always normalised.
    """
    header.require("expert_gating_func", (1,), "supported: 1 (softmax)")
    return {
        **common_keys(header),
        **expert_keys(header, "num_experts"),
        "model_type": "qwen3_moe",
        "moe_intermediate_size": header.size("expert_feed_forward_length"),
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [
            layer for layer in range(header.layers) if not header.has_tensor(f"blk.{layer}.ffn_gate_inp.weight")
        ],
    }


def _gemma2(header: Header) -> Config:
    """Return the Hugging Face config keys of a Gemma 2 model in a GGUF file.

    GGUF files do not store ``query_pre_attn_scalar``, by whose square root attention scores are
    divided. It is hidden size / number of heads in the 27B model, and the head size in all others.
    """
    config = common_keys(header)
    is_27b = config["num_hidden_layers"] == LAYERS_OF_GEMMA_2_27B
    return {
        **config,
        "model_type": "gemma2",
        "query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"]
        if is_27b
        else config["head_dim"],
        "attn_logit_softcapping": header.positive("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": header.positive("final_logit_softcapping", 30.0),
        "sliding_window": header.size("attention.sliding_window", 4096),
        "layer_types": alternating_kinds(config["num_hidden_layers"]),
        "hidden_activation": "gelu_pytorch_tanh",
    }


def _phi3(header: Header) -> Config:
    """Return the Hugging Face config keys of a Phi-3 model in a GGUF file.

    Models with LongRoPE are refused, because its factors are not read from GGUF files.
    """
    config = {**common_keys(header), "model_type": "phi3"}
    if header.has_value("rope.scaling.original_context_length"):
        config["original_max_position_embeddings"] = header.size("rope.scaling.original_context_length")
    if header.has_value("attention.sliding_window"):
        config["sliding_window"] = header.size("attention.sliding_window")
    if any(header.has_tensor(name) for name in LONG_FACTORS):
        header.refuse(
            "context_length",
            header.value("context_length"),
            "positions scaled by rope_factors are not supported; use the 4k model",
        )
    config.pop("head_dim")
    return config


def _gpt2(header: Header) -> Config:
    """Return the Hugging Face config keys of a GPT-2 model in a GGUF file."""
    return {
        **vocabulary_keys(header),
        "model_type": "gpt2",
        "n_embd": header.size("embedding_length"),
        "n_layer": header.layers,
        "n_head": header.size("attention.head_count"),
        "n_inner": header.size("feed_forward_length"),
        "n_positions": header.size("context_length"),
        "layer_norm_epsilon": header.positive("attention.layer_norm_epsilon"),
        "activation_function": "gelu_new",
    }


def _gpt_oss(header: Header) -> Config:
    """Return the Hugging Face config keys of a gpt-oss model in a GGUF file.

    Every other layer has a sliding window, starting with the first.
    """
    config = common_keys(header)
    if "rope_scaling" in config:
        config["rope_scaling"]["truncate"] = False
    return {
        **config,
        **expert_keys(header, "num_local_experts"),
        "model_type": "gpt_oss",
        "intermediate_size": header.size("expert_feed_forward_length", config["intermediate_size"]),
        "sliding_window": header.size("attention.sliding_window"),
        "layer_types": alternating_kinds(config["num_hidden_layers"]),
        "attention_bias": True,
    }


def _llama4(header: Header) -> Config:
    """Convert the GGUF metadata of a Llama 4 model to the keys of a Hugging Face config.

    GGUF files do not store the following settings. They are set as in llama.cpp
    (``src/models/llama4``):

    - attention chunks of 8,192 tokens
    - the position-dependent scale of queries (``attn_temperature_tuning``, ``floor_scale``,
      ``attn_scale``)
    - normalised queries and keys, except in the model with 128 experts
    """
    if header.has_value("attention.sliding_window"):
        header.size("attention.sliding_window")  # refuses 0, which would mean full attention in all layers
    experts = expert_keys(header, "num_local_experts")
    config = common_keys(header)
    return {
        **config,
        **experts,
        "model_type": "llama4_text",
        "intermediate_size": header.size("expert_feed_forward_length"),
        "intermediate_size_mlp": config["intermediate_size"],
        "interleave_moe_layer_step": header.size("interleave_moe_layer_step"),
        "attention_chunk_size": LLAMA_4_CHUNK,
        "use_qk_norm": experts["num_local_experts"] != EXPERTS_OF_MAVERICK,
        "attn_temperature_tuning": True,
        "floor_scale": LLAMA_4_CHUNK,
        "attn_scale": 0.1,
    }


def _glm4_moe(header: Header) -> Config:
    """Return the Hugging Face config keys of a GLM-4-MoE model in a GGUF file.

    Layers for multi-token prediction are not counted.
    """
    config = common_keys(header)
    config["num_hidden_layers"] -= header.count("nextn_predict_layers")
    return {
        **config,
        **routing_keys(header),
        "model_type": "glm4_moe",
        "use_qk_norm": header.has_tensor("blk.0.attn_q_norm.weight"),
        "attention_bias": header.has_tensor("blk.0.attn_q.bias"),
    }


def _deepseek(header: Header) -> Config:
    """Return the Hugging Face config keys of a DeepSeek model in a GGUF file.

    GGUF keys with the suffix ``_mla`` contain sizes per head. The same keys without the suffix
    contain sizes in the compressed KV cache.
    """
    heads, rotated = header.size("attention.head_count"), header.size("rope.dimension_count")
    key_size = header.size("attention.key_length_mla", header.size("attention.key_length"))
    if rotated >= key_size:
        header.refuse("rope.dimension_count", rotated, f"give less than the {key_size} features of a key")
    header.kv_heads  # noqa: B018 (marked as read: the number of heads, or 1 for the compressed cache)
    header.size("attention.value_length", 1)
    scaling = rope_scaling(header)
    if scaling is not None and header.has_value("rope.scaling.yarn_log_multiplier"):
        multiplier = round(header.positive("rope.scaling.yarn_log_multiplier") * 10, 6)  # stored as a tenth
        scaling |= {"mscale": multiplier, "mscale_all_dim": multiplier}
    return {
        **rotary_keys(header),
        **routing_keys(header),
        "model_type": "deepseek_v3",
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "rope_scaling": scaling,
        "q_lora_rank": header.size("attention.q_lora_rank") if header.has_value("attention.q_lora_rank") else None,
        "kv_lora_rank": header.size("attention.kv_lora_rank"),
        "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": key_size - rotated,
        "v_head_dim": header.size("attention.value_length_mla", header.size("attention.value_length", key_size)),
    }


ARCHITECTURES: Final[dict[str, Callable[[Header], Config]]] = {
    "llama": _llama,
    "qwen2": lambda header: {**common_keys(header), "model_type": "qwen2"},
    "qwen3": lambda header: {**common_keys(header), "model_type": "qwen3"},
    "qwen3moe": _qwen3_moe,
    "gemma2": _gemma2,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "gpt-oss": _gpt_oss,
    "llama4": _llama4,
    "glm4moe": _glm4_moe,
    "deepseek2": _deepseek,
}
"""Function that converts the metadata to config keys, by general.architecture."""

HARMLESS: Final = (
    *("rope.scaling.finetuned", "rope.scaling.yarn_log_multiplier", "rope.dimension_count", "tensor_data_layout"),
    *("expert_feed_forward_length", "expert_shared_feed_forward_length", "attention.layer_norm_epsilon"),
)
"""Keys that repeat what an architecture implies, or that describe how the file was made."""


def hugging_face_config(header: Header) -> Config:
    """Convert the metadata of a GGUF file to the equivalent Hugging Face config.

    Raises:
        BadModel: A key is missing, impossible or not understood.
    """
    config = ARCHITECTURES[header.architecture](header)
    header.require("attention.causal", (True,), "supported: true")
    header.require("use_parallel_residual", (False,), "supported: false")
    header.finish(HARMLESS)
    return config
