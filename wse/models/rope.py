"""Rotary frequencies, as Hugging Face transformers computes them: in float32."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse.models.spec import Rope


def plain_rope(size: int, base: float) -> Rope:
    """``base ** (-2 p / size)`` for each pair p of ``size`` features (even)."""
    return Rope(frequencies=as_tuple(_inverse(size, base)))


def as_tuple(frequencies: npt.NDArray[np.float32]) -> tuple[float, ...]:
    """float32 values as Python numbers."""
    return tuple(float(value) for value in frequencies)


def _inverse(size: int, base: float) -> npt.NDArray[np.float32]:
    exponent = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    return np.asarray(np.float32(1.0) / np.power(np.float32(base), exponent), np.float32)
