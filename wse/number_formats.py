"""Number formats: the element types of numbers on a PE, and the codings that hold quantised weights.

A weight is code x scale. Codes are symmetric around 0; a scale is that of the largest magnitude that shares it,
max|w| / the largest code, which is how LLM.int8() (Dettmers et al., arXiv 2208.07339) holds rows of weights and GPTQ
(Frantar et al., arXiv 2210.17323) groups of them. fp8 is e4m3 as in Micikevicius et al., arXiv 2209.05433; with a scale
for each block of inputs and outputs it is what DeepSeek-V3 is trained in (arXiv 2412.19437, section 3.3.2). mxfp4 is
e2m1 with a power of two, e8m0, for each 32 inputs (OCP Microscaling Formats 1.0, sections 5.2 and 6.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

DTYPES: Final = ("float32", "float16", "bfloat16")
"""Types of activations and accumulators, and of weights that no coding holds."""

ELEMENT_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}

WORD_BYTES: Final = 4
"""Bytes of a word on the links between PEs."""

SIGNIFICANT_BITS: Final = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of a number's mantissa, the leading one among them."""


def round_to(value: float, element: str) -> float:
    """Return the number of an element type that is nearest to one in the range of all, ties to even.

    >>> round_to(72**0.5, "bfloat16")
    8.5
    """
    significand, exponent = math.frexp(value)
    bits = SIGNIFICANT_BITS[element]
    return math.ldexp(round(math.ldexp(significand, bits)), exponent - bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """A way to hold weights ``[out, in]``.

    Attributes:
        name: Its name, which kernels have too.
        bits: Of a code.
        largest: Magnitude of a code.
        group: Neighbouring inputs that share a scale; 0 for all of them.
        block: Neighbouring outputs that share it; 1 where each output has its own.
        scale_view: The view that scales are in: ``wgt``, the activations' type; ``f32``; ``raw``, powers of two e8m0.
    """

    name: str
    bits: int
    largest: int
    group: int
    block: int = 1
    scale_view: str = "wgt"

    @property
    def number(self) -> int:
        """Its place among all codings, by which kernels know it."""
        return _CODINGS_IN_ORDER.index(self.name)

    @property
    def is_factored(self) -> bool:
        """True if scales become numbers of the activations' type only when a row of codes is unpacked."""
        return self.scale_view != "wgt"

    def groups(self, inputs: int) -> int:
        """Scales of one output."""
        return -(-inputs // self.group) if self.group else 1

    def code_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the codes of a tile ``[rows, columns]``: codes that share a byte are neighbours in a column."""
        return -(-rows * self.bits // 8) * columns

    def scale_bytes(self, float_bytes: int) -> int:
        """Return the bytes of a scale beside activations of so many bytes."""
        return {"wgt": float_bytes, "f32": 4, "raw": 1}[self.scale_view]


E8M0_BIAS: Final = 127
E8M0_NAN: Final = 255
"""The byte that stands for no number; byte e is 2 ** (e - 127) otherwise."""

FP8, INT4, MXFP4, FP8_BLOCKS = "fp8", "int4", "mxfp4", "fp8_blocks"

CODINGS: Final = {
    coding.name: coding
    for coding in (
        Coding(name="int8", bits=8, largest=127, group=0),
        Coding(name=FP8, bits=8, largest=448, group=0),
        Coding(name=INT4, bits=4, largest=7, group=32),
        Coding(name=MXFP4, bits=4, largest=6, group=32, scale_view="raw"),
    )
}
"""Codings of weights that a checkpoint holds as plain numbers, by what ``--dtype`` calls them."""

_CODINGS_IN_ORDER: Final = (*CODINGS, FP8_BLOCKS)


@cache
def fp8_blocks(outputs: int, inputs: int) -> Coding:
    """Return the coding of a checkpoint in FP8 whose float32 scales are of blocks of that many outputs and inputs."""
    return replace(CODINGS[FP8], name=FP8_BLOCKS, group=inputs, block=outputs, scale_view="f32")


GROUP_NUMBERS: Final = "group_numbers"
"""The made tensor 0, 1, 2, ...: the groups that a PE touches are numbered in a byte, and runs of outputs counted."""
MOST_GROUPS: Final = 256


def codes_name(tensor: str) -> str:
    """Return the codes ``[out, in]`` of a tensor."""
    return f"{tensor}.codes"


def scales_name(tensor: str) -> str:
    """Return the scales ``[out, groups]`` of a tensor, or of a tile of tensors side by side."""
    return f"{tensor}.scales"
