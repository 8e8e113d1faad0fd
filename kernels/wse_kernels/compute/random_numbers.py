"""Random numbers by position: element i of a stream always has the same value.

The stream is SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators,
OOPSLA 2014). Its state after i steps is a product, so no element depends on the one before. A
number is the sum of the four 16-bit parts of a 64-bit word, shifted and scaled. This is close to a
normal distribution (Irwin-Hall), with no value beyond 3.47 standard deviations. Only the last
multiplication and addition use floating point, so the result is the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
PART = np.uint64(0xFFFF)
MIDDLE = np.int32(2 * 0xFFFF)


def normal_numbers(values: Any, key: Any, first: Any, mean: Any, factor: Any) -> None:
    """Fill an array with pseudo-random numbers that are approximately normally distributed.

    values[i] = mean + factor * s, where s is the centred sum of the four 16-bit parts of the random
    64-bit word at position ``first`` + i of the stream.

    Args:
        values: float32 ``[n]``, overwritten.
        key: uint64 that selects the stream of random words.
        first: uint64 position of the first number in the stream.
        mean, factor: float32 mean of the numbers, and the factor that scales their deviation from
            it.
    """
    for i in range(len(values)):
        bits = key + (first + np.uint64(i) + np.uint64(1)) * STEP
        bits = (bits ^ (bits >> np.uint64(30))) * FIRST_FACTOR
        bits = (bits ^ (bits >> np.uint64(27))) * SECOND_FACTOR
        bits = bits ^ (bits >> np.uint64(31))
        low = (bits & PART) + ((bits >> np.uint64(16)) & PART)
        high = ((bits >> np.uint64(32)) & PART) + (bits >> np.uint64(48))
        values[i] = mean + np.float32(np.int32(low + high) - MIDDLE) * factor
