"""Matrices of 8-bit and 4-bit floating-point numbers with scales, decoded to float32 without rounding.

F8_E4M3 with block scales: matrix [out, in], and a float32 scale for each block of it; blocks at the edges are cut off.
The product with the scale is rounded to float32 once.

MXFP4 (OCP Microscaling Formats 1.0): 32 numbers e2m1 share one scale 2 ** (e - 127), e a byte; 255 is not a number.
gpt-oss packs ``blocks`` [experts, out, groups, 16] and ``scales`` [experts, out, groups] uint8, the low half of a byte
first, and its matrices [experts, in, out] are that with the axes swapped.
"""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Stretch = slice | NDArray[np.intp]
U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

E4M3: Final[F32] = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
"""The value of every byte."""

E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_SIGNED: Final = np.array([*E2M1, *(-value for value in E2M1)], np.float32)
_PAIRS: Final[F32] = np.stack([np.tile(_SIGNED, 16), np.repeat(_SIGNED, 16)], axis=1)
"""The two values of every byte, [256, 2]."""

GROUP: Final = 32


def decode_fp8(numbers: U8, scales: F32, block: tuple[int, int], rows: Stretch) -> F32:
    """``[rows, in]`` of a matrix ``numbers [out, in]`` with ``scales [out / block, in / block]``, rounded up."""
    decoded: F32 = E4M3[numbers[rows]]
    of_rows = scales[np.arange(numbers.shape[0])[rows] // block[0]]
    for index in range(scales.shape[1]):
        decoded[:, index * block[1] : (index + 1) * block[1]] *= of_rows[:, index, None]
    return decoded


def decode_mxfp4(blocks: U8, scales: U8, rows: Stretch) -> F32:
    """``[experts, groups x 32, out]`` of the experts ``rows``: a view with swapped axes of a new array."""
    decoded: F32 = _PAIRS[blocks[rows]]  # [experts, out, groups, 16, 2]
    exponents = scales[rows].astype(np.int32) - 127
    factors = np.where(exponents == 128, np.nan, np.ldexp(1.0, exponents)).astype(np.float32)
    decoded *= factors[..., None, None]
    experts, out, groups = exponents.shape
    return decoded.reshape(experts, out, groups * GROUP).swapaxes(1, 2)
