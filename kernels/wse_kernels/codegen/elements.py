"""Element types that numba lacks: conversion to and from float32, and sums of products with rows.

The storage type of an SRAM view stands for its arithmetic type. ``float32`` is itself, ``uint16``
is IEEE half and ``int16`` is bfloat16. ``uint8``, which is only read, is e8m0, a power of two (OCP
Microscaling Formats 1.0, section 5.4.1). ``widen`` and ``narrow`` convert one element to and from
float32. For half they compile to the conversion instruction of the processor. All conversions round
to nearest even.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.functions import WORD, internal_function, word
from wse_kernels.codegen.jit import cgutils, config, helper_function, intrinsic, ir, types
from wse_kernels.codegen.vectors import CACHE_LINE_BYTES, PREFETCH_BYTES, fetch

E8M0_BIAS = 127
E8M0_NAN = 255
_STORED = (types.uint16, types.int16, types.float32)


def _widen_element(value: Any) -> np.float32:
    """Convert a stored element to float32 in plain Python.

    The NumPy type of the element determines its format: uint16 is IEEE half, int16 is bfloat16,
    uint8 is e8m0 (a power of two), and float32 is itself.
    """
    if isinstance(value, np.uint16):
        return np.float32(value.view(np.float16))
    if isinstance(value, np.int16):
        return (np.uint32(value.view(np.uint16)) << np.uint32(16)).view(np.float32)
    if isinstance(value, np.uint8):
        return np.float32(np.nan if value == E8M0_NAN else np.ldexp(1.0, int(value) - E8M0_BIAS))
    return np.float32(value)


def _narrow_element(value: Any, example: Any) -> Any:
    """Round a number to the element type of ``example`` in plain Python.

    Args:
        value: Number to round. Rounding is to nearest even.
        example: Stored element. Its NumPy type determines the format: uint16 is IEEE half, int16 is
            bfloat16, and float32 is itself.

    Returns:
        The bits of the rounded number, in the NumPy type of ``example``.
    """
    single = np.float32(value)
    if isinstance(example, np.uint16):
        with np.errstate(over="ignore"):
            return np.float16(single).view(np.uint16)
    if isinstance(example, np.int16):
        bits = int(single.view(np.uint32))
        if np.isnan(single):
            return np.uint16((bits >> 16) | 0x40).view(np.int16)
        return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).view(np.int16)
    return single


def widen_ir(builder: Any, element_type: Any, value: Any) -> Any:
    """Generate LLVM instructions that convert a stored element or vector to float32.

    Args:
        builder: LLVM builder.
        element_type: Numba type of the stored element.
        value: The element or vector.

    Returns:
        The float32 value or vector.
    """
    single, word = type_like(value, ir.FloatType()), type_like(value, ir.IntType(32))
    if element_type == types.uint16:
        return builder.fpext(builder.bitcast(value, type_like(value, ir.HalfType())), single)
    if element_type == types.int16:
        bits = builder.shl(builder.zext(value, word), constant(word, 16))
        return builder.bitcast(bits, single)
    if element_type == types.uint8:
        exponent = builder.zext(value, word)
        bits = builder.shl(exponent, constant(word, 23))
        is_subnormal = builder.icmp_unsigned("==", exponent, constant(word, 0))  # 2 ** -127 is below the normal numbers
        bits = builder.select(is_subnormal, constant(word, 1 << 22), bits)
        is_nan = builder.icmp_unsigned("==", exponent, constant(word, E8M0_NAN))
        return builder.bitcast(builder.select(is_nan, constant(word, 0x7FC00000), bits), single)
    return value


def narrow_ir(builder: Any, element_type: Any, value: Any) -> Any:
    """Generate LLVM instructions that round float32 to a stored element type, to nearest even.

    Args:
        builder: LLVM builder.
        element_type: Numba type of the stored element.
        value: float32 value or vector.

    Returns:
        The stored element or vector.
    """
    word, half_word = type_like(value, ir.IntType(32)), type_like(value, ir.IntType(16))
    if element_type == types.uint16:
        return builder.bitcast(builder.fptrunc(value, type_like(value, ir.HalfType())), half_word)
    if element_type == types.int16:
        bits = builder.bitcast(value, word)
        upper_half = builder.lshr(bits, constant(word, 16))
        odd = builder.and_(upper_half, constant(word, 1))
        up = builder.add(bits, builder.add(odd, constant(word, 0x7FFF)))
        quiet = builder.or_(upper_half, constant(word, 0x40))
        is_nan = builder.fcmp_unordered("uno", value, value)
        rounded = builder.select(is_nan, quiet, builder.lshr(up, constant(word, 16)))
        return builder.trunc(rounded, half_word)
    return value


def rounded_product_ir(builder: Any, element_type: Any, value: Any) -> Any:
    """Generate LLVM instructions that round float32 products to the precision of an element type.

    For bfloat16, NaN needs no special case as long as the low 16 bits of every NaN are zero. This
    is true for a product of an element, such as a scale, and a number with few bits, such as a
    quantised weight. Use this function only for such products.

    Args:
        builder: LLVM builder.
        element_type: Numba type of the stored element.
        value: float32 product or vector of products.

    Returns:
        The rounded product or products, in float32.
    """
    if element_type != types.int16:
        return widen_ir(builder, element_type, narrow_ir(builder, element_type, value))
    word = type_like(value, ir.IntType(32))
    bits = builder.bitcast(value, word)
    odd = builder.and_(builder.lshr(bits, constant(word, 16)), constant(word, 1))
    up = builder.add(builder.add(bits, constant(word, 0x7FFF)), odd)
    return builder.bitcast(builder.and_(up, constant(word, 0xFFFF0000)), value.type)


def type_like(value: Any, element: Any) -> Any:
    """Return the LLVM type ``element``, or a vector type of it if ``value`` is a vector."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def constant(kind: Any, number: float) -> Any:
    """Return an LLVM constant of type ``kind``. All elements of a vector constant are equal."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


@intrinsic
def _widen_compiled(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return widen_ir(builder, value, args[0])

    return (types.float32(value), generate) if value in (*_STORED, types.uint8) else None


@intrinsic
def _narrow_compiled(typing_context: Any, value: Any, example: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return narrow_ir(builder, example, args[0])

    return (example(value, example), generate) if value == types.float32 and example in _STORED else None


@intrinsic
def _multiply_add_lanes_compiled(
    typing_context: Any, acc: Any, values: Any, wgt: Any, block: Any, e: Any, w: Any, n: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        accs, lanes = row_pointer(context, builder, acc, args[0], args[3], args[4])
        factors = context.make_array(values)(context, builder, args[1]).data
        weights = row_pointer(context, builder, wgt, args[2], args[3], args[5])[0]
        function = _rows_function(builder.module, (acc.dtype, wgt.dtype), (accs.type, factors.type, weights.type))
        builder.call(function, [accs, factors, weights, args[6], lanes])
        return context.get_dummy_value()

    return types.void(acc, values, wgt, *(types.int64,) * 4), generate


def row_pointer(context: Any, builder: Any, view: Any, value: Any, block: Any, index: Any) -> tuple[Any, Any]:
    """Return an LLVM pointer to element ``[block, index, 0]`` of an array, and the number of lanes.

    The lanes are the last axis of the array: the PEs of a block.

    Args:
        context, builder: Numba target context and LLVM builder.
        view, value: Numba type and LLVM value of an array ``[block, address, lane]``.
        block, index: LLVM values of the indices.
    """
    array = context.make_array(view)(context, builder, value)
    _, height, lanes = cgutils.unpack_tuple(builder, array.shape)
    at = builder.mul(builder.add(builder.mul(block, height), index), lanes)
    return builder.gep(array.data, [at]), lanes


def _rows_function(module: Any, element_types: tuple[Any, Any], pointers: tuple[Any, Any, Any]) -> Any:
    """Return the LLVM function that computes acc[n, lane] += values[lane] * wgt[n, lane].

    The arguments of the LLVM function are pointers to ``acc``, ``values`` and ``wgt``, the number
    of rows, and the number of lanes (PEs of a block).

    - The pointers are declared as non-aliasing, so that the loop vectorises. The compiler cannot
      see that views of the same memory do not overlap, and checks at run time would cost more than
      the computation of a row.
    - Rows of weights are prefetched into the second-level cache. Without this, a core would read
      them at half the rate.

    Args:
        module: LLVM module that receives the function.
        element_types: Numba types of the elements of ``acc`` and ``wgt``.
        pointers: LLVM types of the three pointers.
    """
    element_bytes = element_types[1].bitwidth // 8

    def body(builder: Any, acc: Any, values: Any, wgt: Any, count: Any, lanes: Any) -> None:
        with cgutils.for_range(builder, count, intp=WORD) as rows:
            sums, weights = (builder.gep(first, [builder.mul(rows.index, lanes)]) for first in (acc, wgt))
            next_weights = builder.gep(weights, [word(PREFETCH_BYTES // element_bytes)])
            row_bytes = builder.mul(lanes, word(element_bytes))
            with cgutils.for_range_slice(builder, word(0), row_bytes, word(CACHE_LINE_BYTES), intp=WORD) as (line, _):
                fetch(builder, next_weights, line)
            with cgutils.for_range(builder, lanes, intp=WORD) as lane:
                place = builder.gep(sums, [lane.index])
                x = builder.load(builder.gep(values, [lane.index]))
                w = widen_ir(builder, element_types[1], builder.load(builder.gep(weights, [lane.index])))
                total = builder.fadd(widen_ir(builder, element_types[0], builder.load(place)), builder.fmul(x, w))
                builder.store(narrow_ir(builder, element_types[0], total), place)

    return internal_function(module, "wse_multiply_add_" + "_".join(map(str, element_types)), pointers, 2, body)


def _multiply_add_lanes(acc: Any, values: Any, wgt: Any, block: int, e: int, w: int, n: int) -> None:
    """Multiply one activation per lane by ``n`` weights and add the products to ``n`` sums.

    This is the plain Python version of the compiled code. For i < n, acc[e + i] += values *
    wgt[w + i] in all lanes (PEs of a block).

    Args:
        acc: Sums in the accumulator type, ``[block, address, lane]``.
        values: float32 activation of each lane.
        wgt: Weights, ``[block, address, lane]``.
        block: Index of the block of PEs.
        e, w: Addresses of the first sum and the first weight.
        n: Number of weights per PE.
    """
    for i in range(n):
        for lane in range(acc.shape[2]):
            old = acc[block, e + i, lane]
            product = values[lane] * widen(wgt[block, w + i, lane])
            acc[block, e + i, lane] = narrow(widen(old) + product, old)


widen: Any = _widen_element if config.DISABLE_JIT else _widen_compiled
"""``widen(element)``: the float32 value of one stored element."""

narrow: Any = _narrow_element if config.DISABLE_JIT else _narrow_compiled
"""``narrow(value, example)``: bits of a float32, rounded to the element type of ``example``."""

multiply_add_lanes: Any = _multiply_add_lanes if config.DISABLE_JIT else _multiply_add_lanes_compiled
"""``multiply_add_lanes(acc, values, wgt, block, e, w, n)``: add products with rows of weights.

acc[e + i] += values * wgt[w + i] for i < n. Indices are rows ``[block, row, :]`` of the views. All
lanes of a row take part, and ``values`` has a float32 value for each. The product is rounded to
float32, the sum to float32 and then to the type of ``acc``. Indices are not checked against the
size of the views.
"""


@helper_function
def copy_elements(view: Any, block: int, out: int, x: int, n: int) -> None:
    """Copy ``n`` elements of every PE of a block from address ``x`` to address ``out``."""
    for e in range(n):
        for lane in range(view.shape[2]):
            view[block, out + e, lane] = view[block, x + e, lane]


@helper_function
def convert_elements(target: Any, source: Any, block: int, out: int, x: int, n: int) -> None:
    """Copy ``n`` elements to a view with another element type, on all PEs of a block.

    The elements are rounded to the element type of ``target``.

    Args:
        target, source: Views ``[block, address, lane]`` of the results and of the elements.
        block: Index of the block of PEs.
        out, x: Addresses of the first result and of the first element.
        n: Number of elements per PE.
    """
    for e in range(n):
        for lane in range(target.shape[2]):
            target[block, out + e, lane] = narrow(widen(source[block, x + e, lane]), target[block, out + e, lane])


@helper_function
def clear_rows(view: Any, block: int, e: int, n: int) -> None:
    """Set ``n`` elements of every PE of a block to zero, beginning at address ``e``."""
    for i in range(e, e + n):
        for lane in range(view.shape[2]):
            view[block, i, lane] = narrow(np.float32(0.0), view[block, i, lane])
