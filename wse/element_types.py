"""Element types: those of the numbers on a PE, by name."""

from __future__ import annotations

import math
from typing import Final

DTYPES: Final = ("float32", "float16", "bfloat16")
"""Types of activations and accumulators, and of weights that no coding holds."""

ELEMENT_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}

SIGNIFICANT_BITS: Final = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Of a number's mantissa, the leading one among them."""


def rounded(value: float, element: str) -> float:
    """The number of an element type that is nearest to one in the range of all, ties to even.

    >>> rounded(72**0.5, "bfloat16")
    8.5
    """
    significand, exponent = math.frexp(value)
    bits = SIGNIFICANT_BITS[element]
    return math.ldexp(round(math.ldexp(significand, bits)), exponent - bits)
