"""Small local operations between the tile products."""

from __future__ import annotations

import numpy as np

from wse_kernels._elementary import hyperbolic_tangent
from wse_kernels._elements import narrow, widen


def residual_add(block, act, acc, x, addend, n):
    """x[n] += addend[n], the addend rounded to the activation type first."""
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            added = narrow(widen(acc[block, addend + e, lane]), old)
            act[block, x + e, lane] = narrow(widen(old) + widen(added), old)


def add(block, act, x, addend, n):
    """x[n] += addend[n], both activations."""
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            old = act[block, x + e, lane]
            act[block, x + e, lane] = narrow(widen(old) + widen(act[block, addend + e, lane]), old)


def add_bias(block, wgt, acc, x, bias, M, n):
    """x[M, n] += bias[n]."""
    lanes = acc.shape[2]
    for e in range(M * n):
        for lane in range(lanes):
            old = acc[block, x + e, lane]
            acc[block, x + e, lane] = narrow(widen(old) + widen(wgt[block, bias + e % n, lane]), old)


def scale(block, acc, x, n, factor_pico):
    """x[n] *= factor."""
    factor = np.float32(factor_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])


def store(block, act, acc, out, x, n):
    """out[n] = x[n], accumulators rounded to activations."""
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = narrow(widen(acc[block, x + e, lane]), act[block, out + e, lane])


def store_part(block, act, acc, out, x, M, n, stride):
    """out[M, n] = the first n elements of every row of x, whose rows are ``stride`` apart, rounded to activations."""
    lanes = act.shape[2]
    for m in range(M):
        for e in range(n):
            for lane in range(lanes):
                like = act[block, out + m * n + e, lane]
                act[block, out + m * n + e, lane] = narrow(widen(acc[block, x + m * stride + e, lane]), like)


def clear(block, act, out, n):
    """out[n] = 0."""
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = narrow(np.float32(0.0), act[block, out + e, lane])


def copy(block, act, out, x, n):
    """out[n] = x[n], both activations."""
    lanes = act.shape[2]
    for e in range(n):
        for lane in range(lanes):
            act[block, out + e, lane] = act[block, x + e, lane]


def copy_statistics(block, f32, out, x, n):
    """out[n] = x[n], both float32."""
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, out + e, lane] = f32[block, x + e, lane]


def add_statistics(block, f32, x, addend, n):
    """x[n] += addend[n], both float32."""
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, x + e, lane] += f32[block, addend + e, lane]


def store_statistics(block, act, f32, out, x, n):
    """out[n] = x[n], rounded from float32 to activations."""
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            like = act[block, out + e, lane]
            act[block, out + e, lane] = narrow(f32[block, x + e, lane], like)


def load_statistics(block, act, f32, out, x, n):
    """out[n] = x[n], activations as float32."""
    lanes = f32.shape[2]
    for e in range(n):
        for lane in range(lanes):
            f32[block, out + e, lane] = widen(act[block, x + e, lane])


def copy_weights(block, wgt, out, x, n):
    """out[n] = x[n], both weights."""
    lanes = wgt.shape[2]
    for e in range(n):
        for lane in range(lanes):
            wgt[block, out + e, lane] = wgt[block, x + e, lane]


def soft_cap(block, acc, x, n, scale_pico, cap_pico):
    """x[n] = cap * tanh(scale * x[n] / cap)."""
    scale, cap = np.float32(scale_pico * 1e-12), np.float32(cap_pico * 1e-12)
    lanes = acc.shape[2]
    for e in range(x, x + n):
        for lane in range(lanes):
            value = acc[block, e, lane]
            acc[block, e, lane] = narrow(hyperbolic_tangent(widen(value) * scale / cap) * cap, value)
