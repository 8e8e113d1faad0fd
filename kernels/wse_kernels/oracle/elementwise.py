"""The oracles of the small local operations."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Sram

I32 = npt.NDArray[np.int32]

PICO = 1e-12
GELU_TANH, GELU, CLAMPED_SILU = 1, 2, 3


def residual_add(pes: Sram, ctl: I32, a: I64) -> None:
    """act[n] += acc[n], the addend rounded to the activation type first."""
    x, addend, n = a[3:6]
    for pe in pes.pes(a):
        pe.write("act", x, pe.read("act", x, n) + pe.rounded("act", pe.read("acc", addend, n)))


def add(pes: Sram, ctl: I32, a: I64) -> None:
    """act[n] += act[n] at another address."""
    x, addend, n = a[3:6]
    for pe in pes.pes(a):
        pe.write("act", x, pe.read("act", x, n) + pe.read("act", addend, n))


def add_bias(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, n] += bias[n]."""
    x, bias, M, n = a[3:7]
    for pe in pes.pes(a):
        pe.write("acc", x, pe.read("acc", x, M, n) + pe.read("wgt", bias, n))


def scale(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[n] *= factor."""
    x, n, factor_pico = a[3:6]
    for pe in pes.pes(a):
        pe.write("acc", x, pe.read("acc", x, n) * np.float32(factor_pico * PICO))


def store(pes: Sram, ctl: I32, a: I64) -> None:
    """act[n] = acc[n]."""
    out, x, n = a[3:6]
    for pe in pes.pes(a):
        pe.write("act", out, pe.read("acc", x, n))


def store_part(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, n] = the first n of every row of acc."""
    out, x, M, n, stride = a[3:8]
    for pe in pes.pes(a):
        for m in range(M):
            pe.write("act", out + m * n, pe.read("acc", x + m * stride, n))


def copy(pes: Sram, ctl: I32, a: I64) -> None:
    """act[n] = act[n] at another address."""
    out, x, n = a[3:6]
    for pe in pes.pes(a):
        pe.move("act", x, out, n)


def copy_weights(pes: Sram, ctl: I32, a: I64) -> None:
    """wgt[n] = wgt[n] at another address."""
    out, x, n = a[3:6]
    for pe in pes.pes(a):
        pe.move("wgt", x, out, n)


def soft_cap(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[n] = cap * tanh(scale * acc[n] / cap)."""
    x, n, scale_pico, cap_pico = a[3:7]
    scale, cap = np.float32(scale_pico * PICO), np.float32(cap_pico * PICO)
    for pe in pes.pes(a):
        pe.write("acc", x, np.tanh(pe.read("acc", x, n) * scale / cap) * cap)


def activate(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, n] = f(gate[M, n]), times up[M, n] where gated, both rounded to the activation type first."""
    x, out, M, n, function, gated = a[3:9]
    for pe in pes.pes(a):
        rounded = pe.rounded("act", pe.read("acc", x, M, 1 + gated, n))
        hidden, up = _activated(rounded[:, 0], function), rounded[:, -1]
        if function == CLAMPED_SILU:
            up = np.clip(up, np.float32(-7.0), np.float32(7.0)) + np.float32(1.0)
        pe.write("act", out, hidden * up if gated else hidden)


def _activated(x: F32, function: np.int64) -> F32:
    if function == GELU_TANH:
        inner = math.sqrt(2 / math.pi) * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
        return np.float32(0.5) * x * (1.0 + np.tanh(inner)).astype(np.float32)
    if function == GELU:
        erf = [math.erf(value * math.sqrt(0.5)) for value in x.reshape(-1).tolist()]
        return np.float32(0.5) * x * (1.0 + np.array(erf).reshape(x.shape)).astype(np.float32)
    clamped = function == CLAMPED_SILU
    held, steepness = (np.minimum(x, np.float32(7.0)), 1.702) if clamped else (x, 1.0)
    with np.errstate(over="ignore"):
        return np.divide(held, np.float32(1.0) + np.exp(-np.float32(steepness) * held), dtype=np.float32)
