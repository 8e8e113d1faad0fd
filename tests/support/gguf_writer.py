"""GGUF files of given metadata and arrays. Layout: docs/gguf.md of github.com/ggml-org/ggml."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

ALIGNMENT = 32
TYPE_NUMBERS = {"float32": 0, "float16": 1, "bfloat16": 30}


def text(value: str | bytes) -> bytes:
    """A text with its length."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def item(value: Any) -> bytes:
    """Kind and value of one item of metadata."""
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
    """One tensor, its sizes given with the innermost last."""
    return (
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        + struct.pack("<IQ", number, offset)
    )


def head(tensors: int, items: int, version: int = 3) -> bytes:
    """What a file begins with."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, items)


def padded(data: bytes) -> bytes:
    """Up to the alignment."""
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write_file(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]]
) -> Path:
    """A whole file of tensors of which the shape, the type's number and the bytes are given."""
    infos, data = b"", b""
    for name, (shape, number, content) in tensors.items():
        infos += tensor_info(name, shape, number, len(data))
        data += padded(content)
    items = b"".join(text(key) + item(value) for key, value in metadata.items())
    path.write_bytes(padded(head(len(tensors), len(metadata)) + items + infos) + data)
    return path


def write_arrays(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Path:
    """A whole file of plain arrays."""
    stored = {name: (a.shape, TYPE_NUMBERS[a.dtype.name], a.tobytes()) for name, a in tensors.items()}
    return write_file(path, metadata, stored)
