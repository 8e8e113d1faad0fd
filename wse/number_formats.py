"""Element types of numbers on a PE, and codings for quantised weights.

A quantised weight is the product of a code and a scale. Codes are symmetric around 0. The weights
that share a scale have the scale max|w| / (largest code), where max|w| is their largest magnitude.

Sources: int8 with a scale per row as in LLM.int8() (Dettmers et al., arXiv 2208.07339); int4 with a
scale per group as in GPTQ (Frantar et al., arXiv 2210.17323). fp8 is e4m3 as in Micikevicius et
al., arXiv 2209.05433. fp8 with a scale per block of inputs and outputs is the training format of
DeepSeek-V3 (arXiv 2412.19437, section 3.3.2). mxfp4 is e2m1 with a scale per 32 inputs; the scale
is a power of two in e8m0 (OCP Microscaling Formats 1.0, sections 5.2 and 6.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from wse_mappings.rounding import ceil_div

DTYPES: Final = ("float32", "float16", "bfloat16")
"""Element types of activations, accumulators and unquantised weights."""

ELEMENT_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}

WORD_BYTES: Final = 4
"""Size in bytes of a word on the links between PEs."""

SIGNIFICANT_BITS: Final = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Number of significant bits of each element type, including the implicit leading bit."""


def round_to(value: float, element: str) -> float:
    """Round a value to the nearest number of an element type, with ties to even.

    The value must be in the range of normal numbers of the type; overflow and underflow are not
    handled.

    >>> round_to(72**0.5, "bfloat16")
    8.5
    """
    significand, exponent = math.frexp(value)
    bits = SIGNIFICANT_BITS[element]
    return math.ldexp(round(math.ldexp(significand, bits)), exponent - bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """A storage format for quantised weight matrices ``[out, in]``.

    Weights are stored as small codes, which are multiplied by scales.

    Attributes:
        name: Name of the coding, also used in the names of kernels.
        bits: Bits per code.
        largest_code: Largest magnitude of a code.
        group: Number of adjacent inputs that share a scale; 0 if all inputs of an output share one.
        block: Number of adjacent outputs that share a scale; 1 if each output has its own.
        scale_view: Storage type of the scales: ``wgt`` for the type of the activations, ``f32`` for
            float32, ``raw`` for powers of two in e8m0.
    """

    name: str
    bits: int
    largest_code: int
    group: int
    block: int = 1
    scale_view: str = "wgt"

    @property
    def number(self) -> int:
        """Index that tells a kernel how to decode weights in this format."""
        return _CODINGS_IN_ORDER.index(self.name)

    @property
    def is_factored(self) -> bool:
        """True if scales are stored in a different type from the activations.

        Such scales are converted only when the PE unpacks a row of codes.
        """
        return self.scale_view != "wgt"

    def groups(self, inputs: int) -> int:
        """Return the number of scales per output of a matrix with the given number of inputs."""
        return ceil_div(inputs, self.group) if self.group else 1

    def code_bytes(self, rows: int, columns: int) -> int:
        """Return the size in bytes of the codes for a part ``[rows, columns]`` of a matrix.

        Codes that share a byte are adjacent in a column, so each column starts with a new byte.
        """
        return ceil_div(rows * self.bits, 8) * columns

    def scale_bytes(self, float_bytes: int) -> int:
        """Return the size of one scale in bytes, given the size of one activation in bytes."""
        return {"wgt": float_bytes, "f32": 4, "raw": 1}[self.scale_view]


E8M0_BIAS: Final = 127
E8M0_NAN: Final = 255
"""Byte of an e8m0 scale that means "not a number". Any other byte e means 2 ** (e - 127)."""

FP8, INT4, MXFP4, FP8_BLOCKS = "fp8", "int4", "mxfp4", "fp8_blocks"

CODINGS: Final = {
    coding.name: coding
    for coding in (
        Coding(name="int8", bits=8, largest_code=127, group=0),
        Coding(name=FP8, bits=8, largest_code=448, group=0),
        Coding(name=INT4, bits=4, largest_code=7, group=32),
        Coding(name=MXFP4, bits=4, largest_code=6, group=32, scale_view="raw"),
    )
}
"""Codings to which a checkpoint's plain weights can be quantised, keyed by ``--dtype`` name."""

_CODINGS_IN_ORDER: Final = (*CODINGS, FP8_BLOCKS)


@cache
def fp8_blocks(outputs: int, inputs: int) -> Coding:
    """Return the fp8 coding with one float32 scale per block of weights.

    This is the format of published FP8 checkpoints.

    Args:
        outputs: Number of adjacent outputs in a block.
        inputs: Number of adjacent inputs in a block.
    """
    return replace(CODINGS[FP8], name=FP8_BLOCKS, group=inputs, block=outputs, scale_view="f32")


GROUP_NUMBERS: Final = "group_numbers"
"""Name of a generated tensor 0, 1, 2, ... from which PEs take the indices of their scale groups.

A PE stores the index of each scale group that its rows touch, and the number of outputs of each of
its blocks, in one byte each.
"""
MAX_GROUPS: Final = 256


def codes_name(tensor: str) -> str:
    """Return the name under which the codes (quantised weights) of a tensor are stored.

    Args:
        tensor: Name of a quantised weight matrix ``[out, in]``. The codes have the same shape.
    """
    return f"{tensor}.codes"


def scales_name(tensor: str) -> str:
    """Return the name under which the scales of a quantised tensor or tile are stored.

    Args:
        tensor: Name of a quantised weight matrix ``[out, in]``, whose scales have the shape
            ``[out, groups]``, or name of a tile (the block of weights on one PE).
    """
    return f"{tensor}.scales"
