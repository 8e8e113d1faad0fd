"""Writer of GGUF files from metadata and arrays. Layout: docs/gguf.md of github.com/ggml-org/ggml."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

ALIGNMENT = 32
TYPE_NUMBERS = {"float32": 0, "float16": 1, "bfloat16": 30}


def text(value: str | bytes) -> bytes:
    """Encode a string: its length, and its bytes."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def item(value: Any) -> bytes:
    """Encode one metadata value: the number of its type, and the value."""
    if isinstance(value, list):
        kind = 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 5
        elements = (text(v) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", v) for v in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(elements)
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<I", 8) + text(value)


def tensor_info(name: str, shape: tuple[int, ...], number: int, offset: int) -> bytes:
    """Encode the description of a tensor.

    Args:
        name: Name of the tensor.
        shape: Sizes, innermost last.
        number: GGUF number of the element type.
        offset: Offset of the data, in bytes.
    """
    return (
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        + struct.pack("<IQ", number, offset)
    )


def head(tensors: int, items: int, version: int = 3) -> bytes:
    """Encode the start of a file: version, number of tensors and number of metadata items."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, items)


def padded(data: bytes) -> bytes:
    """Append zeros up to the alignment."""
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write_file(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]]
) -> Path:
    """Write a GGUF file and return its path; tensors are given as (shape, number of the element type, data)."""
    infos, data = b"", b""
    for name, (shape, number, content) in tensors.items():
        infos += tensor_info(name, shape, number, len(data))
        data += padded(content)
    items = b"".join(text(key) + item(value) for key, value in metadata.items())
    path.write_bytes(padded(head(len(tensors), len(metadata)) + items + infos) + data)
    return path


def write_arrays(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Path:
    """Write a GGUF file of arrays that are not quantised, and return its path."""
    stored = {name: (a.shape, TYPE_NUMBERS[a.dtype.name], a.tobytes()) for name, a in tensors.items()}
    return write_file(path, metadata, stored)
