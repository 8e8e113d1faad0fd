"""A small config of every family as transformers 4 and 5 write it, and what our spec of it says."""

from __future__ import annotations

from typing import Any

from wse.models.spec import Experts, Latent, Layer, PositionScale

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 32,
    "vocab_size": 40,
    "layer_norm_epsilon": 1e-5,
}
"""GPT-2 has keys of its own."""
OLD: dict[str, Any] = {"torch_dtype": "bfloat16", "rope_theta": 5e4, "rope_scaling": None}
NEW: dict[str, Any] = {"dtype": "bfloat16", "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 6}
SIGMOID: dict[str, Any] = EXPERTS | {
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "num_nextn_predict_layers": 1,
}
LATENT: dict[str, Any] = SIGMOID | {
    "num_key_value_heads": 4,
    "q_lora_rank": 10,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "n_group": 4,
    "topk_group": 2,
}
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
PLAIN, WINDOW, MIXED = Layer(), Layer(window=5), Layer(experts=True)
SIGMOID_EXPERTS = Experts(count=8, active=2, ffn_size=6, scoring="sigmoid", scale=1.5, correction=True, shared_size=12)

SPELLINGS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "llama": (
        {"model_type": "llama", "attention_bias": True, **OLD},
        {"model_type": "llama", "attention_bias": True, "mlp_bias": False, "head_dim": 6, **NEW},
        {"layers": (PLAIN,) * 4, "qkv_bias": True, "output_bias": True, "ffn_bias": False, "head_size": 6},
    ),
    "mistral": (
        {"model_type": "mistral", "sliding_window": 5, **OLD},
        {"model_type": "mistral", "sliding_window": 5, "head_dim": 6, "layer_types": [SLIDING] * 4, **NEW},
        {"layers": (WINDOW,) * 4, "qkv_bias": False},
    ),
    "mistral without windows": (
        {"model_type": "mistral", "sliding_window": None, **OLD},
        {"model_type": "mistral", "sliding_window": None, "layer_types": [FULL] * 4, **NEW},
        {"layers": (PLAIN,) * 4},
    ),
    "mixtral": (
        {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None, **OLD},
        {"model_type": "mixtral", "num_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": 0.0, **NEW},
        {"layers": (MIXED,) * 4, "ffn_size": 0, "experts": Experts(count=4, active=2, ffn_size=20)},
    ),
    "qwen2": (
        {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 3, **OLD},
        {
            "model_type": "qwen2",
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 28,
            "layer_types": [FULL] * 3 + [SLIDING],
            **NEW,
        },
        {"layers": (PLAIN, PLAIN, PLAIN, WINDOW), "qkv_bias": True, "output_bias": False},
    ),
    "qwen2 without windows": (
        {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 5, "max_window_layers": 3, **OLD},
        {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": None, "layer_types": [FULL] * 4, **NEW},
        {"layers": (PLAIN,) * 4},
    ),
    "qwen3": (
        {"model_type": "qwen3", "sliding_window": 5, "max_window_layers": 4, **OLD},
        {"model_type": "qwen3", "head_dim": 128, "attention_bias": False, "layer_types": [FULL] * 4, **NEW},
        {"layers": (PLAIN,) * 4, "head_norm": "rms", "head_size": 128, "qkv_bias": False},
    ),
    "qwen3_moe": (
        {"model_type": "qwen3_moe", "num_experts": 8, "mlp_only_layers": [0, 2], "norm_topk_prob": True}
        | EXPERTS
        | OLD,
        {"model_type": "qwen3_moe", "num_local_experts": 8, "decoder_sparse_step": 2, "norm_topk_prob": True}
        | EXPERTS
        | NEW,
        {
            "layers": (PLAIN, MIXED, PLAIN, MIXED),
            "head_norm": "rms",
            "experts": Experts(count=8, active=2, ffn_size=6),
            "ffn_size": 20,
        },
    ),
    "gpt_oss": (
        {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5, "head_dim": 6}
        | {"swiglu_limit": 7.0, "initial_context_length": 16, "rope_theta": 5e4, "torch_dtype": "bfloat16"}
        | {"rope_scaling": {"type": "yarn", "factor": 4, "truncate": False, "original_max_position_embeddings": 16}},
        {"model_type": "gpt_oss", "num_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5, "head_dim": 6}
        | {"layer_types": [SLIDING, FULL] * 2, "dtype": "bfloat16", "attention_bias": True}
        | {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 5e4,
                "factor": 4.0,
                "truncate": False,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 16,
            }
        },
        {
            "layers": (Layer(window=5, experts=True), MIXED) * 2,
            "sinks": True,
            "qkv_bias": True,
            "output_bias": True,
            "ffn_bias": True,
            "activation": "clamped_silu",
            "activation_limit": 7.0,
            "ffn_size": 0,
            "experts": Experts(count=4, active=2, ffn_size=20, router_bias=True),
        },
    ),
    "glm4_moe": (
        {"model_type": "glm4_moe", "attention_bias": True, "use_qk_norm": True, "partial_rotary_factor": 0.5}
        | {"head_dim": 8}
        | SIGMOID
        | OLD,
        {"model_type": "glm4_moe", "attention_bias": True, "use_qk_norm": True, "n_group": 1, "topk_group": 1}
        | {"head_dim": 8}
        | SIGMOID
        | NEW
        | {"rope_parameters": NEW["rope_parameters"] | {"partial_rotary_factor": 0.5}},
        {
            "layers": (PLAIN, MIXED, MIXED, MIXED),
            "qkv_bias": True,
            "output_bias": False,
            "head_norm": "rms",
            "ffn_size": 20,
            "experts": SIGMOID_EXPERTS,
        },
    ),
    "deepseek_v3": (
        {"model_type": "deepseek_v3", "scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}
        | {"aux_loss_alpha": 0.001, "seq_aux": True, "ep_size": 1, "auto_map": {"AutoConfig": "a.B"}}
        | LATENT
        | OLD,
        {"model_type": "deepseek_v3", "head_dim": 4, "qk_head_dim": 10, "rope_interleave": True} | LATENT | NEW,
        {
            "layers": (PLAIN, MIXED, MIXED, MIXED),
            "latent": Latent(q_rank=10, kv_rank=8, nope_size=6, rope_size=4, value_size=5),
            "head_size": 12,
            "head_count": 4,
            "kv_head_count": 1,
            "attention_scale": 10**-0.5,
            "experts": Experts(
                count=8,
                active=2,
                ffn_size=6,
                scoring="sigmoid",
                scale=1.5,
                correction=True,
                shared_size=12,
                groups=4,
                chosen_groups=2,
            ),
        },
    ),
    "llama4": (
        {
            "model_type": "llama4",
            "architectures": ["Llama4ForConditionalGeneration"],
            "torch_dtype": "bfloat16",
            "vision_config": {"hidden_size": 3},
            "boi_token_index": 7,
            "text_config": SIZES
            | {"model_type": "llama4_text", "head_dim": 6, "intermediate_size_mlp": 30, "num_local_experts": 4}
            | {"num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 8, "rope_theta": 5e4}
            | {"no_rope_layer_interval": 4, "rope_scaling": None},
        },
        {"model_type": "llama4_text", "head_dim": 6, "intermediate_size_mlp": 30, "num_local_experts": 4}
        | {"num_experts_per_tok": 1, "moe_layers": [1, 3], "attention_chunk_size": 8, "no_rope_layers": [1, 1, 1, 0]}
        | {"layer_types": [CHUNKED] * 3 + [FULL], "floor_scale": 8192, "attn_scale": 0.1, "use_qk_norm": True}
        | NEW,
        {
            "family": "llama4",
            "layers": (Layer(chunk=8), Layer(chunk=8, experts=True), Layer(chunk=8), Layer(rotary=False, experts=True)),
            "head_norm": "l2",
            "position_scale": PositionScale(coefficient=0.1, floor_tokens=8192),
            "ffn_size": 30,
            "experts": Experts(
                count=4, active=1, ffn_size=20, scoring="sigmoid", normalised=False, weighs_input=True, shared_size=20
            ),
            "eos_token_ids": (2, 3),
        },
    ),
    "gemma2": (
        {
            "model_type": "gemma2",
            "head_dim": 6,
            "query_pre_attn_scalar": 16,
            "sliding_window": 5,
            "eos_token_id": [2, 3],
        }
        | {
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh",
            "cache_implementation": "hybrid",
        }
        | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
        | OLD,
        {"model_type": "gemma2", "head_dim": 6, "query_pre_attn_scalar": 16, "sliding_window": 5}
        | {"layer_types": [SLIDING, FULL] * 2, "tie_word_embeddings": True, "use_bidirectional_attention": None}
        | NEW,
        {
            "layers": (WINDOW, PLAIN) * 2,
            "attention_scale": 0.25,
            "score_cap": 50.0,
            "logit_cap": 30.0,
            "norm_unit_offset": True,
            "post_norms": True,
            "embedding_scale": 24**0.5,
            "tied_embedding": True,
            "activation": "gelu_tanh",
        },
    ),
    "phi3": (
        {"model_type": "phi3", "original_max_position_embeddings": 32, "torch_dtype": "bfloat16", "rope_theta": 5e4}
        | {"rope_scaling": {"type": "su", "short_factor": [1.0, 1.1, 1.2], "long_factor": [2.0, 3.0, 4.0]}},
        {"model_type": "phi3", "original_max_position_embeddings": 32, "dtype": "bfloat16"}
        | {
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 5e4,
                "partial_rotary_factor": 1.0,
                "short_factor": [1.0, 1.1, 1.2],
                "long_factor": [2.0, 3.0, 4.0],
                "original_max_position_embeddings": 32,
            }
        },
        {"layers": (PLAIN,) * 4, "context_limit": 32, "qkv_bias": False},
    ),
}
