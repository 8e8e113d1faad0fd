"""Writer of safetensors files. Layout: the README of github.com/huggingface/safetensors."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]

DTYPE_NAMES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "int8": "I8",
    "uint8": "U8",
    "int64": "I64",
}


def header_of(tensors: Arrays) -> dict[str, Any]:
    """Return the header of a file that contains ``tensors`` one after another."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": DTYPE_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    return header


def join_safetensors(header: Any, data: bytes, padding: int = 0) -> bytes:
    """Return a file with the given header (a JSON value, or its bytes), ``padding`` spaces and data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * padding
    return struct.pack("<Q", len(text)) + text + data


def write_safetensors(path: Path, tensors: Arrays, padding: int = 0) -> Path:
    """Write ``tensors`` to a file, one after another, and return its path."""
    with path.open("wb") as stream:
        stream.write(join_safetensors(header_of(tensors), b"", padding))
        for array in tensors.values():
            stream.write(np.ascontiguousarray(array).tobytes())
    return path
