"""Helpers that write small model files, and helpers that check error messages."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors_writer import write_safetensors

from wse.errors import WseError

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "vocab_size": 16,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def write_config(folder: Path, /, *drop: str, **changes: Any) -> Path:
    """Write the config.json of the tiny model with `changes` and without the keys in `drop`, and return its path."""
    config = {key: value for key, value in (CONFIG | changes).items() if key not in drop}
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def tiny_tensors(dtype: Any = np.float32, *, tied: bool = False) -> dict[str, NDArray[Any]]:
    """Return the tensors of the tiny model under their Hugging Face names, drawn from a fixed seed."""
    rng = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (16, 12), "model.norm.weight": (12,)}
    if not tied:
        shapes["lm_head.weight"] = (16, 12)
    for i in range(2):
        at = f"model.layers.{i}."
        shapes |= {
            at + "input_layernorm.weight": (12,),
            at + "post_attention_layernorm.weight": (12,),
            at + "self_attn.q_proj.weight": (24, 12),
            at + "self_attn.k_proj.weight": (12, 12),
            at + "self_attn.v_proj.weight": (12, 12),
            at + "self_attn.o_proj.weight": (12, 24),
            at + "mlp.gate_proj.weight": (20, 12),
            at + "mlp.up_proj.weight": (20, 12),
            at + "mlp.down_proj.weight": (12, 20),
        }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def write_model(folder: Path, tensors: Mapping[str, NDArray[Any]] | None = None, **config: Any) -> Path:
    """Write a model folder of the tiny model, without a tokenizer, and return the folder."""
    write_config(folder, **config)
    write_safetensors(folder / "model.safetensors", tiny_tensors() if tensors is None else tensors)
    return folder


def llama2c_bytes(pieces: Sequence[bytes], scores: Sequence[float], longest: int | None = None) -> bytes:
    """Return the contents of a llama2.c tokenizer file; `longest` is the length in bytes that its header states."""
    head = struct.pack("<i", max(map(len, pieces)) if longest is None else longest)
    return head + b"".join(
        struct.pack("<fi", score, len(piece)) + piece for piece, score in zip(pieces, scores, strict=True)
    )


def older_rope(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rope keys of a transformers 4 config for a rope table of transformers 5.

    If the table has one entry for each type of attention, that of full attention is used.
    """
    table = table.get("full_attention", table)
    outside = {key: table[key] for key in ("rope_theta", "partial_rotary_factor") if key in table}
    scaling = {key: value for key, value in table.items() if key not in (*outside, "rope_type")}
    return outside | ({"rope_scaling": {"type": table["rope_type"], **scaling}} if scaling else {})


def fill_ellipsis(changes: Mapping[str, Any], tail: str) -> str:
    """Replace the ellipsis in a message by the first changed key and its value."""
    return tail.replace("…", "".join(f"{key} = {value!r}" for key, value in list(changes.items())[:1]), 1)


def result_or_refusal(kind: type[WseError], call: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call, or None if it raises an error of type `kind` with a one-line message."""
    try:
        return call(*args)
    except kind as error:
        if not str(error).isprintable():
            raise
        return None
