"""Types, shapes and positions of the tensors in a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from wse.errors import BadModel
from wse.models.gguf.blocks import BLOCK_KINDS
from wse.models.gguf.reader import LONGEST_NAME, GgufReader
from wse.models.tensors.safetensors_file import DTYPES

MAX_DIMENSIONS: Final = 4
MAX_ELEMENTS: Final = 2**48

PLAIN: Final[Mapping[str, np.dtype[Any]]] = {kind: DTYPES[kind] for kind in ("F32", "F16", "BF16")}
TYPES: Final = (
    *("F32", "F16", "Q4_0", "Q4_1", "Q4_2", "Q4_3", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K"),
    *("Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"),
    *("I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0"),
    *("IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4"),
)
"""ggml's names of tensor types by number (enum ggml_type)."""

SUPPORTED: Final = (*PLAIN, *BLOCK_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """Type, shape and position of a tensor in a GGUF file.

    Attributes:
        name: Name of the tensor.
        kind: Name of its type in ggml, such as Q4_K.
        shape: Shape with the innermost size last.
        begin: Offset of its first byte in the file.
        size_bytes: Number of bytes that it occupies.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    size_bytes: int


def read_tensor(reader: GgufReader, alignment: int) -> tuple[str, str, tuple[int, ...], int]:
    """Read the description of a tensor in a GGUF file, and advance the read position.

    Args:
        reader: Reader of the file, at the start of the description.
        alignment: Number of which the offset must be a multiple.

    Returns:
        Name, type, shape, and offset of the tensor in the data.
    """
    name = reader.text(LONGEST_NAME, "a tensor's name")
    item_name = f"tensor {name!r}"
    dimensions = reader.scalar("<I", item_name)
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        reader.fail(f"{item_name} has {dimensions:,} dimensions, the limit is {MAX_DIMENSIONS}")
    shape = tuple(reader.scalar("<Q", item_name) for _ in range(dimensions))[::-1]
    if min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        reader.fail(f"{item_name}: shape {list(shape)} is not a list of plausible sizes")
    number, offset = reader.scalar("<I", item_name), reader.scalar("<Q", item_name)
    if offset % alignment:
        reader.fail(f"{item_name} begins at byte {offset:,} of the data, which is not a multiple of {alignment}")
    return name, TYPES[number] if number < len(TYPES) else f"type {number}", shape, offset


def place_tensors(
    reader: GgufReader, descriptions: list[tuple[str, str, tuple[int, ...], int]], data_begin: int
) -> dict[str, GgufTensor]:
    """Return the position of each tensor in the file, keyed by its name.

    1. Check that all types are supported.
    2. Compute the bytes of each tensor and check that they are inside the file.
    3. Check that no two tensors overlap.

    Args:
        reader: Reader of the file.
        descriptions: Name, type, shape and offset of each tensor.
        data_begin: Offset of the data in the file.

    Raises:
        BadModel: A check fails, a name is used twice, or rows are not a whole number of blocks.
    """
    unsupported = [(name, kind) for name, kind, _, _ in descriptions if kind not in SUPPORTED]  # 1
    if unsupported:
        kinds = ", ".join(sorted({kind for _, kind in unsupported}))
        raise BadModel(
            f"{reader.path}: {len(unsupported)} tensors, {unsupported[0][0]!r} first, are stored as {kinds}, which is "
            f"not supported; supported: {', '.join(SUPPORTED)}"
        )
    tensors: dict[str, GgufTensor] = {}  # 2
    for name, kind, shape, offset in descriptions:
        if name in tensors:
            reader.fail(f"tensor {name!r} is there twice")
        size = _stored_bytes(kind, shape)
        if size is None:
            weights = BLOCK_KINDS[kind].weights
            reader.fail(f"tensor {name!r}: rows of {shape[-1]:,} are not whole blocks of {weights} of {kind}")
        begin = data_begin + offset
        if begin + size > reader.size:
            reader.fail(
                f"tensor {name!r} takes {size:,} bytes from byte {begin:,}, the file has {reader.size:,}; "
                "it may be cut short"
            )
        tensors[name] = GgufTensor(name=name, kind=kind, shape=shape, begin=begin, size_bytes=size)
    for first, second in pairwise(sorted(tensors.values(), key=lambda tensor: tensor.begin)):  # 3
        if first.begin + first.size_bytes > second.begin:
            reader.fail(f"tensors {first.name!r} and {second.name!r} overlap")
    return tensors


def _stored_bytes(kind: str, shape: tuple[int, ...]) -> int | None:
    """Return the size of a tensor in bytes; None if its rows are not a whole number of blocks.

    Args:
        kind: Name of the tensor's type in ggml, such as Q4_K.
        shape: Shape with the innermost size last.
    """
    if kind in PLAIN:
        return math.prod(shape) * PLAIN[kind].itemsize
    block = BLOCK_KINDS[kind]
    return None if shape[-1] % block.weights else math.prod(shape) // block.weights * block.bytes
