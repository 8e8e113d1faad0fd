"""Checkpoints of random weights, the same on every machine: values follow from a seed and the tensors' names.

A family's golden (tests/data/families/NAME.json) has the config, the tensors as the family's own framework writes
them, and what it computed. Values are drawn from the raw bits of PCG64, whose stream numpy keeps from release to
release.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from safetensors_writer import write_safetensors

Array = npt.NDArray[Any]

FLOAT8_SPREAD = 128.0  # about the deviation of e4m3 codes that are drawn evenly
NORM_MARKS = ("norm", "ln_")
VECTOR_SPREAD = 0.2


def values(name: str, shape: Sequence[int], seed: int) -> npt.NDArray[np.float32]:
    """Tensor ``name``: uniform, matrices with variance 2 / (inputs), gains around 1, other vectors around 0."""
    bits = np.random.PCG64(np.random.SeedSequence([seed, *name.encode()])).random_raw(math.prod(shape))
    even = ((bits >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0).reshape(shape)  # -1 to 1, 24 bits
    if len(shape) > 1 and "bias" not in name:
        inputs = shape[-1] if len(shape) == 2 else shape[-2]
        return (even * math.sqrt(6.0 / inputs)).astype(np.float32)
    gain = any(mark in name for mark in NORM_MARKS) and "bias" not in name
    return (even * VECTOR_SPREAD + (1.0 if gain else 0.0)).astype(np.float32)


def quantised(name: str, shape: Sequence[int], kind: str, seed: int) -> Array:
    """A tensor of codes or of their scales: ``fp8`` and ``fp8_scale``, ``mxfp4`` and ``mxfp4_scale``."""
    even = values(name, (math.prod(shape), 1), seed).reshape(shape) / math.sqrt(6.0) * 0.5 + 0.5  # 0 to 1
    if kind == "fp8_scale":
        return ((0.75 + even / 2) / FLOAT8_SPREAD * 0.15).astype(np.float32)
    if kind == "mxfp4_scale":
        return (121 + np.floor(even * 3)).astype(np.uint8)
    codes = np.floor(even * 256).clip(0, 255).astype(np.uint8)
    if kind == "mxfp4":
        return codes
    codes[(codes & 0x7F) == 0x7F] = 0  # no number
    return codes.view(ml_dtypes.float8_e4m3fn)


def write_checkpoint(folder: Path, golden: Mapping[str, Any], dtype: str = "float32") -> Path:
    """config.json and model.safetensors of a golden in ``folder``, which is made; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    coded: Mapping[str, str] = golden.get("quantised", {})
    tensors = {
        name: quantised(name, shape, coded[name], golden["seed"])
        if name in coded
        else values(name, shape, golden["seed"]).astype(kind)
        for name, shape in sorted(golden["tensors"].items())
    }
    config = {**golden["config"], "dtype": dtype}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
