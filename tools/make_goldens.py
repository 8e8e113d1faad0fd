"""Write the outputs of transformers into the goldens of tiny random models.

    pip install torch transformers safetensors accelerate gguf
    python tools/make_goldens.py tests/data/families/*.json
    python tools/make_goldens.py tests/data/families/phi3.json --config '{"hidden_size": 72}'

A golden is a JSON file in tests/data/families, formats or gguf. It describes a model by its config
or GGUF metadata, the shapes of its tensors, and a seed. tests/support/random_checkpoint.py and
random_gguf.py generate the same weights from the seed and the names of the tensors. This script
adds the tokens and logits that transformers computes in float32. The seed is the first one with
clear tokens (``clear_answers``), so that rounding errors do not change the generated tokens.

With ``--config``, the script creates the golden of a model family. The option lists the keys of
config.json whose values differ from ``COMMON`` and from transformers' defaults.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from random_checkpoint import write_checkpoint
from random_gguf import write_gguf

COMMON = {
    "vocab_size": 259,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": None,
    "num_hidden_layers": 2,
    "tie_word_embeddings": False,
}
PROMPTS = ([3, 200, 17, 88, 41, 5, 130, 9, 251, 64, 23], [7, 190, 33])
NEW_TOKENS = 8
DISTINCT = 5  # minimum number of different tokens among the generated ones
CLEAR = 1e-3  # gap between the two largest logits, relative to the largest absolute logit
SEEDS = range(1, 50)
NUMBERS = re.compile(r"\[\s+(-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*)\s+\]")


def family_golden(family: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a golden without outputs, with the config and tensors that transformers writes.

    Args:
        family: Name of the golden, which is also its ``model_type`` unless ``stated`` has another.
        stated: Keys of the config, which replace those in ``COMMON``.
    """
    config = transformers.AutoConfig.for_model(**{**COMMON, "model_type": family, **stated})
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        stored = json.loads((Path(folder) / "config.json").read_text())
        stored.pop("transformers_version", None)
        tensors = {}
        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                tensors |= {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return {"family": family, "seed": SEEDS[0], "config": stored, "tensors": tensors}


def load_model(golden: Mapping[str, Any], folder: Path) -> Any:
    """Write the files of a golden to ``folder``, and return the model that transformers loads."""
    if "metadata" in golden:
        options: dict[str, Any] = {"gguf_file": write_gguf(folder / "model.gguf", golden).name}
    else:
        write_checkpoint(folder, golden, golden.get("dtype", "float32"))
        options = {"experts_implementation": "eager"}
        method = golden["config"].get("quantization_config")
        if method is not None:
            decoded = method | {"dequantize": True}
            options["quantization_config"] = transformers.quantizers.AutoQuantizationConfig.from_dict(decoded)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **options
    )
    return model.eval()


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


def with_answers(golden: Mapping[str, Any], seeds: Iterable[int] = SEEDS, distinct: int = DISTINCT) -> dict[str, Any]:
    """Return a golden with the outputs of transformers for the first seed with clear tokens.

    Args:
        golden: The golden. Its seed and outputs are replaced.
        seeds: Seeds to try.
        distinct: Minimum number of different tokens in each output.
    """
    for seed in seeds:
        made = {**golden, "seed": seed}
        with tempfile.TemporaryDirectory() as folder:
            answers = clear_answers(load_model(made, Path(folder)), distinct)
        if answers is not None:
            return made | answers
    raise SystemExit("no seed gives clear tokens")


def golden_text(golden: Mapping[str, Any]) -> str:
    """Return a golden as JSON text, with every list of numbers on one line."""
    joined = NUMBERS.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", json.dumps(golden, indent=1))
    return joined + "\n"


def main() -> None:
    """Update the goldens that the command line names, and print their seeds and token ids."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("goldens", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--config", type=json.loads, metavar="JSON", help="create a golden with this config")
    options = parser.parse_args()
    for path in options.goldens:
        stated = options.config
        golden = json.loads(path.read_text("utf-8")) if stated is None else family_golden(path.stem, stated)
        made = with_answers(golden)
        path.write_text(golden_text(made), encoding="utf-8")
        print(f"{path.stem}: seed {made['seed']}, {[case['ids'] for case in made['cases']]}")


if __name__ == "__main__":
    main()
