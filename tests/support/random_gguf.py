"""GGUF files of random weights that are the same on every machine.

Blocks are raw bits of PCG64, except for their scales. Layout: ggml's block structures (github.com/ggml-org/ggml).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from gguf_writer import write_file
from random_checkpoint import values

Bytes = npt.NDArray[np.uint8]

TYPE_NUMBERS = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
    "BF16": 30,
}
# For each block type: weights and bytes per block, and the byte offsets of its float16 scales with their factors. A
# scale is its factor times the standard deviation of the weights. The second scale removes the mean of the weights.
BLOCKS: dict[str, tuple[int, int, dict[int, float]]] = {
    "Q8_0": (32, 34, {0: 1 / 74}),
    "Q4_0": (32, 18, {0: 1 / 4.6}),
    "Q4_1": (32, 20, {0: 1 / 4.6, 2: -7.5 / 4.6}),
    "Q5_0": (32, 22, {0: 1 / 9.2}),
    "Q5_1": (32, 24, {0: 1 / 9.2, 2: -15.5 / 9.2}),
    "Q4_K": (256, 144, {0: 1 / 255, 2: 7.5 / 255}),
    "Q5_K": (256, 176, {0: 1 / 510, 2: 15.5 / 510}),
    "Q6_K": (256, 210, {208: 1 / 1365}),
}


def stored_bytes(name: str, shape: Sequence[int], kind: str, seed: int) -> Bytes:
    """Return the bytes of tensor ``name`` in a file, uint8 ``[bytes]``."""
    if kind not in BLOCKS:
        made = values(name, shape, seed)
        dtype = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}[kind]
        return np.frombuffer(made.astype(dtype).tobytes(), np.uint8)
    weights, size, scales = BLOCKS[kind]
    count = math.prod(shape) // weights
    words = -(-count * size // 8)
    raw = np.random.PCG64(np.random.SeedSequence([seed, *f"{kind} {name}".encode()])).random_raw(words)
    blocks = np.frombuffer(raw.astype("<u8").tobytes(), np.uint8)[: count * size].reshape(count, size).copy()
    spread = math.sqrt(2.0 / shape[-1])
    block_factors = 0.75 + (np.arange(count) % 7) / 14  # blocks differ in scale
    for offset, factor in scales.items():
        blocks[:, offset : offset + 2] = (
            (block_factors * factor * spread).astype("<f2").view(np.uint8).reshape(count, 2)
        )
    return blocks.reshape(-1)


def write_gguf(path: Path, golden: Mapping[str, Any]) -> Path:
    """Write the GGUF file of a golden file, which contains metadata and the shape and type of each tensor."""
    tensors: dict[str, tuple[list[int], str]] = golden["tensors"]
    contents = {
        name: (tuple(shape), TYPE_NUMBERS[kind], stored_bytes(name, shape, kind, golden["seed"]).tobytes())
        for name, (shape, kind) in tensors.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_file(path, golden["metadata"], contents)
