"""What a family's mathematics does not cover is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.families.configs import CHUNKED, CONFIGS, FULL, LLAMA4, SLIDING
from tests.models.helpers import about
from wse.errors import BadModel
from wse.models.configs.config import read_config

NOT_UNDERSTOOD = "this key is not understood and may change the mathematics; remove it if it does not"
DROPPED = object()

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"logits_zoom": 2}, f"…: {NOT_UNDERSTOOD}") for name in CONFIGS),
    *(
        (name, {"num_key_value_heads": DROPPED}, "has no num_key_value_heads; add it: an integer from 1 to 65,536")
        for name in (
            *("mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "glm4_moe", "llama4", "gemma2", "gemma"),
            *("smollm3", "seed_oss", "glm", "glm4", "stablelm", "starcoder2", "exaone4", "minimax_m2"),
            *("qwen2_moe", "ministral3", "phimoe"),
        )
    ),
    ("mistral", {"layer_types": [FULL] * 2}, f"…: supported: {SLIDING} in every layer"),
    ("mistral", {"sliding_window": 0}, "…: give an integer from 1 to 1,073,741,824"),
    ("qwen2", {"layer_types": [FULL]}, f"…: give one of {FULL}, {SLIDING} for each of 2 layers"),
    ("qwen2", {"use_sliding_window": False}, f"sliding_window = None: layers of {SLIDING} need one: give an integer"),
    ("qwen2", {"sliding_window": DROPPED}, "use_sliding_window = True: add sliding_window, or set it to false"),
    ("qwen2", {"use_mrope": True}, "…: positions in space are not supported; supported: false"),
    ("qwen3_moe", {"use_qk_norm": False}, "…: heads are always normalised; supported: true"),
    ("qwen3_moe", {"qkv_bias": True}, "…: name biases with attention_bias; supported: false"),
    ("qwen3_moe", {"shared_expert_intermediate_size": 6}, "…: there is no shared expert; supported: 0"),
    ("qwen3_next", {"linear_num_value_heads": 5}, "…: give a multiple of linear_num_key_heads = 2"),
    ("qwen3_next", {"use_sliding_window": True}, "…: no layer has a window; supported: false"),
    (
        "qwen3_next",
        {"layer_types": ["sliding_attention"] * 4},
        "…: give one of full_attention, linear_attention for each of 4 layers",
    ),
    (
        "qwen3_next",
        {"layer_types": ["linear_attention"] * 4},
        "…: no layer has full attention; give at least one of 4 layers full_attention",
    ),
    (
        "qwen3_5",
        {"full_attention_interval": 9, "layer_types": DROPPED},
        "…: no layer has full attention; give at least one of 2 layers full_attention",
    ),
    ("qwen3_5", {"attn_output_gate": False}, "…: the output of attention is always gated; supported: true"),
    ("qwen3_5_moe", {"mlp_only_layers": [0]}, "…: every layer has experts; supported: []"),
    ("qwen3_moe", {"mlp_only_layers": [3]}, "…: give a list of integers from 0 to 2"),
    ("qwen3_moe", {"num_experts": 9}, "…: contradicts num_local_experts = 5; keep one"),
    ("qwen3_moe", {"num_experts_per_tok": 9}, "…: give an integer from 1 to 5"),
    ("gpt_oss", {"swiglu_limit": -6.0}, "…: give a number above 0, at most 65504"),
    ("gpt_oss", {"swiglu_alpha": 1.0}, "…: supported: 1.702"),
    ("gpt_oss", {"experts_per_token": 3}, "…: contradicts num_experts_per_tok = 2"),
    ("glm4_moe", {"partial_rotary_factor": 0.25}, "partial_rotary_factor = 0.25"),
    ("glm4_moe", {"head_dim": 10}, "head_dim = 10 x partial_rotary_factor = 5"),
    ("glm4_moe", {"n_group": 4}, "…: give a divisor of 6 experts, with two or more a group"),
    ("glm4_moe", {"topk_group": 2}, "…: give an integer from 1 to 1"),
    ("deepseek_v3", {"num_experts_per_tok": 5}, "…: 2 groups hold 4 experts"),
    ("deepseek_v3", {"scoring_func": "softmax"}, "…: supported: sigmoid"),
    ("deepseek_v3", {"topk_method": "greedy"}, "…: supported: noaux_tc"),
    ("deepseek_v3", {"moe_layer_freq": 2}, "…: every layer after the dense ones has experts; supported: 1"),
    ("deepseek_v3", {"num_key_value_heads": 2}, "…: all 3 heads share the latent vector; give 3"),
    ("deepseek_v3", {"qk_head_dim": 6}, "…: is qk_nope_head_dim + qk_rope_head_dim = 20"),
    ("deepseek_v3", {"head_dim": 6}, "…: is qk_rope_head_dim = 8"),
    ("deepseek_v3", {"rope_interleave": False}, "…: rotated pairs must be neighbours; supported: true"),
    ("deepseek_v3", {"qk_rope_head_dim": 3}, "…: rotary positions pair features of a head: give an even size"),
    ("deepseek_v3", {"q_lora_rank": DROPPED}, "has no q_lora_rank; add it: an integer from 1 to 1,048,576"),
    (
        "deepseek_v3",
        {"rope_parameters": {"rope_type": "yarn", "factor": 40.0, "mscale_all_dim": 1e6}},
        "rope_parameters.mscale_all_dim = 1000000.0: give a number above 1e-06, at most 100",
    ),
    ("gemma", {"hidden_act": "relu"}, "…: supported: gelu_pytorch_tanh, gelu"),
    ("smollm3", {"no_rope_layers": [1]}, "…: give 0 or 1 for each of 2 layers"),
    ("ernie4_5_moe", {"use_bias": True}, "…: biases are not supported in this family; supported: false"),
    ("ernie4_5_moe", {"moe_k": 7}, "…: give an integer from 1 to 6"),
    ("stablelm", {"qk_layernorm": True}, "…: layer norms of heads are not supported; supported: false"),
    ("starcoder2", {"mlp_type": "gated"}, "…: supported: default"),
    ("olmo3", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}, "other": {}}}, "rope_parameters.other = {}"),
    ("olmoe", {"clip_qkv": 8.0}, "…: clipped queries, keys and values are not supported; supported: null"),
    ("minimax_m2", {"attn_type_list": [1, 0]}, "…: supported: 1 (full attention) in every layer"),
    ("minimax_m2", {"rotary_dim": 4}, "…: contradicts 8 rotated features; keep one"),
    ("gemma3", {"final_logit_softcapping": 30.0}, "…: caps are not supported in this family; supported: null"),
    ("gemma3", {"use_bidirectional_attention": True}, "…: only decoders are supported; supported: false"),
    ("cohere", {"use_qk_norm": True}, "…: layer norms of heads are not supported; supported: false"),
    ("cohere2", {"use_parallel_block": False}, "…: supported: true"),
    ("gpt_neox", {"hidden_size": 73}, "…: give a multiple of num_attention_heads = 3, or add head_dim"),
    ("falcon", {"alibi": True}, "…: positions in scores are not supported; supported: false"),
    ("falcon", {"num_kv_heads": 4}, "…: give a divisor of num_attention_heads = 6"),
    ("falcon_7b", {"ff_factor": 3}, "…: contradicts ffn_hidden_size = 320; remove it"),
    ("falcon_7b", {"num_ln_in_parallel_attn": 2}, "…: supported: 1"),
    ("qwen2_moe", {"use_sliding_window": True}, "…: a sliding window is not supported in this family"),
    (
        "ministral3",
        {"rope_parameters": {"rope_type": "default"}},
        "has no rope_parameters.llama_4_scaling_beta",
    ),
    ("phimoe", {"num_experts_per_tok": 3}, "…: the sparse mixer selects two experts; supported: 2"),
    *(
        (name, {key: value}, "…: give a number above 1e-06, at most 1e+06")
        for name, key, value in (
            *(("granite", "logits_scaling", 1e-9), ("granite", "attention_multiplier", 0)),
            *(("cohere", "logit_scale", 1e-13), ("gemma2", "query_pre_attn_scalar", 1e-30)),
        )
    ),
    ("opt", {"word_embed_proj_dim": 36}, "…: supported: hidden_size = 72"),
    ("opt", {"do_layer_norm_before": False}, "…: norms after blocks are not supported; supported: true"),
    ("opt", {"activation_function": "silu"}, "…: supported: relu, gelu"),
    ("nemotron", {"hidden_act": "relu"}, "…: supported: relu2"),
    ("llama4", {"no_rope_layers": [1, 0]}, "…: give 0 or 1 for each of 4 layers"),
    ("llama4", {"no_rope_layers": [1, 2, 0, 0]}, "…: give a list of integers from 0 to 1"),
    ("llama4", {"attention_chunk_size": None}, f"…: layers of {CHUNKED} need one: give an integer"),
    ("llama4", {"attn_temperature_tuning": 3}, "…: give true or false"),
    ("llama4", {"text_config": 3}, "…: give an object or null"),
    ("gemma2", {"use_bidirectional_attention": True}, "…: only decoders are supported; supported: false"),
    ("gemma2", {"hidden_activation": "relu"}, "…: supported: gelu_pytorch_tanh"),
    ("phi3", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "…: this scaling of rotary positions is"),
    ("phi3", {"attention_bias": True}, "…: this family has no biases; supported: false"),
    ("phi3", {"full_attn_mod": 2}, "…: supported: 1"),
    ("gpt2", {"n_embd": 25}, "…: give a multiple of n_head = 4"),
    ("gpt2", {"n_ctx": 16}, "…: contradicts n_positions = 64; remove it"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "…: scores scaled by layer are not supported"),
    ("gpt2", {"activation_function": "relu"}, "…: supported: gelu_new, gelu_pytorch_tanh, gelu"),
    ("gpt2", {"architectures": ["GPT2Model"]}, "…: only GPT2LMHeadModel predicts tokens"),
]


def changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (config | changes).items() if value is not DROPPED}


@pytest.mark.parametrize(("name", "changes", "tail"), REFUSED)
def test_what_is_not_covered_is_named(tmp_path: Path, name: str, changes: dict[str, Any], tail: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(changed(CONFIGS[name], changes)))
    assert refusal(BadModel, read_config, path).startswith(f"{path}: {about(changes, tail)}")


@pytest.mark.parametrize(
    ("outer", "inner", "tail"),
    [
        ({}, {"logits_zoom": 2}, f"text_config.logits_zoom = 2: {NOT_UNDERSTOOD}"),
        ({}, {"hidden_size": 0}, "text_config.hidden_size = 0: give an integer from 1 to 1,048,576"),
        ({}, {"vocab_size": DROPPED}, "has no text_config.vocab_size; add it: an integer from 1 to 16,777,216"),
        ({}, {"model_type": "llama"}, "text_config.model_type = 'llama': give llama4_text"),
        ({}, {"rope_scaling": {"type": "linear", "factor": 0}}, "text_config.rope_scaling.factor = 0"),
        ({}, {"torch_dtype": "float16"}, "text_config.torch_dtype = 'float16'"),
        ({"tie_word_embeddings": True}, {}, "tie_word_embeddings = True: contradicts text_config; keep one"),
        ({"logits_zoom": 2}, {}, f"logits_zoom = 2: {NOT_UNDERSTOOD}"),
    ],
)
def test_keys_inside_objects_are_named(tmp_path: Path, outer: dict[str, Any], inner: dict[str, Any], tail: str) -> None:
    config = changed(LLAMA4 | outer, {"text_config": changed(LLAMA4["text_config"], inner)})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert refusal(BadModel, read_config, path).startswith(f"{path}: {tail}")
