"""Goldens of Hugging Face transformers for a tiny random model of every family: tests/data/families/*.json.

    pip install torch transformers safetensors
    python tools/make_goldens.py [FAMILY ...]

Weights are not stored: tests/support/random_checkpoint.py draws them anew from the seed and the tensors' names.
A seed is taken whose greedy tokens are clear: the two largest logits of every step differ by a thousandth of the
largest at least, and more than half of the tokens are different ones.
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
from golden_text import write_goldens
from safetensors import safe_open
from tiny_families import COMMON, FAMILIES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_checkpoint import write_checkpoint  # noqa: E402

OUT = ROOT / "tests" / "data" / "families"
PROMPTS = ([3, 200, 17, 88, 41, 5, 130, 9, 251, 64, 23], [7, 190, 33])
NEW_TOKENS = 8
DISTINCT = 5  # of the new tokens
CLEAR = 1e-3
SEEDS = range(1, 50)


def on_disk(config: Any, folder: Path) -> dict[str, list[int]]:
    """Return the names and shapes of the tensors that transformers writes for a config."""
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


def clear_answers(model: Any, distinct: int = DISTINCT) -> dict[str, Any] | None:
    """Return the answers of a model to PROMPTS, and the versions that made them; None where its tokens are not clear.

    They are where the best is ahead in each, and an answer has ``distinct`` different ones at least.
    """
    answers = [answer(model, prompt) for prompt in PROMPTS]
    varied = all(len(set(case["ids"])) >= distinct for case, _ in answers)
    if min(gap for _, gap in answers) <= CLEAR or not varied:
        return None
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    return {"made_by": versions, "cases": [case for case, _ in answers]}


def golden(family: str, seeds: Iterable[int] = SEEDS, distinct: int = DISTINCT) -> dict[str, Any]:
    """Return the golden of one family, by the first of ``seeds`` whose tokens are clear."""
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
            if (answers := clear_answers(model, distinct)) is not None:
                return made | answers
    message = f"{family}: no seed gives clear tokens"
    raise SystemExit(message)


if __name__ == "__main__":
    write_goldens(OUT, sys.argv[1:] or FAMILIES, golden)
