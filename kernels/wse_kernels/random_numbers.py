"""Random numbers that are known by their place alone: element i of a stream is the same whoever asks for it, and when.

The stream is SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014): its state
after i steps is a product, so no element depends on the one before. A number is the sum of the four 16-bit parts of its
64 bits, moved and scaled: near to a normal distribution (Irwin-Hall), with nothing beyond 3.47 standard deviations. All
but the last multiplication and addition are of integers, so that every machine makes the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
PART = np.uint64(0xFFFF)
MIDDLE = np.int32(2 * 0xFFFF)


def normal_numbers(values: Any, key: Any, first: Any, mean: Any, factor: Any) -> None:
    """values[i] = mean + factor x (the sum at place ``first`` + i of the stream ``key``, less its mean).

    ``values`` are float32 ``[n]``, ``key`` and ``first`` uint64, ``mean`` and ``factor`` float32.
    """
    for i in range(len(values)):
        bits = key + (first + np.uint64(i) + np.uint64(1)) * STEP
        bits = (bits ^ (bits >> np.uint64(30))) * FIRST_FACTOR
        bits = (bits ^ (bits >> np.uint64(27))) * SECOND_FACTOR
        bits = bits ^ (bits >> np.uint64(31))
        low = (bits & PART) + ((bits >> np.uint64(16)) & PART)
        high = ((bits >> np.uint64(32)) & PART) + (bits >> np.uint64(48))
        values[i] = mean + np.float32(np.int32(low + high) - MIDDLE) * factor
