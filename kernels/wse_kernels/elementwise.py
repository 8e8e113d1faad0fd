"""Compute kernels for elementwise operations: additions, copies, conversions and scaling."""

from __future__ import annotations

import numpy as np

from wse_kernels._elementary import hyperbolic_tangent
from wse_kernels._elements import narrow, widen


def residual_add(block, act, acc, x, addend, n):
    """Add a vector of sums to the residual stream: x[n] += addend[n].

    The addend is rounded from the accumulator type to the activation type before the addition.

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM.
        x, addend, n: Addresses of activations and of accumulators; number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            rounded_addend = narrow(widen(acc[block, addend + e, lane]), old)
            act[block, x + e, lane] = narrow(widen(old) + widen(rounded_addend), old)


def add(block, act, x, addend, n):
    """Add one vector of activations to another in place: x[n] += addend[n].

    Args:
        block, act: Block of up to 128 PEs, and the activation view of their SRAM.
        x, addend, n: Addresses of both vectors; number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            act[block, x + e, lane] = narrow(widen(old) + widen(act[block, addend + e, lane]), old)


def add_bias(block, wgt, acc, x, bias, M, n):
    """Add a bias to each token's sums in place: x[M, n] += bias[n].

    Args:
        block, wgt, acc: Block of up to 128 PEs, and views of their SRAM.
        x, bias: Addresses of accumulators [M, n] and of weights [n].
        M, n: Tokens; features.
    """
    lanes = acc.shape[2]
    for e in range(M * n):
        for lane in range(lanes):
            old = acc[block, x + e, lane]
            acc[block, x + e, lane] = narrow(widen(old) + widen(wgt[block, bias + e % n, lane]), old)


def scale(block, acc, x, n, factor_pico):
    """Multiply accumulators by a constant in place: x[n] *= factor_pico * 1e-12.

    Args:
        block, acc: Block of up to 128 PEs, and the accumulator view of their SRAM.
        x, n: Address of the vector; number of elements.
        factor_pico: Factor in units of 1e-12.
    """
    factor = np.float32(factor_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])


def store(block, act, acc, out, x, n):
    """Round a vector of accumulators to activations: out[n] = x[n].

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM.
        out, x, n: Addresses of activations and of accumulators; number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = narrow(widen(acc[block, x + e, lane]), act[block, out + e, lane])


def store_part(block, act, acc, out, x, M, n, stride):
    """Round the first n elements of each of M rows from accumulators to activations.

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM.
        out, x: Addresses of activations [M, n], and of accumulators.
        M, n, stride: Rows; elements per row; elements from one row of ``x`` to the next.
    """
    lanes = act.shape[2]
    for m in range(M):
        for e in range(n):
            for lane in range(lanes):
                element = act[block, out + m * n + e, lane]
                act[block, out + m * n + e, lane] = narrow(widen(acc[block, x + m * stride + e, lane]), element)


def clear(block, act, out, n):
    """Set a vector of activations to zero: out[n] = 0.

    Args:
        block, act: Block of up to 128 PEs, and the activation view of their SRAM.
        out, n: Address of the vector; number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = narrow(np.float32(0.0), act[block, out + e, lane])


def copy(block, act, out, x, n):
    """Copy a vector of activations: out[n] = x[n].

    Args:
        block, act: Block of up to 128 PEs, and the activation view of their SRAM.
        out, x, n: Addresses of both vectors; number of elements.
    """
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = act[block, x + e, lane]


def copy_statistics(block, f32, out, x, n):
    """Copy a float32 vector: out[n] = x[n].

    Args:
        block, f32: Block of up to 128 PEs, and the float32 view of their SRAM.
        out, x, n: Addresses of both vectors; number of elements.
    """
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, out + e, lane] = f32[block, x + e, lane]


def add_statistics(block, f32, x, addend, n):
    """Add one float32 vector to another in place: x[n] += addend[n].

    Args:
        block, f32: Block of up to 128 PEs, and the float32 view of their SRAM.
        x, addend, n: Addresses of both vectors; number of elements.
    """
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, x + e, lane] += f32[block, addend + e, lane]


def store_statistics(block, act, f32, out, x, n):
    """Round a float32 vector to activations: out[n] = x[n].

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM.
        out, x, n: Addresses of activations and of float32 values; number of elements.
    """
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            element = act[block, out + e, lane]
            act[block, out + e, lane] = narrow(f32[block, x + e, lane], element)


def load_statistics(block, act, f32, out, x, n):
    """Widen a vector of activations to float32: out[n] = x[n].

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM.
        out, x, n: Addresses of float32 values and of activations; number of elements.
    """
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, out + e, lane] = widen(act[block, x + e, lane])


def copy_weights(block, wgt, out, x, n):
    """Copy a vector of weights: out[n] = x[n].

    Args:
        block, wgt: Block of up to 128 PEs, and the weight view of their SRAM.
        out, x, n: Addresses of both vectors; number of elements.
    """
    lanes = wgt.shape[2]
    for e in range(n):
        for lane in range(lanes):
            wgt[block, out + e, lane] = wgt[block, x + e, lane]


def soft_cap(block, acc, x, n, scale_pico, cap_pico):
    """Limit accumulators smoothly in place: x[n] = cap * tanh(scale * x[n] / cap).

    Args:
        block, acc: Block of up to 128 PEs, and the accumulator view of their SRAM.
        x, n: Address of the vector; number of elements.
        scale_pico, cap_pico: Scale and cap in units of 1e-12.
    """
    scale, cap = np.float32(scale_pico * 1e-12), np.float32(cap_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            value = acc[block, e, lane]
            acc[block, e, lane] = narrow(hyperbolic_tangent(widen(value) * scale / cap) * cap, value)
