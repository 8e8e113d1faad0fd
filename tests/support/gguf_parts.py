"""What the writers of all architectures use: shared metadata, names of tensors, stacks of experts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
Config = Mapping[str, Any]
Made = tuple[dict[str, Any], Tensors]

BASE = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"self_attn.{x}_norm": f"attn_{x}_norm" for x in "qk"},
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
}
TABLES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def common(name: str, config: Config) -> dict[str, Any]:
    """Metadata of all except GPT-2."""
    scaling = config["rope_parameters"]
    made: dict[str, Any] = {
        "general.architecture": name,
        "general.name": "random",
        f"{name}.block_count": config["num_hidden_layers"],
        f"{name}.context_length": config["max_position_embeddings"],
        f"{name}.embedding_length": config["hidden_size"],
        f"{name}.feed_forward_length": config["intermediate_size"],
        f"{name}.attention.head_count": config["num_attention_heads"],
        f"{name}.attention.head_count_kv": config["num_key_value_heads"],
        f"{name}.rope.freq_base": float(scaling["rope_theta"]),
        f"{name}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{name}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
    }
    if scaling["rope_type"] == "yarn":
        made |= {
            f"{name}.rope.scaling.type": "yarn",
            f"{name}.rope.scaling.factor": float(scaling["factor"]),
            f"{name}.rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
        }
    return made


def head_sizes(name: str, size: int) -> dict[str, Any]:
    """Where the size of a head does not follow from the others."""
    return {f"{name}.attention.key_length": size, f"{name}.attention.value_length": size}


def renamed(tensors: Mapping[str, Array], layer: Mapping[str, str] = {}) -> Tensors:
    """Tensors that only change their names; those of experts are left as they are."""
    names = BASE | dict(layer)
    result = {}
    for name, array in tensors.items():
        stem, _, suffix = name.rpartition(".")
        match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
        if match is None:
            result[f"{TABLES[stem]}.{suffix}"] = array
        elif match[2] in names:
            result[f"blk.{match[1]}.{names[match[2]]}.{suffix}"] = array
        else:
            result[name] = array
    return result


def neighbours(array: Array, heads: int) -> Array:
    """Rotated pairs side by side, where they stood across the halves of a head."""
    return array.reshape(heads, 2, len(array) // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def stacked(tensors: Tensors, pattern: str, names: Mapping[str, str]) -> Tensors:
    """Matrices of single experts as stacks."""
    result, stacks = {}, {}
    for name, array in tensors.items():
        match = re.fullmatch(pattern, name)
        if match is None:
            result[name] = array
        else:
            stacks[f"blk.{match[1]}.ffn_{names[match[3]]}_exps.weight", int(match[2])] = array
    for key in dict.fromkeys(name for name, _ in stacks):
        result[key] = np.stack([array for (name, _), array in sorted(stacks.items()) if name == key])
    return result
