"""Codes of quantised weights: conversion to numbers, and products of sums with scales.

The pointers of `scale_rows` are declared as not aliasing, so that it vectorises over the lanes of a
row. The compiler cannot see that views of one memory do not overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.elements import constant, narrow, narrow_ir, row_pointer, type_like, widen, widen_ir
from wse_kernels.codegen.functions import WORD, internal_function
from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, types
from wse_kernels.codegen.vectors import splat

INT8, FP8, INT4, MXFP4, FP8_BLOCKS = range(5)
"""Numbers of the formats of quantised weights."""

HALF_WORD = ir.IntType(16)
E4M3_BIAS = 256.0
"""Factor from the half with the same exponent and mantissa bits to the e4m3 value: 2^(15 - 7).

The exponents are the biases of both formats.
"""
E2M1_BIAS = 16384.0
"""Factor from the half with the same exponent and mantissa bits to the e2m1 value: 2^(15 - 1)."""

CODES_PER_BYTE = (1, 1, 2, 2, 1)
"""Number of codes in a byte, by coding: an even row in the low half, the next in the high half."""
GROUPED = (INT4, MXFP4, FP8_BLOCKS)
"""Codings with one scale per group of inputs."""


def value_ir(builder: Any, coding: int, byte: Any, k: Any) -> Any:
    """Generate LLVM instructions that convert quantised weights in a vector of bytes to float32.

    Args:
        builder: LLVM builder.
        coding: Number that identifies the weight format, such as INT8 or MXFP4.
        byte: Vector of bytes.
        k: Input row of the weights. For formats with two weights per byte, even rows are in the low
            half and odd rows in the high half.
    """
    single = type_like(byte, ir.FloatType())
    if coding == INT8:
        return builder.sitofp(builder.sext(byte, type_like(byte, ir.IntType(32))), single)
    shift = builder.shl(builder.and_(k, ir.Constant(WORD, 1)), ir.Constant(WORD, 2))
    if coding == INT4:  # shift to the top of a word and down again, which extends the sign
        up = splat(builder, builder.trunc(builder.sub(ir.Constant(WORD, 28), shift), ir.IntType(32)))
        widened = builder.shl(builder.sext(byte, type_like(byte, ir.IntType(32))), up)
        return builder.sitofp(builder.ashr(widened, constant(widened.type, 28)), single)
    widened = builder.zext(byte, type_like(byte, HALF_WORD))
    if coding == MXFP4:
        widened = builder.lshr(widened, splat(builder, builder.trunc(shift, HALF_WORD)))
    sign, magnitude, up, bias = (8, 7, (12, 9), E2M1_BIAS) if coding == MXFP4 else (0x80, 0x7F, (8, 7), E4M3_BIAS)
    sign, magnitude = (
        builder.shl(builder.and_(widened, constant(widened.type, bits)), constant(widened.type, by))
        for bits, by in zip((sign, magnitude), up, strict=True)
    )
    half = builder.bitcast(builder.or_(sign, magnitude), type_like(byte, ir.HalfType()))
    return builder.fmul(builder.fpext(half, single), constant(single, bias))


@intrinsic
def _scale_rows_compiled(typing_context: Any, acc: Any, wgt: Any, block: Any, e: Any, s: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums, lanes = row_pointer(context, builder, acc, args[0], args[2], args[3])
        scales = row_pointer(context, builder, wgt, args[1], args[2], args[4])[0]

        def body(inner: Any, *a: Any) -> None:
            with cgutils.for_range(inner, a[2], intp=WORD) as at:
                place = inner.gep(a[0], [at.index])
                factor = widen_ir(inner, wgt.dtype, inner.load(inner.gep(a[1], [at.index])))
                product = inner.fmul(widen_ir(inner, acc.dtype, inner.load(place)), factor)
                inner.store(narrow_ir(inner, acc.dtype, product), place)

        name = f"wse_scale_rows_{acc.dtype}_{wgt.dtype}"
        function = internal_function(builder.module, name, [sums.type, scales.type], 1, body)
        builder.call(function, [sums, scales, builder.mul(args[5], lanes)])
        return context.get_dummy_value()

    return types.void(acc, wgt, *(types.int64,) * 4), generate


def _scale_rows_interpreted(acc: Any, wgt: Any, block: int, e: int, s: int, n: int) -> None:
    """Multiply ``n`` rows of sums by scales in place, in plain Python. See `scale_rows`.

    Args:
        acc: Sums in the accumulator type, [block, address, PE of block].
        wgt: Scales in the weight type, [block, address, PE of block].
        block: Index of the block of PEs.
        e, s: Addresses of the first sum and the first scale.
        n: Number of consecutive addresses.
    """
    for i in range(n):
        for lane in range(acc.shape[2]):
            old = acc[block, e + i, lane]
            acc[block, e + i, lane] = narrow(widen(old) * widen(wgt[block, s + i, lane]), old)


scale_rows: Any = _scale_rows_interpreted if config.DISABLE_JIT else _scale_rows_compiled
"""``scale_rows(acc, wgt, block, e, s, n)``: acc[e + i] *= wgt[s + i] for i < n.

The products are rounded to float32 and to the type of ``acc``. Indices are rows ``[block, row, :]``
of the views, and all lanes take part. Indices are not checked against the size of the views.
"""


def code_value(byte: Any, coding: int, k: int) -> Any:
    """Return the float32 value of a quantised weight.

    Args:
        byte: Byte that contains the weight.
        coding: Number that identifies the weight format, such as INT8 or MXFP4.
        k: Input row of the weight. For formats with two weights per byte, even rows are in the low
            half and odd rows in the high half.
    """
    if coding == INT8:
        return np.float32((np.int64(byte) ^ 128) - 128)
    nibble = np.int64(byte) >> 4 * (k % 2) & 15
    if coding == INT4:
        return np.float32((nibble ^ 8) - 8)
    if coding == MXFP4:
        return widen(np.uint16((nibble & 8) << 12 | (nibble & 7) << 9)) * np.float32(E2M1_BIAS)
    bits = (np.int64(byte) & 0x80) << 8 | (np.int64(byte) & 0x7F) << 7
    return widen(np.uint16(bits)) * np.float32(E4M3_BIAS)
