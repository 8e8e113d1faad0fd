"""Write tests/data/gguf/*.json: outputs of transformers for tiny random GGUF files, one per type.

    pip install torch transformers gguf accelerate
    python tools/make_gguf_goldens.py [TYPE ...]

TYPE is a GGUF element type such as Q4_K; all types by default. The JSON files contain a seed
instead of weights: tests/support/random_gguf.py generates the same weights from the seed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from golden_text import write_goldens
from make_goldens import ROOT, SEEDS, clear_answers
from random_gguf import TYPE_NUMBERS, write_gguf

OUT = ROOT / "tests" / "data" / "gguf"
VOCABULARY = 259
LAYERS = 2


def description(kind: str) -> dict[str, Any]:
    """Return the GGUF metadata and the tensor shapes of a tiny Llama model.

    Args:
        kind: GGUF type of all matrices; norm weights are F32. Types that end with ``_K`` have
            blocks of 256 weights, so the model has 256 features for them instead of 96.

    Returns:
        ``{"metadata": ..., "tensors": {name: (shape, type)}}``.
    """
    wide = kind.endswith("_K")
    hidden, heads, kv_heads, ffn = (256, 4, 1, 256) if wide else (96, 3, 1, 160)
    keys = hidden // heads * kv_heads
    metadata = {
        "general.architecture": "llama",
        "general.name": f"random {kind}",
        "llama.block_count": LAYERS,
        "llama.context_length": 64,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": ffn,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": VOCABULARY,
        "llama.rope.dimension_count": hidden // heads,
    }
    tensors = {"token_embd.weight": ([VOCABULARY, hidden], kind)}
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        tensors |= {
            f"{at}.attn_norm.weight": ([hidden], "F32"),
            f"{at}.attn_q.weight": ([hidden, hidden], kind),
            f"{at}.attn_k.weight": ([keys, hidden], kind),
            f"{at}.attn_v.weight": ([keys, hidden], kind),
            f"{at}.attn_output.weight": ([hidden, hidden], kind),
            f"{at}.ffn_norm.weight": ([hidden], "F32"),
            f"{at}.ffn_gate.weight": ([ffn, hidden], kind),
            f"{at}.ffn_up.weight": ([ffn, hidden], kind),
            f"{at}.ffn_down.weight": ([hidden, ffn], kind),
        }
    tensors |= {"output_norm.weight": ([hidden], "F32"), "output.weight": ([VOCABULARY, hidden], kind)}
    return {"metadata": metadata, "tensors": tensors}


def golden(kind: str) -> dict[str, Any]:
    """Return the golden of a GGUF type: tensor shapes, seed and the outputs of transformers.

    The first seed is used with which every generated token is clearly the most likely one
    (``clear_answers``).

    Raises:
        SystemExit: There is no such seed among ``SEEDS``.
    """
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            made = {"type": kind, "seed": seed, **description(kind)}
            path = write_gguf(Path(folder) / f"{seed}.gguf", made)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
            ).eval()
            if (answers := clear_answers(model)) is not None:
                return made | answers
    message = f"{kind}: no seed gives clear tokens"
    raise SystemExit(message)


if __name__ == "__main__":
    write_goldens(OUT, sys.argv[1:] or TYPE_NUMBERS, golden)
