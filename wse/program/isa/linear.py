"""Products of tiles, whose right operand is weights (quantised or not) or activations.

M is the number of tokens, K of inputs, N of outputs. G is the number of groups of inputs with one
scale per output, and B the number of runs of outputs with a common scale.

A product is vectorised over its tokens. A product of one token is vectorised over its output
features. Both are as in the released GEMM and GEMV kernels. The GEMV is a single mapped operation
over its K vectors, without a loop of its own. A few tokens are multiplied one after another if that
needs fewer cycles.

Codes of quantised weights are unpacked by 16-bit operations, a few rows at a time, into the scratch
operand ``codes``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wse.number_formats import CODINGS
from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import Operand, acc, act, f32, numbers, raw, wgt
from wse.program.isa.pe_costs import PeCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """Operations that unpack quantised weights from 16-bit words to float16 values.

    Attributes:
        operations: Vector operations that unpack one group of rows.
        shifts: Elements shifted, per quantised weight (code).
        logic: Elements of bitwise operations, per code.
        adds: Elements of additions, per code.
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

_BY_CODING: Final = (INT8, FP8, INT4, MXFP4, FP8)
"""Unpacking of each coding, by the number of the coding."""


def matmul_cycles(c: PeCosts, M: int, K: int, N: int, add: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix, vectorised over the tokens.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
        add: 1 to add to existing sums, 0 to clear the sums first.
    """
    zero = 0.0 if add else c.vector(M * N, c.acc)
    return zero + K * (c.loop + c.rows(N, M, c.mac))


def gemv_cycles(c: PeCosts, M: int, K: int, N: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix, one token after another.

    The product of a token is vectorised over the outputs.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
    """
    return M * (c.vector(N, c.acc) + c.loop + c.rows(K, N, c.mac))


def _products(M: int, K: int, N: int) -> int:
    """Return the multiply-adds of multiplying M tokens by a ``[K, N]`` matrix."""
    return M * K * N


def _right(K: int, N: int, k_stride: int, n_stride: int) -> int:
    """Return the number of elements from the first to the last of a strided ``[K, N]`` matrix.

    Args:
        K, N: Shape of the matrix.
        k_stride, n_stride: Elements from one row, or column, to the next.
    """
    return (K - 1) * k_stride + (N - 1) * n_stride + 1


def _spaced_rows(M: int, N: int, out_stride: int) -> int:
    """Return the number of elements from the first to the last of M rows of N elements.

    A row begins ``out_stride`` elements after the one before.
    """
    return (M - 1) * out_stride + N


def _matmul(name: str, right: str) -> Kernel:
    """Return the `Kernel` record of a matrix product.

    Args:
        name: Name of the kernel.
        right: SRAM view (element type) of the right operand.
    """
    return Kernel(
        name=name,
        operands=(
            act("x", "M K"),
            Operand(right, "w", _right),
            acc("out", _spaced_rows, output=True),
            *numbers("M K N k_stride n_stride out_stride add"),
        ),
        macs=_products,
        read_bytes=lambda b, K, N: K * N * b[right],
        cycles=matmul_cycles,
    )


def _one_scale_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of a product with quantised weights that have one scale per output.

    The scales are applied to the sums. They are float32 or are converted to it first.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    scales = 0.0 if c.widen else c.vector(N, c.convert)
    scaling = min(M * c.vector(N, c.scale_acc), c.rows(N, M, c.scale_acc))
    return _unpacking_cycles(c, unpacking, K, N, rows) + _unpacked_products(c, M, K, N, rows) + scales + scaling


def _scale_a_group_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of a product with quantised weights that are scaled before the product.

    A group of inputs shares a scale.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    return _unpacking_cycles(c, unpacking, K, N, rows) + c.rows(K, N, c.scale) + _unpacked_products(c, M, K, N, rows)


def power_cycles(c: PeCosts, N: int, G: int) -> float:
    """Return the cycles to convert power-of-two scales to factors.

    Args:
        c: Costs of operations on the PE.
        N, G: Outputs, and groups of inputs; each combination of them has a scale.
    """
    return _unpacking_cycles(c, E8M0, G, N, 1)


def run_cycles(c: PeCosts, N: int, G: int, B: int) -> float:
    """Return the cycles to copy float32 scales that several outputs share to each output.

    For each of G groups of inputs, B scales are converted and then copied to all N outputs.

    Args:
        c: Costs of operations on the PE.
        N: Outputs.
        G: Groups of inputs that share scales.
        B: Runs of outputs that share scales.
    """
    return G * (c.vector(B, c.convert) + B * (c.loop + c.issue) + math.ceil(N / c.act))


def one_expert_cycles(c: PeCosts, coding: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of the product of one token with an expert whose weights are quantised.

    Each weight is scaled before the product, and the product is added to existing sums. Weights
    that share a word are neighbours in a row. If N is odd, a row may begin inside a word, so that
    one more weight per row is unpacked.

    Args:
        c: Costs of operations on the PE.
        coding: Index of the storage format of the weights.
        K: Inputs.
        N: Outputs.
        rows: Rows of weights that are unpacked at once.
    """
    loops = math.ceil(K / rows) * c.loop
    products = c.rows(K, N, c.scale) + c.rows(K, N, c.mac)
    return _unpacking_cycles(c, _BY_CODING[coding], K, N + N % 2, rows) + loops + products


def _unpacking_cycles(c: PeCosts, u: Unpacking, K: int, N: int, rows: int) -> float:
    """Return the cycles to unpack a ``[K, N]`` tile of quantised weights.

    Args:
        c: Costs of operations on the PE.
        u: Operations that unpack the weights.
        K, N: Inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    codes, iterations = K * N, math.ceil(K / rows)
    operations = u.operations + int(c.widen > 0)
    elements = codes * (u.shifts / c.shift + u.logic / c.logic + u.adds / c.half)
    return iterations * (c.loop + operations * c.issue) + math.ceil(elements + (codes / c.widen if c.widen else 0))


def _unpacked_products(c: PeCosts, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix that has been unpacked.

    The product is vectorised over tokens or over outputs, whichever is cheaper.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    iterations = math.ceil(K / rows)
    by_outputs = M * (iterations * c.loop + c.rows(K, N, c.mac))
    by_tokens = K * (c.loop + c.rows(N, M, c.mac))
    return c.vector(M * N, c.acc) + min(by_outputs, by_tokens)


def tile_bytes(coding: str, b: Mapping[str, int], K: int, N: int, G: int = 1) -> int:
    """Return the bytes of a tile of quantised weights, including a scale per output and group.

    Args:
        coding: Name of the storage format.
        b: Bytes per element of each SRAM view.
        K, N: Inputs and outputs.
        G: Groups of inputs that share scales.
    """
    return CODINGS[coding].code_bytes(K, N) + N * G * b[CODINGS[coding].scale_view]


def blocks_bytes(b: Mapping[str, int], K: int, N: int, G: int, B: int) -> int:
    """Return the bytes of a tile of fp8 weights, including a scale per run of outputs and group.

    Args:
        b: Bytes per element of each SRAM view.
        K, N: Inputs and outputs.
        G: Groups of inputs that share scales.
        B: Runs of outputs that share scales.
    """
    return K * N * b["raw"] + G * B * b["f32"]


def _one_scale(name: str, coding: str, unpacking: Unpacking) -> Kernel:
    """Return the `Kernel` record of a product with quantised weights and one scale per output.

    Args:
        name: Name of the kernel.
        coding: Name of the storage format.
        unpacking: Operations that unpack the weights.
    """
    return Kernel(
        name=name,
        operands=(
            act("x", "M K"),
            raw("w", "K N"),
            wgt("scale", "N"),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("M K N rows"),
        ),
        macs=_products,
        read_bytes=lambda b, K, N: tile_bytes(coding, b, K, N),
        cycles=lambda c, M, K, N, rows: _one_scale_cycles(c, unpacking, M, K, N, rows),
    )


LINEAR: Final = (
    _matmul("matmul", "wgt"),
    _matmul("matmul_act", "act"),
    Kernel(
        name="gemv",
        operands=(
            act("x", "M K"),
            wgt("w", _right),
            acc("out", _spaced_rows, output=True),
            *numbers("M K N k_stride n_stride out_stride"),
        ),
        macs=_products,
        read_bytes=lambda b, M, K, N: M * K * N * b["wgt"],
        cycles=gemv_cycles,
    ),
    _one_scale("matmul_int8", "int8", INT8),
    _one_scale("matmul_fp8", "fp8", FP8),
    Kernel(
        name="matmul_int4",
        operands=(
            act("x", "M K"),
            raw("w", lambda K, N: (K + 1) // 2 * N),
            raw("groups", "K"),
            wgt("scale", "G N"),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("M K N G rows"),
        ),
        macs=_products,
        read_bytes=lambda b, K, N, G: tile_bytes("int4", b, K, N, G),
        operation_ps=200,
        cycles=lambda c, M, K, N, rows: _scale_a_group_cycles(c, INT4, M, K, N, rows),
    ),
    Kernel(
        name="matmul_mxfp4",
        operands=(
            act("x", "M K"),
            raw("w", lambda K, N: (K + 1) // 2 * N),
            raw("groups", "K"),
            raw("scale", "G N"),
            act("factors", "N", output=True, scratch=True),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("M K N G rows"),
        ),
        macs=_products,
        read_bytes=lambda b, K, N, G: tile_bytes("mxfp4", b, K, N, G),
        operation_ps=300,
        cycles=lambda c, M, K, N, G, rows: _scale_a_group_cycles(c, MXFP4, M, K, N, rows) + power_cycles(c, N, G),
    ),
    Kernel(
        name="matmul_fp8_blocks",
        operands=(
            act("x", "M K"),
            raw("w", "K N"),
            raw("groups", "K"),
            raw("widths", "B"),
            f32("scale", "G B"),
            act("factors", "N", output=True, scratch=True),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("M K N G B rows"),
        ),
        macs=_products,
        read_bytes=blocks_bytes,
        operation_ps=350,
        cycles=lambda c, M, K, N, G, B, rows: _scale_a_group_cycles(c, FP8, M, K, N, rows) + run_cycles(c, N, G, B),
    ),
)
