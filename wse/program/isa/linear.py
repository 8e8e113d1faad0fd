"""Products of tiles, whose right operand is weights (quantised or not) or activations.

M is the number of tokens, K is the number of inputs, and N is the number of outputs. Each output
has one scale for each of G groups of inputs, and B is the number of runs of outputs with a common
scale. Codes of quantised weights are unpacked, a few rows at a time, into the scratch operand
``codes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.number_formats import CODINGS
from wse.program.isa.cycles.linear import (
    FP8,
    INT4,
    INT8,
    MXFP4,
    Unpacking,
    gemv_cycles,
    group_scale_cycles,
    matmul_cycles,
    one_scale_cycles,
    power_cycles,
    run_cycles,
)
from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import Operand, acc, act, f32, numbers, raw, wgt


def _right(K: int, N: int, k_stride: int, n_stride: int) -> int:
    """Return how many elements of SRAM a strided ``[K, N]`` matrix spans, including gaps.

    Args:
        K, N: Shape of the matrix.
        k_stride: Row stride, in elements.
        n_stride: Column stride, in elements.
    """
    return (K - 1) * k_stride + (N - 1) * n_stride + 1


def _spaced_rows(M: int, N: int, out_stride: int) -> int:
    """Return how many elements of SRAM M rows of N elements span, including gaps.

    Each row begins ``out_stride`` elements after the one before.
    """
    return (M - 1) * out_stride + N


def _matmul(name: str, right: str) -> Kernel:
    """Return the record (operands and cost formulas) of a kernel that multiplies matrices.

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
        macs="M K N",
        read_bytes=lambda b, K, N: K * N * b[right],
        cycles=matmul_cycles,
    )


def tile_bytes(coding: str, b: Mapping[str, int], K: int, N: int, G: int = 1) -> int:
    """Return the size in bytes of a tile (block of weights on one PE) of quantised weights.

    There is one scale for each output and each group of inputs.

    Args:
        coding: Name of the storage format.
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        K, N: Number of inputs and outputs.
        G: Number of groups of inputs that share scales.
    """
    return CODINGS[coding].code_bytes(K, N) + N * G * b[CODINGS[coding].scale_view]


def blocks_bytes(b: Mapping[str, int], K: int, N: int, G: int, B: int) -> int:
    """Return the size in bytes of a tile (block of weights on one PE) in fp8 with block scales.

    Args:
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        K, N: Number of inputs and outputs.
        G: Number of groups of inputs that share scales.
        B: Number of runs of neighbouring outputs that share scales; there are G * B blocks.
    """
    return K * N * b["raw"] + G * B * b["f32"]


def _one_scale(name: str, coding: str, unpacking: Unpacking) -> Kernel:
    """Return the record (operands and cost formulas) of a product with quantised weights.

    The weights have one scale per output.

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
        macs="M K N",
        read_bytes=lambda b, K, N: tile_bytes(coding, b, K, N),
        cycles=lambda c, M, K, N, rows: one_scale_cycles(c, unpacking, M, K, N, rows),
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
        macs="M K N",
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
        macs="M K N",
        read_bytes=lambda b, K, N, G: tile_bytes("int4", b, K, N, G),
        operation_ps=200,
        cycles=lambda c, M, K, N, rows: group_scale_cycles(c, INT4, M, K, N, rows),
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
        macs="M K N",
        read_bytes=lambda b, K, N, G: tile_bytes("mxfp4", b, K, N, G),
        operation_ps=300,
        cycles=lambda c, M, K, N, G, rows: group_scale_cycles(c, MXFP4, M, K, N, rows) + power_cycles(c, N, G),
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
        macs="M K N",
        read_bytes=blocks_bytes,
        operation_ps=350,
        cycles=lambda c, M, K, N, G, B, rows: group_scale_cycles(c, FP8, M, K, N, rows) + run_cycles(c, N, G, B),
    ),
)
