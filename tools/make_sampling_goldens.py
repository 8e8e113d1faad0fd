"""Write ``tests/data/text/sampling.json``: token probabilities by transformers' logits processors.

    pip install torch "transformers>=5"; python tools/make_sampling_goldens.py

Each case has random logits, the ids of previous tokens, sampling options, the ids that have a
probability above 0 under these options, and their probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parents[1] / "tests" / "data" / "text" / "sampling.json"
VOCABULARY = 37
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.7},
    {"temperature": 3.0, "top_k": 5},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_k": 100},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 0.5, "top_p": 0.3},
    {"temperature": 2.0, "top_p": 0.01},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 1.5, "min_p": 1.0},
    {"temperature": 1.0, "repetition_penalty": 1.3},
    {"temperature": 1.0, "repetition_penalty": 0.8},
    {"temperature": 0.9, "top_k": 12, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1},
    {"temperature": 2.5, "top_k": 20, "top_p": 0.95, "min_p": 0.2, "repetition_penalty": 2.0},
)


def scores(logits: Sequence[float], seen: Sequence[int], options: Mapping[str, Any]) -> Any:
    """Return the logits after transformers' processors, applied in the order of generation.

    Args:
        logits: One logit per id of the vocabulary.
        seen: Ids of previous tokens, to which the repetition penalty applies.
        options: Sampling options, with the names of transformers.

    Returns:
        Float64 tensor [1, vocabulary].
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(logits), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    asked = {"top_k": 0, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0} | dict(options)
    generation = GenerationConfig(do_sample=True, **asked)
    processors = LlamaForCausalLM(config)._get_logits_processor(generation, input_ids_seq_length=len(seen))
    return processors(torch.tensor([list(seen)], dtype=torch.long), torch.tensor([list(logits)], dtype=torch.float64))


def cases() -> list[dict[str, Any]]:
    """Return a case for each setting and each of three standard deviations of the logits."""
    random = np.random.default_rng(5)
    found = []
    for index, options in enumerate(SETTINGS):
        for width in (0.5, 2.0, 6.0):
            logits = [round(float(value), 4) for value in random.standard_normal(VOCABULARY) * width]
            seen = [int(value) for value in random.integers(0, VOCABULARY, 1 + index)]
            likelihoods = scores(logits, seen, options).softmax(-1)[0].tolist()
            kept = [i for i, value in enumerate(likelihoods) if value > 0]
            found.append(
                {
                    "options": options,
                    "logits": logits,
                    "seen": seen,
                    "kept": kept,
                    "probabilities": [float(f"{likelihoods[i]:.8g}") for i in kept],
                }
            )
    return found


if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n", encoding="utf-8")
