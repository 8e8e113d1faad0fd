"""Oracle of random numbers: Python integers, one number after another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WORD = 1 << 64


def normal_numbers(values: npt.NDArray[np.float32], key: int, first: int, mean: float, factor: float) -> None:
    """Fill an array with pseudo-random numbers that are approximately normally distributed.

    Each number is ``mean`` plus ``factor`` times the centred sum of the four 16-bit parts of a
    random 64-bit word. This reference is used to test the compiled kernel of the same name.

    Args:
        values: float32 ``[n]``, overwritten.
        key: 64-bit number that selects the stream of random words.
        first: Position of the first number in the stream.
        mean, factor: Mean of the numbers, and the factor that scales their deviation from it.
    """
    for i in range(len(values)):
        bits = _word(int(key), int(first) + i)
        total = sum(bits >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 2 * 0xFFFF
        values[i] = np.float32(mean) + np.float32(total) * np.float32(factor)


def _word(key: int, place: int) -> int:
    """Return the 64-bit random word at a position of a SplitMix64 stream.

    The algorithm is given in Steele, Lea and Flood, figure 16. Its state before the final mixing is
    key + (place + 1) * step, where the step is a constant of the algorithm.

    Args:
        key: 64-bit number that selects the stream.
        place: Position in the stream, counted from 0.
    """
    state = (key + (place + 1) * 0x9E3779B97F4A7C15) % WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31
