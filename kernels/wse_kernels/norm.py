"""Root mean square normalisation: the local sum of squares, and the scaling once all PEs know the sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def sum_squares(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[M] = sum over K of act[M, K] ** 2, in float32. Operands: 3 act, 4 f32, 5 M, 6 K."""
    x, out, M, K = a[3], a[4], a[5], a[6]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                f32[block, out + m, lane] = np.float32(0.0)
            for k in range(K):
                for lane in range(lanes):
                    value = widen(act[block, x + m * K + k, lane])
                    f32[block, out + m, lane] += value * value


def rms_scale(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, K] = gain[K] * (x[M, K] / sqrt(sum[M] / size + eps)); the factor takes the place of the sum.

    Rounds to the element type before the gain, as Hugging Face transformers does. Operands: 3 x,
    4 f32 sums, 5 gain (in wgt), 6 result, 7 M, 8 K, 9 the normalised size, 10 eps in units of 1e-18.
    """
    x, sums, gain, out, M, K = a[3], a[4], a[5], a[6], a[7], a[8]
    size = np.float32(a[9])
    eps = np.float32(a[10] * 1e-18)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                mean = f32[block, sums + m, lane] / size
                f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(mean + eps)
            for k in range(K):
                for lane in range(lanes):
                    value = act[block, x + m * K + k, lane]
                    scaled = narrow(widen(value) * f32[block, sums + m, lane], value)
                    gained = widen(wgt[block, gain + k, lane]) * widen(scaled)
                    act[block, out + m * K + k, lane] = narrow(gained, value)
