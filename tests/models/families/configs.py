"""Configs of every family as transformers 5 writes them, those of its goldens, and as transformers 4 writes them."""

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

NEWER = {"dtype", "rope_parameters", "layer_types"}
"""Keys that transformers 4 does not write."""

SPELLINGS: dict[str, Config] = json.loads((DATA / "spellings.json").read_text(encoding="utf-8"))
"""A golden, changes of it as transformers 5 spells them; keys that transformers 4 leaves out, and those of its own."""


def both(name: str) -> tuple[Config, Config]:
    """The config of a spelling as transformers 4 and 5 write it."""
    spelling = SPELLINGS[name]
    new = CONFIGS[spelling["golden"]] | spelling.get("changes", {})
    return older(new, {*spelling.get("left_out", ())}) | spelling.get("own", {}), new


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
