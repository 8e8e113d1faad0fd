"""Number formats: the element types of numbers on a PE, and the codings that hold quantised weights.

A weight is code x scale. Codes are symmetric around 0; a scale is that of the largest magnitude that shares it,
max|w| / the largest code, which is how LLM.int8() (Dettmers et al., arXiv 2208.07339) holds rows of weights and GPTQ
(Frantar et al., arXiv 2210.17323) groups of them. fp8 is e4m3 as in Micikevicius et al., arXiv 2209.05433.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

DTYPES: Final = ("float32", "float16", "bfloat16")
"""Types of activations and accumulators, and of weights that no coding holds."""

ELEMENT_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}

SIGNIFICANT_BITS: Final = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of a number's mantissa, the leading one among them."""


def rounded(value: float, element: str) -> float:
    """The number of an element type that is nearest to one in the range of all, ties to even.

    >>> rounded(72**0.5, "bfloat16")
    8.5
    """
    significand, exponent = math.frexp(value)
    bits = SIGNIFICANT_BITS[element]
    return math.ldexp(round(math.ldexp(significand, bits)), exponent - bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """A way to hold weights ``[out, in]``.

    Scales are of the activations' type, one for ``group`` neighbouring inputs of an output; 0 for all of them.
    """

    name: str
    bits: int
    largest: int  # magnitude of a code
    group: int

    def groups(self, inputs: int) -> int:
        """Scales of one output."""
        return -(-inputs // self.group) if self.group else 1

    def code_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the codes of a tile ``[rows, columns]``: codes that share a byte are neighbours in a column."""
        return -(-rows * self.bits // 8) * columns


CODINGS: Final = {
    coding.name: coding
    for coding in (
        Coding(name="int8", bits=8, largest=127, group=0),
        Coding(name="fp8", bits=8, largest=448, group=0),
        Coding(name="int4", bits=4, largest=7, group=32),
    )
}

GROUP_NUMBERS: Final = "group_numbers"
"""The made tensor 0, 1, 2, ...: the groups that a PE touches are numbered in a byte."""
MOST_GROUPS: Final = 256


def codes_name(tensor: str) -> str:
    """The codes ``[out, in]`` of a tensor."""
    return f"{tensor}.codes"


def scales_name(tensor: str) -> str:
    """The scales ``[out, groups]`` of a tensor, or of a tile of tensors side by side."""
    return f"{tensor}.scales"
