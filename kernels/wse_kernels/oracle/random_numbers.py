"""The oracle of random numbers: Python's integers, one number after another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WORD = 1 << 64


def normal_numbers(values: npt.NDArray[np.float32], key: int, first: int, mean: float, factor: float) -> None:
    """Numbers of the stream ``key`` from the place ``first`` on, around ``mean``, times ``factor``."""
    for i in range(len(values)):
        bits = _word(int(key), int(first) + i)
        total = sum(bits >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 2 * 0xFFFF
        values[i] = np.float32(mean) + np.float32(total) * np.float32(factor)


def _word(key: int, place: int) -> int:
    """The word at a place of a stream: Steele, Lea and Flood, figure 16, for a state of key + (place + 1) x step."""
    state = (key + (place + 1) * 0x9E3779B97F4A7C15) % WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31
