"""Tile products: with weights or with activations on the right, and of one token.

The vector of a product is its tokens, that of a product of one token its output features, as in the released GEMM and
GEMV kernels; the latter is a single mapped operation over its K vectors, without a loop of its own.
"""

from __future__ import annotations

from typing import Final

from wse.isa.kernel import Kernel
from wse.isa.operands import acc, act, numbers, wgt
from wse.isa.pe_costs import PeCosts


def _cycles(c: PeCosts, M: int, K: int, N: int, add: int) -> float:
    zero = 0.0 if add else c.vector(M * N, c.acc)
    return zero + K * (c.loop + c.rows(N, M, c.mac))


def _products(M: int, K: int, N: int) -> int:
    return M * K * N


def _right(K: int, N: int, k_stride: int, n_stride: int) -> int:
    return (K - 1) * k_stride + (N - 1) * n_stride + 1


def _out(M: int, N: int, out_stride: int) -> int:
    return (M - 1) * out_stride + N


LINEAR: Final = (
    Kernel(
        name="matmul",
        operands=(
            act("x", "M K"),
            wgt("w", _right),
            acc("out", _out, output=True),
            *numbers("M K N k_stride n_stride out_stride add"),
        ),
        work=_products,
        macs=_products,
        read_bytes=lambda b, K, N: K * N * b["wgt"],
        cycles=_cycles,
    ),
    Kernel(
        name="matmul_act",
        operands=(
            act("x", "M K"),
            act("w", _right),
            acc("out", _out, output=True),
            *numbers("M K N k_stride n_stride out_stride add"),
        ),
        work=_products,
        macs=_products,
        read_bytes=lambda b, K, N: K * N * b["act"],
        cycles=_cycles,
    ),
    Kernel(
        name="gemv",
        operands=(act("x", "K"), wgt("w", _right), acc("out", "N", output=True), *numbers("K N k_stride n_stride")),
        work=lambda K, N: K * N,
        macs=lambda K, N: K * N,
        read_bytes=lambda b, K, N: K * N * b["wgt"],
        cycles=lambda c, K, N: c.vector(N, c.acc) + c.loop + c.rows(K, N, c.mac),
    ),
)
