"""Checkpoints of random weights that are the same on every machine.

The values depend on a seed and on the names of the tensors. They are drawn from the raw bits of PCG64, whose stream is
the same in all releases of numpy. The golden file of a family (tests/data/families/NAME.json) contains the config, the
names and shapes of the tensors as the family's framework writes them, the seed, and the logits of the framework.
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

FLOAT8_SPREAD = 128.0  # approximate standard deviation of uniformly drawn e4m3 codes
NORM_MARKS = ("norm", "ln_", "router.scale", "per_expert_scale")
VECTOR_SPREAD = 0.2


def values(name: str, shape: Sequence[int], seed: int) -> npt.NDArray[np.float32]:
    """Return the values of tensor ``name``, uniformly distributed.

    Matrices have variance 2 / inputs. Gains of norms are around 1, other vectors around 0.
    """
    bits = np.random.PCG64(np.random.SeedSequence([seed, *name.encode()])).random_raw(math.prod(shape))
    uniform = ((bits >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0).reshape(shape)  # -1 to 1, 24 bits
    if len(shape) > 1 and "bias" not in name:
        inputs = shape[-1] if len(shape) == 2 else shape[-2]
        return (uniform * math.sqrt(6.0 / inputs)).astype(np.float32)
    gain = any(mark in name for mark in NORM_MARKS) and "bias" not in name
    return (uniform * VECTOR_SPREAD + (1.0 if gain else 0.0)).astype(np.float32)


def quantised(name: str, shape: Sequence[int], kind: str, seed: int) -> Array:
    """Return a tensor of random codes (``kind`` fp8 or mxfp4) or of their scales (fp8_scale or mxfp4_scale)."""
    uniform = values(name, (math.prod(shape), 1), seed).reshape(shape) / math.sqrt(6.0) * 0.5 + 0.5  # 0 to 1
    if kind == "fp8_scale":
        return ((0.75 + uniform / 2) / FLOAT8_SPREAD * 0.15).astype(np.float32)
    if kind == "mxfp4_scale":
        return (121 + np.floor(uniform * 3)).astype(np.uint8)
    codes = np.floor(uniform * 256).clip(0, 255).astype(np.uint8)
    if kind == "mxfp4":
        return codes
    codes[(codes & 0x7F) == 0x7F] = 0  # e4m3 NaN
    return codes.view(ml_dtypes.float8_e4m3fn)


def write_checkpoint(folder: Path, golden: Mapping[str, Any], dtype: str = "float32") -> Path:
    """Write config.json and model.safetensors of a golden file to folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    kinds: Mapping[str, str] = golden.get("quantised", {})
    tensors = {
        name: quantised(name, shape, kinds[name], golden["seed"])
        if name in kinds
        else values(name, shape, golden["seed"]).astype(kind)
        for name, shape in sorted(golden["tensors"].items())
    }
    config = {**golden["config"], "dtype": dtype}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
