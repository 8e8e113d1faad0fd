"""Cycle count of products of tiles, and of unpacking quantised weights and converting their scales.

M is the number of tokens, K is the number of inputs, and N is the number of outputs.

Codes of quantised weights are unpacked by 16-bit operations, a few rows at a time, into a scratch
buffer of the kernel.

A product is vectorised over its tokens. A product of one token is vectorised over its output
features. Both are as in the released GEMM and GEMV kernels. The GEMV is a single mapped operation
over its K vectors, without a loop of its own. A few tokens are multiplied sequentially if that
needs fewer cycles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.program.isa.pe_costs import PeCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """Cost of unpacking quantised weights (codes) from 16-bit words to float16 values.

    A vector operation processes words, each of which contains several codes, or single codes. The
    number of processed elements per code can therefore be a fraction.

    Attributes:
        operations: Number of vector operations that unpack a block of rows.
        shifts: Number of elements that shifts process, per code.
        logic: Number of elements that bitwise operations process, per code.
        adds: Number of elements that additions process, per code.
    """

    operations: int
    shifts: float
    logic: float
    adds: float


INT8: Final = Unpacking(operations=5, shifts=1 / 2, logic=3 / 2, adds=1)
"""Two codes per word: the upper one is shifted down, the lower one is masked.

An exclusive or with 0x6480 gives the float16 value 1024 + 128 + code, from which 1152 is
subtracted. Inserting the exponent as bits is the method of Kim et al., arXiv 2211.10017.
"""

INT4: Final = Unpacking(operations=11, shifts=3 / 4, logic=7 / 4, adds=1)
"""Four codes per word: three are shifted, three are masked.

After an exclusive or with 0x6408, 1032 is subtracted.
"""

FP8: Final = Unpacking(operations=5, shifts=3 / 2, logic=1, adds=0)
"""Two codes per word; the lower code is shifted up first.

An arithmetic shift by 1 and a mask leave the bits of a float16 value that is 1/256 of the code's
value. The scale includes this factor.
"""

MXFP4: Final = Unpacking(operations=11, shifts=7 / 4, logic=1, adds=0)
"""Four codes per word; three of them are shifted up first.

An arithmetic shift by 3 and a mask leave the bits of a float16 value that is 2^-14 of the code's
value. The scale includes this factor.
"""

E8M0: Final = Unpacking(operations=6, shifts=1, logic=1, adds=1)
"""Powers of two, two per word.

Each is shifted to the exponent's bits and masked. The difference of the exponent biases is added to
these bits.
"""

BY_CODING: Final = (INT8, FP8, INT4, MXFP4, FP8)
"""Unpacking of each coding, by the number of the coding."""


def unpacking_cycles(c: PeCosts, u: Unpacking, K: int, N: int, rows: int) -> float:
    """Return how many cycles it takes to unpack a ``[K, N]`` tile of quantised weights.

    Args:
        c: Costs of operations on the PE.
        u: Operations that unpack the weights.
        K, N: Number of inputs and outputs.
        rows: Number of rows of weights that are unpacked at once.
    """
    codes, iterations = K * N, math.ceil(K / rows)
    operations = u.operations + int(c.widen > 0)
    elements = codes * (u.shifts / c.shift + u.logic / c.logic + u.adds / c.half)
    return iterations * (c.loop + operations * c.issue) + math.ceil(elements + (codes / c.widen if c.widen else 0))


def power_cycles(c: PeCosts, N: int, G: int) -> float:
    """Return how many cycles it takes to convert power-of-two scales to floating-point factors.

    Args:
        c: Costs of operations on the PE.
        N, G: Number of outputs, and groups of inputs; each combination of them has a scale.
    """
    return unpacking_cycles(c, E8M0, G, N, 1)


def run_cycles(c: PeCosts, N: int, G: int, B: int) -> float:
    """Return the cycles needed to expand shared float32 scales to one scale per output and group.

    For each of G groups of inputs, B scales are converted and then copied to all N outputs.

    Args:
        c: Costs of operations on the PE.
        N: Number of outputs.
        G: Number of groups of inputs that share scales.
        B: Number of runs of neighbouring outputs that share scales.
    """
    return G * (c.vector(B, c.convert) + B * (c.loop + c.issue) + math.ceil(N / c.act))


def matmul_cycles(c: PeCosts, M: int, K: int, N: int, add: int) -> float:
    """Return the cycles needed to multiply M tokens by a ``[K, N]`` matrix, all at once.

    The product is vectorised over the tokens.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Number of tokens, inputs and outputs.
        add: 1 to add to existing sums, 0 to clear the sums first.
    """
    zero = 0.0 if add else c.vector(M * N, c.acc)
    return zero + K * (c.loop + c.rows(N, M, c.mac))


def gemv_cycles(c: PeCosts, M: int, K: int, N: int) -> float:
    """Return the cycles needed to multiply M tokens by a ``[K, N]`` matrix, one at a time.

    The product of a token is vectorised over the outputs.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Number of tokens, inputs and outputs.
    """
    return M * (c.vector(N, c.acc) + c.loop + c.rows(K, N, c.mac))


def one_scale_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycle count of a product with quantised weights that have one scale per output.

    The sums are multiplied by the scales, which are first converted to float32 if necessary.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Number of tokens, inputs and outputs.
        rows: Number of rows of weights that are unpacked at once.
    """
    scales = 0.0 if c.widen else c.vector(N, c.convert)
    scaling = min(M * c.vector(N, c.scale_acc), c.rows(N, M, c.scale_acc))
    return unpacking_cycles(c, unpacking, K, N, rows) + _unpacked_products(c, M, K, N, rows) + scales + scaling


def group_scale_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycle count of a product whose quantised weights are scaled before multiplying.

    Scaling the outputs afterwards would be cheaper, but is impossible if each scale applies to only
    a group of the inputs.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Number of tokens, inputs and outputs.
        rows: Number of rows of weights that are unpacked at once.
    """
    return unpacking_cycles(c, unpacking, K, N, rows) + c.rows(K, N, c.scale) + _unpacked_products(c, M, K, N, rows)


def _unpacked_products(c: PeCosts, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles needed to multiply M tokens by a ``[K, N]`` matrix that has been unpacked.

    The product is vectorised over tokens or over outputs, whichever is cheaper.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Number of tokens, inputs and outputs.
        rows: Number of rows of weights that are unpacked at once.
    """
    iterations = math.ceil(K / rows)
    by_outputs = M * (iterations * c.loop + c.rows(K, N, c.mac))
    by_tokens = K * (c.loop + c.rows(N, M, c.mac))
    return c.vector(M * N, c.acc) + min(by_outputs, by_tokens)
