"""Dequantisation, row by row: codes of quantised weights become activations, and sums are multiplied with scales.

Scales that a block of inputs and outputs shares, or that are powers of two, do not stand beside the codes as numbers of
the activations' type. Those of a row's group are written out as ``factors``, one an output, where the group changes.

Pointers of these functions do not alias, so that they vectorise over the lanes of a row; the compiler cannot see by
itself that views of one memory do not overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._elements import constant, narrow, narrow_ir, row_pointer, type_like, widen, widen_ir
from wse_kernels._functions import WORD, internal_function
from wse_kernels._jit import cgutils, config, intrinsic, ir, kernel, types
from wse_kernels._vectors import BYTE, spread

__all__ = [
    "CODES_A_BYTE",
    "FP8",
    "FP8_BLOCKS",
    "GROUPED",
    "INT4",
    "INT8",
    "MXFP4",
    "code_value",
    "scale_rows",
    "unpack_scaled",
    "unpack_with_factors",
    "value_ir",
]

INT8, FP8, INT4, MXFP4, FP8_BLOCKS = range(5)
"""Codings by number."""

HALF_WORD = ir.IntType(16)
E4M3_BIAS = 256.0
"""The factor from a half to the e4m3 value with its exponent and mantissa bits: 2^(15 - 7), the biases apart."""
E2M1_BIAS = 16384.0
"""The factor from a half to the e2m1 value likewise: 2^(15 - 1)."""

CODES_A_BYTE = (1, 1, 2, 2, 1)
"""Codes that share a byte, by coding: those of an even row, in the lower half, and of the row behind it."""
GROUPED = (INT4, MXFP4, FP8_BLOCKS)
"""Codings with a scale a group of inputs."""


def value_ir(builder: Any, coding: int, byte: Any, k: Any) -> Any:
    """Instructions that make a float32 of the code of row ``k`` in a byte, or of each of a vector."""
    single = type_like(byte, ir.FloatType())
    if coding == INT8:
        return builder.sitofp(builder.sext(byte, type_like(byte, ir.IntType(32))), single)
    shift = builder.shl(builder.and_(k, ir.Constant(WORD, 1)), ir.Constant(WORD, 2))
    if coding == INT4:  # to the top of a word and down again, by which the sign is carried on
        up = _splat_like(builder, byte, builder.trunc(builder.sub(ir.Constant(WORD, 28), shift), ir.IntType(32)))
        wide = builder.shl(builder.zext(byte, type_like(byte, ir.IntType(32))), up)
        return builder.sitofp(builder.ashr(wide, constant(wide.type, 28)), single)
    wide = builder.zext(byte, type_like(byte, HALF_WORD))
    if coding == MXFP4:
        wide = builder.lshr(wide, _splat_like(builder, byte, builder.trunc(shift, HALF_WORD)))
    sign, magnitude, up, bias = (8, 7, (12, 9), E2M1_BIAS) if coding == MXFP4 else (0x80, 0x7F, (8, 7), E4M3_BIAS)
    sign, magnitude = (
        builder.shl(builder.and_(wide, constant(wide.type, bits)), constant(wide.type, by))
        for bits, by in zip((sign, magnitude), up, strict=True)
    )
    half = builder.bitcast(builder.or_(sign, magnitude), type_like(byte, ir.HalfType()))
    return builder.fmul(builder.fpext(half, single), constant(single, bias))


def _splat_like(builder: Any, value: Any, number: Any) -> Any:
    """A number, or the vector of it where ``value`` is one."""
    return spread(builder, number) if isinstance(value.type, ir.VectorType) else number


def _unpack(coding: int) -> Any:
    """The compiled form of ``unpack_int8``, ``unpack_fp8`` or ``unpack_e2m1``."""

    @intrinsic
    def unpack_row(typing_context: Any, act: Any, raw: Any, block: Any, e: Any, w: Any, n: Any, k: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acts, lanes = row_pointer(context, builder, act, args[0], args[2], args[3])
            codes = row_pointer(context, builder, raw, args[1], args[2], args[4])[0]

            def body(inner: Any, *a: Any) -> None:
                with cgutils.for_range(inner, a[2], intp=WORD) as at:
                    value = value_ir(inner, coding, inner.load(inner.gep(a[1], [at.index])), a[3])
                    inner.store(narrow_ir(inner, act.dtype, value), inner.gep(a[0], [at.index]))

            name = f"wse_unpack_{coding}_{act.dtype}"
            function = internal_function(builder.module, name, [acts.type, codes.type], 2, body)
            builder.call(function, [acts, codes, builder.mul(args[5], lanes), args[6]])
            return context.get_dummy_value()

        return types.void(act, raw, *(types.int64,) * 5), generate

    return unpack_row


@intrinsic
def _unpack_int4_compiled(
    typing_context: Any,
    act: Any,
    raw: Any,
    wgt: Any,
    block: Any,
    e: Any,
    w: Any,
    n: Any,
    k: Any,
    g: Any,
    at: Any,
    s: Any,
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acts, lanes = row_pointer(context, builder, act, args[0], args[3], args[4])
        codes = row_pointer(context, builder, raw, args[1], args[3], args[5])[0]
        groups = row_pointer(context, builder, raw, args[1], args[3], args[9])[0]
        scales = row_pointer(context, builder, wgt, args[2], args[3], args[10])[0]

        def body(inner: Any, *a: Any) -> None:
            out, code, group, scale, count, width, k_index, group_code = a
            with cgutils.for_range(inner, count, intp=WORD) as rows:
                first = inner.mul(rows.index, width)
                with cgutils.for_range(inner, width, intp=WORD) as lane:
                    place = inner.add(first, lane.index)
                    value = value_ir(inner, INT4, inner.load(inner.gep(code, [place])), k_index)
                    factor = widen_ir(inner, wgt.dtype, inner.load(inner.gep(scale, [place])))
                    new = narrow_ir(inner, act.dtype, inner.fmul(value, factor))
                    in_group = inner.icmp_unsigned(
                        "==", inner.load(inner.gep(group, [lane.index])), inner.trunc(group_code, BYTE)
                    )
                    old = inner.load(inner.gep(out, [place]))
                    inner.store(inner.select(in_group, new, old), inner.gep(out, [place]))

        name = f"wse_unpack_int4_{act.dtype}_{wgt.dtype}"
        function = internal_function(builder.module, name, [acts.type, codes.type, groups.type, scales.type], 4, body)
        builder.call(function, [acts, codes, groups, scales, args[6], lanes, args[7], args[8]])
        return context.get_dummy_value()

    return types.void(act, raw, wgt, *(types.int64,) * 8), generate


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

        function = internal_function(
            builder.module,
            f"wse_scale_rows_{acc.dtype}_{wgt.dtype}",
            [sums.type, scales.type],
            1,
            body,
        )
        builder.call(function, [sums, scales, builder.mul(args[5], lanes)])
        return context.get_dummy_value()

    return types.void(acc, wgt, *(types.int64,) * 4), generate


def _unpack_interpreted(coding: int) -> Any:
    def unpack(act: Any, raw: Any, block: int, e: int, w: int, n: int, k: int) -> None:
        for i in range(n):
            for lane in range(act.shape[2]):
                value = code_value(raw[block, w + i, lane], coding, k)
                act[block, e + i, lane] = narrow(value, act[block, e + i, lane])

    return unpack


def _unpack_int4_interpreted(
    act: Any, raw: Any, wgt: Any, block: int, e: int, w: int, n: int, k: int, g: int, at: int, s: int
) -> None:
    for i in range(n):
        for lane in range(act.shape[2]):
            if raw[block, at, lane] == g:
                old, code = act[block, e + i, lane], code_value(raw[block, w + i, lane], INT4, k)
                act[block, e + i, lane] = narrow(code * widen(wgt[block, s + i, lane]), old)


def _scale_rows_interpreted(acc: Any, wgt: Any, block: int, e: int, s: int, n: int) -> None:
    for i in range(n):
        for lane in range(acc.shape[2]):
            old = acc[block, e + i, lane]
            acc[block, e + i, lane] = narrow(widen(old) * widen(wgt[block, s + i, lane]), old)


_INTERPRETED = bool(config.DISABLE_JIT)

unpack_int8: Any = _unpack_interpreted(INT8) if _INTERPRETED else _unpack(INT8)
"""``unpack_int8(act, raw, block, e, w, n, k)``: act[e + i] = the two's complement number raw[w + i], i < n.

Here and below ``k`` is the row of the codes in their tile; of two that share a byte, the low one is that of an even
row. Indices are rows ``[block, row, :]`` of the views; all lanes take part. Rows outside a view are not noticed: the
caller vouches for them.
"""

unpack_fp8: Any = _unpack_interpreted(FP8) if _INTERPRETED else _unpack(FP8)
"""``unpack_fp8(act, raw, block, e, w, n, k)``: act[e + i] = the e4m3 number raw[w + i], i < n."""

unpack_e2m1: Any = _unpack_interpreted(MXFP4) if _INTERPRETED else _unpack(MXFP4)
"""``unpack_e2m1(act, raw, block, e, w, n, k)``: act[e + i] = the e2m1 number in a nibble of raw[w + i], i < n."""

unpack_int4: Any = _unpack_int4_interpreted if _INTERPRETED else _unpack_int4_compiled
"""``unpack_int4(act, raw, wgt, block, e, w, n, k, g, at, s)``: act[e + i] = nibble of raw[w + i] x wgt[s + i], i < n.

Two's complement. Only in lanes where raw[at] is g. The product is rounded to float32 and then to act's type.
"""

scale_rows: Any = _scale_rows_interpreted if _INTERPRETED else _scale_rows_compiled
"""``scale_rows(acc, wgt, block, e, s, n)``: acc[e + i] *= wgt[s + i], i < n, rounded to float32 and to acc's type."""


@kernel
def code_value(byte: Any, coding: int, k: int) -> Any:
    """Return the float32 value of the code of row ``k`` in a byte."""
    if coding == INT8:
        return np.float32((np.int64(byte) ^ 128) - 128)
    nibble = np.int64(byte) >> 4 * (k % 2) & 15
    if coding == INT4:
        return np.float32((nibble ^ 8) - 8)
    if coding == MXFP4:
        return widen(np.uint16((nibble & 8) << 12 | (nibble & 7) << 9)) * np.float32(E2M1_BIAS)
    bits = (np.int64(byte) & 0x80) << 8 | (np.int64(byte) & 0x7F) << 7
    return widen(np.uint16(bits)) * np.float32(E4M3_BIAS)


@kernel
def unpack_scaled(
    act: Any,
    raw: Any,
    wgt: Any,
    block: int,
    lane: int,
    e: int,
    w: int,
    groups: int,
    widths: int,
    scale: int,
    factors: int,
    n: int,
    k: int,
    stride: int,
    scale_stride: int,
    coding: int,
    G: Any,
    B: int,
) -> None:
    """act[e + i] = code i of row k x its scale, i < n, in one lane, or in all of them where ``lane`` is negative.

    Rows of codes begin at raw[w], those of the G groups' scales at wgt[scale], each ``stride`` further. raw[groups + k]
    is the group of the row for int4 alone; otherwise there is one. Products are rounded to float32 and to act's type.
    Its operands are those of `unpack_with_factors`, of which it leaves ``widths``, ``factors`` and those after unread.
    """
    codes = w + (k // 2 if coding == INT4 else k) * stride
    if lane >= 0:
        group = np.int64(raw[block, groups + k, lane]) if coding == INT4 else 0
        if group < G:
            for i in range(n):
                factor = widen(wgt[block, scale + group * stride + i, lane])
                value = code_value(raw[block, codes + i, lane], coding, k)
                act[block, e + i, lane] = narrow(np.float32(value * factor), act[block, e + i, lane])
    elif coding == INT4:
        low, high = G, np.int64(0)  # lanes without a PE may hold anything
        for code_lane in range(act.shape[2]):
            low = min(low, np.int64(raw[block, groups + k, code_lane]))
            high = max(high, np.int64(raw[block, groups + k, code_lane]))
        for g in range(low, min(high + 1, G)):
            unpack_int4(act, raw, wgt, block, e, codes, n, k, g, groups + k, scale + g * stride)
    else:
        if coding == INT8:
            unpack_int8(act, raw, block, e, codes, n, k)
        else:
            unpack_fp8(act, raw, block, e, codes, n, k)
        scale_rows(act, wgt, block, e, scale, n)


@kernel
def unpack_with_factors(
    act: Any,
    raw: Any,
    scales: Any,
    block: int,
    lane: int,
    e: int,
    w: int,
    groups: int,
    widths: int,
    scale: int,
    factors: int,
    n: int,
    k: int,
    stride: int,
    scale_stride: int,
    coding: int,
    G: Any,
    B: int,
) -> None:
    """act[e + i] = code i of row k x its factor, i < n, in one lane, or in all of them where ``lane`` is negative.

    Rows of codes begin at raw[w], each ``stride`` further. raw[groups + k] is the group of the row, of G; where it is
    not that of the row before, the factors act[factors + i] are written: for mxfp4 the powers of two
    scales[scale + group * scale_stride + i], for blocks of fp8 the scales of B runs of outputs, which are as long as
    raw[widths + b] says. Factors and products are rounded to act's type.
    """
    first_lane, last_lane = max(lane, 0), lane + 1 if lane >= 0 else act.shape[2]
    for code_lane in range(first_lane, last_lane):
        group = np.int64(raw[block, groups + k, code_lane])
        same = k > 0 and group == np.int64(raw[block, groups + max(k - 1, 0), code_lane])
        if not same and group < G:  # lanes without a PE may hold anything
            at = scale + group * scale_stride
            if coding == MXFP4:
                for i in range(n):
                    old = act[block, factors + i, code_lane]
                    act[block, factors + i, code_lane] = narrow(widen(scales[block, at + i, code_lane]), old)
            else:
                first = 0
                for b in range(B):
                    last = min(first + int(raw[block, widths + b, code_lane]), n)
                    for i in range(first, last):
                        old = act[block, factors + i, code_lane]
                        act[block, factors + i, code_lane] = narrow(widen(scales[block, at + b, code_lane]), old)
                    first = last
    codes = w + (k // 2 if coding == MXFP4 else k) * stride
    if lane >= 0:
        for i in range(n):
            value = code_value(raw[block, codes + i, lane], coding, k)
            product = np.float32(value * widen(act[block, factors + i, lane]))
            act[block, e + i, lane] = narrow(product, act[block, e + i, lane])
    else:
        if coding == MXFP4:
            unpack_e2m1(act, raw, block, e, codes, n, k)
        else:
            unpack_fp8(act, raw, block, e, codes, n, k)
        scale_rows(act, act, block, e, factors, n)
