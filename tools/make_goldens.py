"""Write tests/data/families/*.json: outputs of transformers for a tiny random model per family.

    pip install torch transformers safetensors
    python tools/make_goldens.py [FAMILY ...]

The files contain a seed instead of weights: tests/support/random_checkpoint.py generates the same
weights from the seed and the names of the tensors. The seed is the first one with clear tokens
(``clear_answers``), so that rounding errors do not change the generated tokens.
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
DISTINCT = 5  # minimum number of different tokens among the generated ones
CLEAR = 1e-3  # gap between the two largest logits, relative to the largest absolute logit
SEEDS = range(1, 50)


def on_disk(config: Any, folder: Path) -> dict[str, list[int]]:
    """Return the names and shapes of the tensors that transformers writes for a config.

    Args:
        config: Config of transformers.
        folder: Folder to which a random model is saved.
    """
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found |= {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return found


def answer(model: Any, prompt: list[int]) -> tuple[dict[str, Any], float]:
    """Generate ``NEW_TOKENS`` tokens greedily.

    Args:
        model: Model of transformers.
        prompt: Token ids of the prompt.

    Returns:
        The case (prompt, generated ids, and the logits of the first and the last generated token),
        and the minimum gap between the two largest logits, relative to the largest absolute logit.
    """
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
    """Return the outputs of a model for ``PROMPTS``, or None if its tokens are not clear.

    Tokens are clear if the relative gap between the two largest logits is always more than
    ``CLEAR``, and each output has enough different tokens.

    Args:
        model: Model of transformers.
        distinct: Minimum number of different tokens in each output.

    Returns:
        ``cases``, one per prompt, and ``made_by``, the versions of transformers and torch.
    """
    answers = [answer(model, prompt) for prompt in PROMPTS]
    varied = all(len(set(case["ids"])) >= distinct for case, _ in answers)
    if min(gap for _, gap in answers) <= CLEAR or not varied:
        return None
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    return {"made_by": versions, "cases": [case for case, _ in answers]}


def golden(family: str, seeds: Iterable[int] = SEEDS, distinct: int = DISTINCT) -> dict[str, Any]:
    """Return the golden of a model family: config, tensor shapes, seed and transformers' outputs.

    Args:
        family: Key of ``FAMILIES``.
        seeds: Seeds to try. The first one with clear tokens is used.
        distinct: Minimum number of different tokens in each output.

    Raises:
        SystemExit: No seed has clear tokens.
    """
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
