"""Compute kernels for elementwise operations: additions, copies, conversions and scaling."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import hyperbolic_tangent
from wse_kernels.codegen.elements import clear_rows, convert_elements, copy_elements, narrow, widen


def residual_add(block, act, acc, x, addend, n):
    """Add sums to the residual stream of a layer in place: x[n] += addend[n].

    The addend is rounded from the accumulator type to the activation type before the addition.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the residual stream [n] in the activation type, changed in place.
        addend: Address of the sums [n] in the accumulator type.
        n: Number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            rounded_addend = narrow(widen(acc[block, addend + e, lane]), old)
            act[block, x + e, lane] = narrow(widen(old) + widen(rounded_addend), old)


def add(block, act, x, addend, n):
    """Add one activation vector to another in place: x[n] += addend[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act: SRAM as activation elements [block, address, PE of block].
        x: Address of the vector [n], changed in place.
        addend: Address of the vector [n] to add.
        n: Number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            act[block, x + e, lane] = narrow(widen(old) + widen(act[block, addend + e, lane]), old)


def add_bias(block, wgt, acc, x, bias, M, n):
    """Add a bias to each token's sums in place: x[M, n] += bias[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        wgt, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the sums [M, n] in the accumulator type, changed in place.
        bias: Address of the bias [n] in the weight type.
        M, n: Numbers of tokens and features.
    """
    lanes = acc.shape[2]
    for e in range(M * n):
        for lane in range(lanes):
            old = acc[block, x + e, lane]
            acc[block, x + e, lane] = narrow(widen(old) + widen(wgt[block, bias + e % n, lane]), old)


def scale(block, acc, x, n, factor_pico):
    """Multiply sums in the accumulator type by a constant in place: x[n] *= factor_pico * 1e-12.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        x: Address of the vector [n], changed in place.
        n: Number of elements.
        factor_pico: Factor in units of 1e-12.
    """
    factor = np.float32(factor_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])


def store(block, act, acc, out, x, n):
    """Convert sums from the accumulator type to the activation type: out[n] = x[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        out: Address of the results [n] in the activation type.
        x: Address of the vector [n] in the accumulator type.
        n: Number of elements.
    """
    convert_elements(act, acc, block, out, x, n)


def store_part(block, act, acc, out, x, M, n, stride):
    """Convert the first ``n`` sums of each row to the activation type: out[M, n] = x[M, :n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        out: Address of the results [M, n] in the activation type.
        x: Address of the first row in the accumulator type.
        M, n: Number of rows, and number of elements to convert in each row.
        stride: Row stride of ``x``, in elements.
    """
    for m in range(M):
        convert_elements(act, acc, block, out + m * n, x + m * stride, n)


def clear(block, act, out, n):
    """Set an activation vector to zero: out[n] = 0.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act: SRAM as activation elements [block, address, PE of block].
        out: Address of the vector [n].
        n: Number of elements.
    """
    clear_rows(act, block, out, n)


def copy(block, act, out, x, n):
    """Copy an activation vector: out[n] = x[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act: SRAM as activation elements [block, address, PE of block].
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    copy_elements(act, block, out, x, n)


def copy_statistics(block, f32, out, x, n):
    """Copy a float32 vector: out[n] = x[n].

    The elements are statistics, such as the maxima of a softmax, which are computed in float32.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    copy_elements(f32, block, out, x, n)


def add_statistics(block, f32, x, addend, n):
    """Add one float32 vector to another in place: x[n] += addend[n].

    The elements are statistics, such as the sums of a softmax, which are computed in float32.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        x: Address of the vector [n], changed in place.
        addend: Address of the vector [n] to add.
        n: Number of elements.
    """
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, x + e, lane] += f32[block, addend + e, lane]


def store_statistics(block, act, f32, out, x, n):
    """Convert a float32 vector to the activation type: out[n] = x[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        out: Address of the results [n] in the activation type.
        x: Address of the float32 vector [n].
        n: Number of elements.
    """
    convert_elements(act, f32, block, out, x, n)


def load_statistics(block, act, f32, out, x, n):
    """Convert an activation vector to float32: out[n] = x[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        out: Address of the float32 results [n].
        x: Address of the vector [n] in the activation type.
        n: Number of elements.
    """
    convert_elements(f32, act, block, out, x, n)


def copy_weights(block, wgt, out, x, n):
    """Copy a weight vector: out[n] = x[n].

    Args:
        block: Index of the block (group of neighbouring PEs).
        wgt: SRAM as weight elements [block, address, PE of block].
        out, x: Addresses of the copy [n] and the vector [n].
        n: Number of elements.
    """
    copy_elements(wgt, block, out, x, n)


def soft_cap(block, acc, x, n, scale_pico, cap_pico):
    """Apply a smooth cap to values in place: x[n] = cap * tanh(scale * x[n] / cap).

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        x: Address of the vector [n] in the accumulator type, changed in place.
        n: Number of elements.
        scale_pico, cap_pico: Scale and cap in units of 1e-12.
    """
    scale, cap = np.float32(scale_pico * 1e-12), np.float32(cap_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            value = acc[block, e, lane]
            acc[block, e, lane] = narrow(hyperbolic_tangent(widen(value) * scale / cap) * cap, value)
