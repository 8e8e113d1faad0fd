"""Rotary position embedding of queries and keys where the projection left them."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def rope(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """Rotate q and k out of the projection's accumulators, and round q, k and v to the element type.

    A head's F local features are F / 2 first members of rotary pairs and then their partners; the
    angle of pair p of token m is (position of m) * f32[frequency + p]. Operands: 3 acc ``[M, (Hq + 2 Hk) F]``
    (q, k, v), 4 frequency, 5 q ``[M, Hq, F]``, 6 k ``[M, Hk, F]``, 7 v ``[M, Hk, F]``, 8 M, 9 Hq, 10 Hk, 11 F.
    """
    x, frequency, q, k, v, M, Hq, Hk, F = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    half = F // 2
    width = (Hq + 2 * Hk) * F
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for m in range(M):
            position = np.float32(ctl[row, 0] + m)
            for p in range(half):
                for lane in range(lanes):
                    angle = position * f32[block, frequency + p, lane]
                    cosine, sine = np.float32(np.cos(angle)), np.float32(np.sin(angle))
                    for h in range(Hq + Hk):
                        source = x + m * width + h * F + p
                        first, second = widen(acc[block, source, lane]), widen(acc[block, source + half, lane])
                        out = q + (m * Hq + h) * F + p if h < Hq else k + (m * Hk + h - Hq) * F + p
                        like = act[block, out, lane]
                        act[block, out, lane] = narrow(first * cosine - second * sine, like)
                        act[block, out + half, lane] = narrow(second * cosine + first * sine, like)
            for e in range(Hk * F):
                for lane in range(lanes):
                    like = act[block, v + m * Hk * F + e, lane]
                    value = widen(acc[block, x + m * width + (Hq + Hk) * F + e, lane])
                    act[block, v + m * Hk * F + e, lane] = narrow(value, like)
