"""What Hugging Face transformers computes for a tiny random model of every family: tests/data/families/*.json.

    pip install torch transformers safetensors
    python tools/make_goldens.py [FAMILY ...]

Weights are not stored: tests/support/random_checkpoint.py draws them anew from the seed and the tensors' names.
Shapes are awkward on purpose, windows are shorter than the prompts. A seed is taken whose greedy tokens are clear:
the two largest logits of every step differ by a thousandth of the largest at least.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import safe_open

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_checkpoint import write_checkpoint  # noqa: E402

OUT = ROOT / "tests" / "data" / "families"
PROMPTS = ([3, 200, 17, 88, 41, 5, 130, 9, 251, 64, 23], [7, 190, 33])
NEW_TOKENS = 8
CLEAR = 1e-3
SEEDS = range(1, 50)

COMMON: dict[str, Any] = {
    "vocab_size": 259,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": None,
    "num_hidden_layers": 2,
    "tie_word_embeddings": False,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 72,
        "intermediate_size": 100,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
    },
    "llama_3": {
        "model_type": "llama",
        "hidden_size": 72,
        "intermediate_size": 100,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "mistral": {
        "hidden_size": 80,
        "intermediate_size": 90,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "sliding_window": 6,
        "rms_norm_eps": 1e-5,
    },
    "qwen2": {
        "hidden_size": 72,
        "intermediate_size": 110,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        "hidden_size": 80,
        "intermediate_size": 100,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 24,
    },
    "qwen3_moe": {
        "hidden_size": 72,
        "intermediate_size": 90,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 16,
        "num_hidden_layers": 3,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 20,
        "norm_topk_prob": True,
        "mlp_only_layers": [1],
        "decoder_sparse_step": 1,
    },
    "mixtral": {
        "hidden_size": 80,
        "intermediate_size": 50,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "num_local_experts": 3,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "gpt2": {
        "n_embd": 72,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 100,
        "n_positions": 64,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {
        "hidden_size": 72,
        "intermediate_size": 20,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 4.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 16,
        },
    },
    "glm4_moe": {
        "hidden_size": 80,
        "intermediate_size": 100,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "partial_rotary_factor": 0.5,
        "num_hidden_layers": 3,
        "first_k_dense_replace": 1,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 22,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "use_qk_norm": True,
        "attention_bias": True,
    },
    "deepseek_v3": {
        "hidden_size": 72,
        "intermediate_size": 90,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "q_lora_rank": 40,
        "kv_lora_rank": 28,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 12,
        "v_head_dim": 10,
        "num_hidden_layers": 3,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 18,
        "n_shared_experts": 1,
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "rope_interleave": True,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 16,
        },
    },
    "deepseek_v3_dense": {
        "model_type": "deepseek_v3",
        "hidden_size": 72,
        "intermediate_size": 90,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "q_lora_rank": None,
        "kv_lora_rank": 28,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 12,
        "v_head_dim": 10,
        "first_k_dense_replace": 2,
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 18,
        "n_group": 4,
        "topk_group": 2,
    },
    "llama4": {
        "model_type": "llama4_text",
        "hidden_size": 80,
        "intermediate_size": 30,
        "intermediate_size_mlp": 90,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "num_hidden_layers": 4,
        "no_rope_layers": [1, 1, 1, 0],
        "attention_chunk_size": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "use_qk_norm": True,
        "attn_temperature_tuning": True,
        "floor_scale": 4,
        "attn_scale": 0.1,
        "rms_norm_eps": 1e-5,
    },
    "gemma2": {
        "hidden_size": 72,
        "intermediate_size": 100,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "query_pre_attn_scalar": 20,
        "sliding_window": 6,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 10.0,
    },
    "phi3": {
        "hidden_size": 72,
        "intermediate_size": 100,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "sliding_window": 7,
    },
}


def on_disk(config: Any, folder: Path) -> dict[str, list[int]]:
    """Names and shapes of the tensors that transformers writes for a config."""
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found |= {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return found


def answer(model: Any, prompt: list[int]) -> tuple[dict[str, Any], float]:
    """Greedy tokens, logits after the prompt and before the last token, and the least gap between the two best."""
    ids, logits, gap = list(prompt), [], np.inf
    for _ in range(NEW_TOKENS):
        with torch.no_grad():
            last = model(torch.tensor([ids]), use_cache=False).logits[0, -1].float().numpy()
        best = np.sort(last)[::-1]
        gap = min(gap, float((best[0] - best[1]) / np.abs(last).max()))
        logits.append(last)
        ids.append(int(last.argmax()))
    rounded = [[float(f"{value:.7g}") for value in logits[at]] for at in (0, -1)]
    return {"prompt_ids": prompt, "ids": ids[len(prompt) :], "logits_first": rounded[0], "logits_last": rounded[1]}, gap


def golden(family: str, seeds: Iterable[int] = SEEDS) -> dict[str, Any]:
    """The golden of one family, by the first of ``seeds`` whose tokens are clear."""
    wanted = {**COMMON, "model_type": family, **FAMILIES[family]}
    kind = wanted.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **wanted)
    with tempfile.TemporaryDirectory() as folder:
        tensors = on_disk(config, Path(folder) / "made")
        stored = json.loads((Path(folder) / "made" / "config.json").read_text())
        stored.pop("transformers_version", None)
        for seed in seeds:
            made = {"family": family, "seed": seed, "config": stored, "tensors": tensors}
            path = write_checkpoint(Path(folder) / f"seed{seed}", made)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
            ).eval()
            answers = [answer(model, prompt) for prompt in PROMPTS]
            distinct = min(len(set(case["ids"])) for case, _ in answers)
            if min(gap for _, gap in answers) > CLEAR and distinct > NEW_TOKENS // 2:
                versions = {"transformers": transformers.__version__, "torch": torch.__version__}
                return {**made, "made_by": versions, "cases": [case for case, _ in answers]}
    message = f"{family}: no seed gives clear tokens"
    raise SystemExit(message)


def main() -> None:
    """Write the goldens of the families named, or of all."""
    OUT.mkdir(parents=True, exist_ok=True)
    for family in sys.argv[1:] or FAMILIES:
        made = golden(family)
        text = json.dumps(made, indent=1)
        (OUT / f"{family}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{family}: seed {made['seed']}, {[case['ids'] for case in made['cases']]}")


if __name__ == "__main__":
    main()
