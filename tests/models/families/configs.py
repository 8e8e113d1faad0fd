"""Configs of every family: those of the golden files, as transformers 5 writes them, and as transformers 4 does."""

import json
from pathlib import Path
from typing import Any

from tests.models.helpers import older_rope

Config = dict[str, Any]

DATA = Path(__file__).parents[2] / "data"
CONFIGS: dict[str, Config] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["config"]
    for path in sorted((DATA / "families").glob("*.json"))
}

NEW_KEYS = {"dtype", "rope_parameters", "layer_types"}
"""Keys that transformers 4 does not write."""

SPELLINGS: dict[str, Config] = json.loads((DATA / "spellings.json").read_text(encoding="utf-8"))
"""Config pairs by name.

A pair has the name of a golden file and changes of its config as transformers 5 writes them. For transformers 4, it
has keys that are left out (`left_out`) and keys with their own spelling (`own`).
"""


def old_and_new(name: str) -> tuple[Config, Config]:
    """Return the config of an entry of `SPELLINGS` as transformers 4 and as transformers 5 writes it."""
    spelling = SPELLINGS[name]
    new = CONFIGS[spelling["golden"]] | spelling.get("changes", {})
    return older(new, {*spelling.get("left_out", ())}) | spelling.get("own", {}), new


def older(new: Config, dropped: set[str]) -> Config:
    """Return a config of transformers 5 as transformers 4 writes it, without the keys in `dropped`."""
    rope = {} if "rope_parameters" in dropped else older_rope(new.get("rope_parameters", {}))
    kept = {key: value for key, value in new.items() if key not in NEW_KEYS | dropped}
    return kept | {"torch_dtype": new["dtype"]} | rope


GEMMA3: Config = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "torch_dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "mm_tokens_per_image": 256,
    "text_config": old_and_new("gemma3")[0],
}
del GEMMA3["text_config"]["torch_dtype"]
"""Gemma 3 with its vision model, as transformers 4 writes it."""

MINISTRAL3: Config = {
    "model_type": "mistral3",
    "architectures": ["Mistral3ForConditionalGeneration"],
    "dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "image_token_index": 10,
    "text_config": CONFIGS["ministral3"],
}
"""Ministral 3 with its vision model."""

QWEN3_5: Config = {
    "model_type": "qwen3_5_moe",
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "vision_config": {"hidden_size": 3},
    "image_token_id": 10,
    "text_config": CONFIGS["qwen3_5_moe"]
    | {"rope_parameters": CONFIGS["qwen3_5_moe"]["rope_parameters"] | {"mrope_section": [1, 1, 0]}},
}
"""Qwen3.5 with experts and with its vision model."""

GEMMA4: Config = {
    "model_type": "gemma4",
    "architectures": ["Gemma4ForConditionalGeneration"],
    "vision_config": {"hidden_size": 3},
    "audio_config": None,
    "image_token_id": 10,
    "tie_word_embeddings": True,
    "text_config": CONFIGS["gemma4"],
}
"""Gemma 4 with its vision model."""

LLAMA4: Config = {
    "model_type": "llama4",
    "architectures": ["Llama4ForConditionalGeneration"],
    "torch_dtype": "float32",
    "vision_config": {"hidden_size": 3},
    "boi_token_index": 7,
    "text_config": older(CONFIGS["llama4"], {"architectures", "moe_layers", "no_rope_layers"}),
}
del LLAMA4["text_config"]["torch_dtype"]
"""Llama 4 with its vision model, as transformers 4 writes it."""
