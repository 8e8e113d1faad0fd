"""Write tests/data/rope.json: rotary frequencies by transformers for every type of RoPE scaling.

pip install torch transformers
python tools/make_rope_goldens.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import transformers
from transformers import LlamaConfig, Phi3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

OUT = Path(__file__).parents[1] / "tests" / "data" / "rope.json"

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.05, 1.1, 1.3, 1.5, 2.0],
    "long_factor": [1.0, 2.0, 3.0, 4.0, 8.0, 16.0],
}

CASES: list[dict[str, Any]] = [
    {"head_dim": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    {"head_dim": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    {"head_dim": 16, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}},
    {"head_dim": 16, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}},
    {
        "head_dim": 128,
        "rope_parameters": {**LLAMA3, "rope_theta": 500000.0, "original_max_position_embeddings": 8192},
    },
    {  # both limits are equal, so there are no wavelengths between them
        "head_dim": 128,
        "rope_parameters": {
            **LLAMA3,
            "rope_theta": 500000.0,
            "factor": 16.0,
            "high_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
        },
    },
    {  # gpt-oss
        "head_dim": 64,
        "rope_parameters": {
            **YARN,
            "rope_theta": 150000.0,
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    },
    {  # DeepSeek-V3
        "head_dim": 64,
        "rope_parameters": {
            **YARN,
            "rope_theta": 10000.0,
            "factor": 40,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
        },
    },
    {"head_dim": 32, "rope_parameters": {**YARN, "rope_theta": 10000.0, "mscale": 0.707, "mscale_all_dim": 1.0}},
    {"head_dim": 32, "rope_parameters": {**YARN, "rope_theta": 10000.0, "attention_factor": 1.5}},
    {  # both ends of the ramp are the first pair
        "head_dim": 8,
        "rope_parameters": {**YARN, "rope_theta": 10000.0, "original_max_position_embeddings": 2},
    },
    {"head_dim": 12, "rope_parameters": {**LONG, "rope_theta": 10000.0}, "original_max_position_embeddings": 1024},
    {  # the original context is as long as the context
        "head_dim": 12,
        "rope_parameters": {**LONG, "rope_theta": 10000.0},
        "original_max_position_embeddings": 4096,
    },
    {
        "head_dim": 16,
        "rope_parameters": {**LONG, "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        "original_max_position_embeddings": 1024,
    },
    {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
]


def compute(case: dict[str, Any]) -> dict[str, Any]:
    """Compute the rotary frequencies of a case with transformers.

    Returns:
        The case with three more keys: ``model_type``, ``frequencies`` (float32 values), and
        ``multiplier``, the factor of all cosines and sines.
    """
    size = case["head_dim"]
    settings: dict[str, Any] = {"hidden_size": 2 * size, "num_attention_heads": 2, "max_position_embeddings": 4096}
    settings |= {key: value for key, value in case.items() if key != "head_dim"}
    settings["rope_parameters"] = dict(case["rope_parameters"])  # a copy, because transformers changes it
    phi = "original_max_position_embeddings" in case or "partial_rotary_factor" in case["rope_parameters"]
    if phi:
        embedding = Phi3RotaryEmbedding(Phi3Config(**settings, pad_token_id=0))
    else:
        embedding = LlamaRotaryEmbedding(LlamaConfig(**settings, head_dim=size))
    return {
        "model_type": "phi3" if phi else "llama",
        **case,
        "frequencies": [float(value) for value in embedding.inv_freq],
        "multiplier": float(embedding.attention_scaling),
    }


if __name__ == "__main__":
    golden = {"made_by": {"transformers": transformers.__version__}, "cases": [compute(case) for case in CASES]}
    OUT.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
