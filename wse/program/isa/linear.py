"""Tile products: with weights, quantised or not, or with activations on the right, and of one token.

The vector of a product is its tokens, that of a product of one token its output features, as in the released GEMM and
GEMV kernels; the latter is a single mapped operation over its K vectors, without a loop of its own. A few tokens are
multiplied one after another where that takes fewer cycles. Codes of quantised
weights are unpacked by 16-bit operations a few rows at a time into the scratch ``codes``.
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
    """The unpacking of codes that share 16-bit words to halves: vector operations, and elements of each kind a code."""

    operations: int
    shifts: float
    logic: float
    adds: float


INT8: Final = Unpacking(operations=5, shifts=1 / 2, logic=3 / 2, adds=1)
"""Two codes a word, the upper one shifted down, the lower one masked; exclusive or with 0x6480 makes the half
1024 + 128 + code, and 1152 is taken off. The exponent that is put on as bits is from Kim et al., arXiv 2211.10017."""
INT4: Final = Unpacking(operations=11, shifts=3 / 4, logic=7 / 4, adds=1)
"""Four codes a word, three of them shifted and three masked; exclusive or with 0x6408, and 1032 is taken off."""
FP8: Final = Unpacking(operations=5, shifts=3 / 2, logic=1, adds=0)
"""Two codes a word; in the upper half an arithmetic shift by 1 and a mask leave the bits of the half that is the
256th part, a factor that the scale takes in; the lower one is shifted up first."""

MXFP4: Final = Unpacking(operations=11, shifts=7 / 4, logic=1, adds=0)
"""Four codes a word: an arithmetic shift by 3 and a mask leave the bits of the half that is the 2^14th part, a factor
that the scale takes in; three of four are shifted up first."""
E8M0: Final = Unpacking(operations=6, shifts=1, logic=1, adds=1)
"""Powers of two, two a word, each shifted to the place of the exponent and masked; the biases apart are added there."""

_BY_CODING: Final = (INT8, FP8, INT4, MXFP4, FP8)
"""Unpackings by the numbers of codings."""


def matmul_cycles(c: PeCosts, M: int, K: int, N: int, add: int) -> float:
    """Return the cycles of M tokens times [K, N], all tokens in a vector; ``add``: to sums that are there."""
    zero = 0.0 if add else c.vector(M * N, c.acc)
    return zero + K * (c.loop + c.rows(N, M, c.mac))


def gemv_cycles(c: PeCosts, M: int, K: int, N: int) -> float:
    """Return the cycles of M tokens times [K, N], one after another, the outputs of a token in a vector."""
    return M * (c.vector(N, c.acc) + c.loop + c.rows(K, N, c.mac))


def _products(M: int, K: int, N: int) -> int:
    return M * K * N


def _right(K: int, N: int, k_stride: int, n_stride: int) -> int:
    return (K - 1) * k_stride + (N - 1) * n_stride + 1


def _spaced_rows(M: int, N: int, out_stride: int) -> int:
    return (M - 1) * out_stride + N


def _matmul(name: str, right: str) -> Kernel:
    """Return a product whose right operand is in the view ``right``."""
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
    """Return the cycles of a product whose sums are multiplied with scales, which are float32 or become it."""
    scales = 0.0 if c.widen else c.vector(N, c.convert)
    scaling = min(M * c.vector(N, c.scale_acc), c.rows(N, M, c.scale_acc))
    return _unpacking_cycles(c, unpacking, K, N, rows) + _unpacked_products(c, M, K, N, rows) + scales + scaling


def _scale_a_group_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of a product whose codes are multiplied with scales before."""
    return _unpacking_cycles(c, unpacking, K, N, rows) + c.rows(K, N, c.scale) + _unpacked_products(c, M, K, N, rows)


def power_cycles(c: PeCosts, N: int, G: int) -> float:
    """Return the cycles to make factors of the powers of two of G groups, N each."""
    return _unpacking_cycles(c, E8M0, G, N, 1)


def run_cycles(c: PeCosts, N: int, G: int, B: int) -> float:
    """Cycles to write out the float32 scales of B runs of N outputs, for G groups: each is converted, then moved."""
    return G * (c.vector(B, c.convert) + B * (c.loop + c.issue) + math.ceil(N / c.act))


def one_expert_cycles(c: PeCosts, coding: int, K: int, N: int, rows: int) -> float:
    """Cycles of a token's product with an expert whose codes are multiplied with scales before, its sums not zeroed.

    Codes that share a word are neighbours in a row, and an odd number of them may begin inside one.
    """
    loops = math.ceil(K / rows) * c.loop
    products = c.rows(K, N, c.scale) + c.rows(K, N, c.mac)
    return _unpacking_cycles(c, _BY_CODING[coding], K, N + N % 2, rows) + loops + products


def _unpacking_cycles(c: PeCosts, u: Unpacking, K: int, N: int, rows: int) -> float:
    """Return the cycles to unpack a tile, as many rows at once as there is scratch for."""
    codes, turns = K * N, math.ceil(K / rows)
    operations = u.operations + int(c.widen > 0)
    elements = codes * (u.shifts / c.shift + u.logic / c.logic + u.adds / c.half)
    return turns * (c.loop + operations * c.issue) + math.ceil(elements + (codes / c.widen if c.widen else 0))


def _unpacked_products(c: PeCosts, M: int, K: int, N: int, rows: int) -> float:
    """Cycles of a product with what was unpacked, with vectors of tokens or of outputs, whichever has the fewer."""
    turns = math.ceil(K / rows)
    by_outputs = M * (turns * c.loop + c.rows(K, N, c.mac))
    by_tokens = K * (c.loop + c.rows(N, M, c.mac))
    return c.vector(M * N, c.acc) + min(by_outputs, by_tokens)


def tile_bytes(coding: str, b: Mapping[str, int], K: int, N: int, G: int = 1) -> int:
    """Return the bytes of a tile of codes and of its scales, of which there is one for each output and group."""
    return CODINGS[coding].code_bytes(K, N) + N * G * b[CODINGS[coding].scale_view]


def blocks_bytes(b: Mapping[str, int], K: int, N: int, G: int, B: int) -> int:
    """Bytes of a tile of fp8 codes and of its scales, of which there is one for each run of outputs and group."""
    return K * N * b["raw"] + G * B * b["f32"]


def _one_scale(name: str, coding: str, unpacking: Unpacking) -> Kernel:
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
