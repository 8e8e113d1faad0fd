"""Keys of a Hugging Face config that several architectures of GGUF files share."""

from __future__ import annotations

from typing import Any, Final

from wse.models.gguf.file import EMBEDDING, Header

Config = dict[str, Any]

DEFAULT_ROPE_BASE: Final = 10000.0


def common_keys(header: Header) -> Config:
    """Convert metadata of a GGUF file to the Hugging Face config keys that most models have.

    These are the keys of models with RoPE and RMSNorm.
    """
    heads, size = header.size("attention.head_count"), header.head_size
    config = {
        **rotary_keys(header),
        "num_attention_heads": heads,
        "num_key_value_heads": header.kv_heads,
        "head_dim": size,
    }
    header.require("attention.value_length", (size,), f"supported: the size of keys, {size}")
    rotated = header.size("rope.dimension_count", size)
    if rotated != size:
        config["partial_rotary_factor"] = rotated / size
    scaling = rope_scaling(header)
    return config if scaling is None else config | {"rope_scaling": scaling}


def rotary_keys(header: Header) -> Config:
    """Convert metadata of a GGUF file to Hugging Face config keys, except keys for attention heads.

    The model must have RoPE and RMSNorm.
    """
    return {
        **vocabulary_keys(header),
        "hidden_size": header.size("embedding_length"),
        "num_hidden_layers": header.layers,
        "intermediate_size": header.size("feed_forward_length"),
        "max_position_embeddings": header.size("context_length"),
        "rms_norm_eps": header.positive("attention.layer_norm_rms_epsilon"),
        "rope_theta": header.positive("rope.freq_base", DEFAULT_ROPE_BASE),
    }


def vocabulary_keys(header: Header) -> Config:
    """Convert metadata of a GGUF file to the Hugging Face config keys that all models have.

    They describe the vocabulary size, the special tokens, and whether the embedding is tied.
    """
    vocabulary = header.gguf.tensors.get(EMBEDDING)
    rows = vocabulary.shape[0] if vocabulary is not None else None
    return {
        "vocab_size": header.size("vocab_size", rows),
        "tie_word_embeddings": not header.has_tensor("output.weight"),
        "bos_token_id": header.token("bos"),
        "eos_token_id": header.token("eos"),
    }


def rope_scaling(header: Header) -> Config | None:
    """Convert metadata of a GGUF file to ``rope_scaling``, a table in Hugging Face configs.

    The result is None if rotary positions are not scaled. Factors that the file stores in the
    tensor ``rope_freqs`` are not included.
    """
    kind = header.text("rope.scaling.type")
    if kind in (None, "none"):
        linear = header.positive("rope.scale_linear", 1.0)
        return None if linear == 1.0 else {"rope_type": "linear", "factor": linear}
    scaling: Config = {"rope_type": kind, "factor": header.positive("rope.scaling.factor", 1.0)}
    if header.has_value("rope.scaling.original_context_length"):
        scaling["original_max_position_embeddings"] = header.size("rope.scaling.original_context_length")
    if kind == "yarn":
        scaling["beta_fast"] = header.positive("rope.scaling.yarn_beta_fast", 32.0)
        scaling["beta_slow"] = header.positive("rope.scaling.yarn_beta_slow", 1.0)
    header.require("rope.scaling.attn_factor", (1.0,), "supported: 1.0")
    return scaling


def expert_keys(header: Header, count_key: str) -> Config:
    """Return the config keys for the number of experts in a layer and of experts per token.

    Args:
        header: Metadata of the file.
        count_key: Config key for the number of experts, which differs between families.
    """
    return {count_key: header.size("expert_count"), "num_experts_per_tok": header.size("expert_used_count")}


def routing_keys(header: Header) -> Config:
    """Convert metadata of a GGUF file to the Hugging Face config keys of a mixture of experts.

    The mixture must have sigmoid routing.
    """
    header.require("expert_gating_func", (2,), "supported: 2 (sigmoid)")
    return {
        **expert_keys(header, "n_routed_experts"),
        "first_k_dense_replace": header.count("leading_dense_block_count"),
        "n_shared_experts": header.size("expert_shared_count", 1),
        "moe_intermediate_size": header.size("expert_feed_forward_length"),
        "norm_topk_prob": header.flag("expert_weights_norm", default=True),
        "routed_scaling_factor": header.positive("expert_weights_scale", 1.0),
        "n_group": header.size("expert_group_count", 1),
        "topk_group": header.size("expert_group_used_count", 1),
    }
