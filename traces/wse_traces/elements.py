"""Element types of recorded tensors: numpy's numeric types, and bfloat16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BFLOAT16: Final = "bfloat16"
_NUMBERS: Final = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_FLOATS: Final = ("float16", "float32", "float64")
ELEMENT_BYTES: Final[Mapping[str, int]] = {
    **{name: np.dtype(name).itemsize for name in (*_NUMBERS, *_FLOATS)},
    _BFLOAT16: 2,
}


def values_of(data: NDArray[Any], dtype: bytes) -> NDArray[Any]:
    r"""Interpret bytes as an array of little-endian numbers. bfloat16 is converted to float32.

    Args:
        data: uint8 ``[bytes]``.
        dtype: Name of the type, a key of ``ELEMENT_BYTES``.

    Raises:
        ValueError: The type is unknown, or the bytes are not a whole number of elements.

    >>> values_of(np.frombuffer(b"\x80\x3f\x00\xc0", "u1"), b"bfloat16").tolist()
    [1.0, -2.0]
    """
    name = dtype.decode(errors="replace")
    if name not in ELEMENT_BYTES:
        message = f"elements of type {name!r}, known are {', '.join(ELEMENT_BYTES)}"
        raise ValueError(message)
    if name == _BFLOAT16:
        return (data.view("<u2").astype("<u4") << 16).view("<f4")
    return data.view(np.dtype(name).newbyteorder("<"))
