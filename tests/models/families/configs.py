"""Configs of every family as transformers 5 writes them, those of its goldens, and as transformers 4 writes them."""

import json
from pathlib import Path
from typing import Any

from tests.models.helpers import older_rope

Config = dict[str, Any]

CONFIGS: dict[str, Config] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["config"]
    for path in sorted((Path(__file__).parents[2] / "data" / "families").glob("*.json"))
}
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
FACTORS: Config = {"short_factor": [1.0 + i / 8 for i in range(6)], "long_factor": [2.0 + i for i in range(6)]}

NEWER = {"dtype", "rope_parameters", "layer_types"}
"""Keys that transformers 4 does not write."""

SPELLINGS: dict[str, tuple[str, Config, set[str], Config]] = {
    "llama": ("llama", {}, {"attention_bias", "mlp_bias"}, {}),
    "mistral": ("mistral", {"layer_types": [SLIDING] * 2}, {"head_dim"}, {}),
    "mistral without windows": ("mistral", {"sliding_window": None, "layer_types": [FULL] * 2}, set(), {}),
    "mixtral": ("mixtral", {}, {"num_local_experts", "router_jitter_noise"}, {"num_experts": 3}),
    "qwen2": ("qwen2", {"max_window_layers": 28}, set(), {"max_window_layers": 1}),
    "qwen2 without windows": (
        "qwen2",
        {"use_sliding_window": False, "sliding_window": None, "layer_types": [FULL] * 2},
        set(),
        {"sliding_window": 5},
    ),
    "qwen3": ("qwen3", {}, {"attention_bias"}, {"sliding_window": 5, "max_window_layers": 2}),
    "qwen3_moe": ("qwen3_moe", {}, {"num_local_experts"}, {"num_experts": 5}),
    "qwen3_5": ("qwen3_5", {}, set(), {"full_attention_interval": 2, "attn_output_gate": True}),
    "qwen3_5_moe": ("qwen3_5_moe", {}, set(), {"full_attention_interval": 2, "mlp_only_layers": []}),
    "qwen3_next": ("qwen3_next", {}, set(), {"full_attention_interval": 4, "use_sliding_window": False}),
    "gpt_oss": (
        "gpt_oss",
        {},
        {"num_local_experts", "attention_bias"},
        {"num_experts": 5, "initial_context_length": 16},
    ),
    "glm4_moe": ("glm4_moe", {}, {"n_group", "topk_group"}, {}),
    "deepseek_v3": (
        "deepseek_v3",
        {},
        {"head_dim", "qk_head_dim", "rope_interleave"},
        {"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1, "aux_loss_alpha": 0.001}
        | {"seq_aux": True, "ep_size": 1, "auto_map": {"AutoConfig": "a.B"}},
    ),
    "gemma": ("gemma", {}, {"use_bidirectional_attention"}, {"hidden_act": "gelu", "hidden_activation": None}),
    "smollm3": ("smollm3", {}, {"mlp_bias"}, {"max_window_layers": 28}),
    "smollm3 without windows": (
        "smollm3",
        {"use_sliding_window": False, "sliding_window": None, "layer_types": [FULL] * 2},
        {"no_rope_layers"},
        {"no_rope_layer_interval": 2},
    ),
    "seed_oss": ("seed_oss", {"mlp_bias": False}, {"mlp_bias"}, {}),
    "glm": ("glm", {}, {"head_dim"}, {"head_dim": 16}),
    "glm4": ("glm4", {}, {"attention_bias"}, {}),
    "ernie4_5": ("ernie4_5", {}, {"tie_word_embeddings"}, {}),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        {},
        {"use_bias", "moe_layer_end_index"},
        {"moe_layer_end_index": -1, "moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_use_aux_free": True},
    ),
    "stablelm": ("stablelm", {}, {"qk_layernorm", "use_parallel_residual"}, {"rotary_scaling_factor": None}),
    "starcoder2": ("starcoder2", {}, {"use_bias"}, {"mlp_type": "default", "norm_type": "layer_norm"}),
    "gemma2": (
        "gemma2",
        {},
        {"use_bidirectional_attention"},
        {"hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid"},
    ),
    "olmo2": ("olmo2", {}, {"attention_bias"}, {}),
    "olmo3": ("olmo3", {}, set(), {"layer_types": [SLIDING, FULL]}),
    "olmo3 without layer types": (
        "olmo3",
        {"num_hidden_layers": 4, "layer_types": [SLIDING] * 3 + [FULL]},
        {"sliding_window"},
        {"sliding_window": 6},
    ),
    "exaone4": ("exaone4", {}, set(), {"layer_types": [SLIDING, FULL], "sliding_window_pattern": "LG"}),
    "exaone4 without windows": (
        "exaone4",
        {"sliding_window": None, "sliding_window_pattern": 0, "layer_types": [FULL] * 2},
        {"sliding_window_pattern"},
        {},
    ),
    "olmoe": ("olmoe", {}, {"clip_qkv"}, {"num_local_experts": 5}),
    "minimax_m2": (
        "minimax_m2",
        {},
        {"partial_rotary_factor"},
        {"rotary_dim": 8, "use_qk_norm": True, "qk_norm_type": "per_layer", "scoring_func": "sigmoid", "use_mtp": True}
        | {"use_routing_bias": True, "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid"}
        | {"attn_type_list": [1, 1]},
    ),
    "gemma3": (
        "gemma3",
        {},
        {"_sliding_window_pattern"},
        {"rope_local_base_freq": 1e4, "sliding_window_pattern": 2, "hidden_act": "gelu_pytorch_tanh"},
    ),
    "qwen2_moe": ("qwen2_moe", {}, {"qkv_bias"}, {"sliding_window": 5, "max_window_layers": 21}),
    "ministral3": ("ministral3", {}, {"max_position_embeddings"}, {"max_position_embeddings": 64}),
    "phimoe": ("phimoe", {}, {"input_jitter_noise"}, {"input_jitter_noise": 0.01}),
    "phimoe with LongRoPE": (
        "phimoe",
        {
            "rope_parameters": FACTORS
            | {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32}
            | {"short_mscale": 1.25, "long_mscale": 1.5},
        },
        set(),
        {},
    ),
    "granite": ("granite", {}, {"mlp_bias"}, {}),
    "granitemoe": ("granitemoe", {}, set(), {}),
    "opt": ("opt", {}, {"enable_bias", "layer_norm_elementwise_affine"}, {"activation_dropout": 0.0}),
    "nemotron": ("nemotron", {}, {"mlp_bias"}, {}),
    "cohere": ("cohere", {}, {"use_qk_norm"}, {}),
    "cohere2": (
        "cohere2",
        {},
        {"head_dim"},
        {"sliding_window_pattern": 2, "layer_switch": 4, "position_embedding_type": "rope_gptj", "rotary_pct": 1.0}
        | {"order_of_interleaved_layers": "local_attn_first", "use_gated_activation": True, "use_parallel_block": True}
        | {"use_parallel_embedding": True},
    ),
    "gpt_neox": (
        "gpt_neox",
        {},
        {"partial_rotary_factor"},
        {"rotary_pct": 0.25, "attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0},
    ),
    "falcon": ("falcon", {}, {"num_ln_in_parallel_attn"}, {"apply_residual_connection_post_layernorm": False}),
    "falcon_7b": ("falcon_7b", {}, {"num_kv_heads", "ffn_hidden_size"}, {"num_kv_heads": 71, "ff_factor": 4}),
    "gpt2": ("gpt2", {}, set(), {"n_ctx": 64}),
    "phi3": (
        "phi3",
        {
            "original_max_position_embeddings": 32,
            "rope_parameters": FACTORS | {"rope_type": "longrope", "rope_theta": 1e4},
        },
        set(),
        {"rope_scaling": FACTORS | {"type": "su"}},
    ),
}
"""A golden, changes of it as transformers 5 spells them; keys that transformers 4 leaves out, and those of its own."""


def both(name: str) -> tuple[Config, Config]:
    """The config of a spelling as transformers 4 and 5 write it."""
    golden, changes, dropped, own = SPELLINGS[name]
    new = CONFIGS[golden] | changes
    return older(new, dropped) | own, new


def older(new: Config, dropped: set[str]) -> Config:
    """As transformers 4 writes a config, without some keys."""
    kept = {key: value for key, value in new.items() if key not in NEWER | dropped}
    return kept | {"torch_dtype": new["dtype"]} | older_rope(new.get("rope_parameters", {}))


GEMMA3: Config = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "torch_dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "mm_tokens_per_image": 256,
    "text_config": both("gemma3")[0],
}
del GEMMA3["text_config"]["torch_dtype"]
"""Gemma 3 beside its vision model, as transformers 4 writes it."""

MINISTRAL3: Config = {
    "model_type": "mistral3",
    "architectures": ["Mistral3ForConditionalGeneration"],
    "dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "image_token_index": 10,
    "text_config": CONFIGS["ministral3"],
}
"""Ministral 3 beside its vision model."""

QWEN3_5: Config = {
    "model_type": "qwen3_5_moe",
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "vision_config": {"hidden_size": 3},
    "image_token_id": 10,
    "text_config": CONFIGS["qwen3_5_moe"]
    | {"rope_parameters": CONFIGS["qwen3_5_moe"]["rope_parameters"] | {"mrope_section": [1, 1, 0]}},
}
"""Qwen3.5 with experts beside its vision model."""

LLAMA4: Config = {
    "model_type": "llama4",
    "architectures": ["Llama4ForConditionalGeneration"],
    "torch_dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "boi_token_index": 7,
    "text_config": older(CONFIGS["llama4"], {"architectures", "moe_layers", "no_rope_layers"}),
}
del LLAMA4["text_config"]["torch_dtype"]
"""Llama 4 beside its vision model, as transformers 4 writes it."""
