"""Small local operations between the tile products."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def residual_add(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] += acc[n]. Operands: 3 act, 4 acc, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                old = act[block, a[3] + e, lane]
                added = narrow(widen(acc[block, a[4] + e, lane]), old)
                act[block, a[3] + e, lane] = narrow(widen(old) + widen(added), old)


def store(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[n] = acc[n] rounded to the element type. Operands: 3 act, 4 acc, 5 n."""
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(a[5]):
            for lane in range(lanes):
                act[block, a[3] + e, lane] = narrow(widen(acc[block, a[4] + e, lane]), act[block, a[3] + e, lane])


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


def swiglu(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, n] = silu(gate[M, n]) * up[M, n]; gate and up lie side by side in acc ``[M, 2 n]``.

    Operands: 3 acc, 4 act, 5 M, 6 n.
    """
    x, out, M, n = a[3], a[4], a[5], a[6]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for e in range(n):
                for lane in range(lanes):
                    like = act[block, out + m * n + e, lane]
                    gate = widen(narrow(widen(acc[block, x + m * 2 * n + e, lane]), like))
                    up = widen(narrow(widen(acc[block, x + m * 2 * n + n + e, lane]), like))
                    value = gate / (np.float32(1.0) + np.exp(-gate)) * up
                    act[block, out + m * n + e, lane] = narrow(value, like)
