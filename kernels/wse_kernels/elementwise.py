"""Small local operations between the tile products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen

ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions in the order of their numbers; the sources of their definitions are those of `activate`."""

SILU, GELU_TANH, GELU = range(3)
ROOT_2_BY_PI, ROOT_HALF = np.float32(math.sqrt(2.0 / math.pi)), np.float32(math.sqrt(0.5))
LIMIT, STEEPNESS = np.float32(7.0), np.float32(1.702)  # of clamped_silu


def residual_add(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] += acc[n]. Operands: 3 act, 4 acc, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                old = act[block, a[3] + e, lane]
                added = narrow(widen(acc[block, a[4] + e, lane]), old)
                act[block, a[3] + e, lane] = narrow(widen(old) + widen(added), old)


def add(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] += act[n] at another address. Operands: 3 target, 4 addend, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                old = act[block, a[3] + e, lane]
                act[block, a[3] + e, lane] = narrow(widen(old) + widen(act[block, a[4] + e, lane]), old)


def add_bias(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, n] += bias[n]. Operands: 3 acc, 4 bias (in wgt), 5 M, 6 n."""
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5] * a[6]):
            for lane in range(lanes):
                old = acc[block, a[3] + e, lane]
                acc[block, a[3] + e, lane] = narrow(widen(old) + widen(wgt[block, a[4] + e % a[6], lane]), old)


def scale(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[n] *= factor. Operands: 3 acc, 4 n, 5 factor in units of 1e-12."""
    factor = np.float32(a[5] * 1e-12)
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[3], a[3] + a[4]):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])


def store(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] = acc[n] rounded to the element type. Operands: 3 act, 4 acc, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                act[block, a[3] + e, lane] = narrow(widen(acc[block, a[4] + e, lane]), act[block, a[3] + e, lane])


def store_part(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, n] = the first n of every row of acc, rounded.

    Operands: 3 act, 4 acc, 5 M, 6 n, 7 the stride of acc along M.
    """
    out, x, M, n, stride = a[3], a[4], a[5], a[6], a[7]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for e in range(n):
                for lane in range(lanes):
                    like = act[block, out + m * n + e, lane]
                    act[block, out + m * n + e, lane] = narrow(widen(acc[block, x + m * stride + e, lane]), like)


def copy(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] = act[n] at another address. Operands: 3 target, 4 source, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                act[block, a[3] + e, lane] = act[block, a[4] + e, lane]


def copy_weights(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """wgt[n] = wgt[n] at another address. Operands: 3 target, 4 source, 5 n."""
    lanes = wgt.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                wgt[block, a[3] + e, lane] = wgt[block, a[4] + e, lane]


def soft_cap(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[n] = cap * tanh(scale * acc[n] / cap). Operands: 3 acc, 4 n, 5 scale and 6 cap in units of 1e-12."""
    scale, cap = np.float32(a[5] * 1e-12), np.float32(a[6] * 1e-12)
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[3], a[3] + a[4]):
            for lane in range(lanes):
                value = acc[block, e, lane]
                acc[block, e, lane] = narrow(np.float32(np.tanh(widen(value) * scale / cap)) * cap, value)


def activate(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, n] = f(x[M, n]), or f(gate[M, n]) * up[M, n] where gate and up lie side by side in acc ``[M, 2 n]``.

    Both are rounded to the element type first. f is ``ACTIVATIONS[function]``: x * sigmoid(x) (SiLU, arXiv 1702.03118);
    x times the normal distribution, by tanh or by erf (GELU, arXiv 1606.08415); or x * sigmoid(1.702 x) with x at most
    7, which multiplies one more than an up that is held to -7 to 7 (github.com/openai/gpt-oss, swiglu). Operands:
    3 acc, 4 act, 5 M, 6 n, 7 function, 8 is 1 where gated.
    """
    x, out, M, n, function, gated = a[3], a[4], a[5], a[6], a[7], a[8]
    one = np.float32(1.0)
    width = (1 + gated) * n
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for e in range(n):
                for lane in range(lanes):
                    like = act[block, out + m * n + e, lane]
                    gate = widen(narrow(widen(acc[block, x + m * width + e, lane]), like))
                    if function == SILU:
                        value = gate / (one + np.exp(-gate))
                    elif function == GELU_TANH:
                        inner = ROOT_2_BY_PI * (gate + np.float32(0.044715) * gate * gate * gate)
                        value = np.float32(0.5) * gate * (one + np.tanh(inner))
                    elif function == GELU:
                        value = np.float32(0.5) * gate * (one + np.float32(math.erf(gate * ROOT_HALF)))
                    else:
                        gate = min(gate, LIMIT)
                        value = gate / (one + np.exp(-STEEPNESS * gate))
                    if gated == 1:
                        up = widen(narrow(widen(acc[block, x + m * width + n + e, lane]), like))
                        if function > GELU:
                            up = min(max(up, -LIMIT), LIMIT) + one
                        value = value * up
                    act[block, out + m * n + e, lane] = narrow(value, like)
