"""What positions do to queries and keys: rotation out of the projection's accumulators or in place, and scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def rope(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """Rotate q and k out of the projection's accumulators, and round q, k and v to the element type.

    Of a head's F local features the first R / 2 are first members of rotary pairs and the next R / 2 their partners;
    the others are only rounded. The angle of pair p of token m is (position of m) * f32[frequency + p]. Operands:
    3 acc ``[M, (Hq + 2 Hk) F]`` (q, k, v), 4 frequency, 5 q ``[M, Hq, F]``, 6 k ``[M, Hk, F]``, 7 v ``[M, Hk, F]``,
    8 M, 9 Hq, 10 Hk, 11 F, 12 R, 13 what cos and sin are multiplied with, in units of 1e-12.
    """
    x, frequency, q, k, v, M, Hq, Hk, F, R = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]
    half = R // 2
    multiplier = np.float32(a[13] * 1e-12)
    width = (Hq + 2 * Hk) * F
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for m in range(M):
            position = np.float32(ctl[row, 0] + m)
            for p in range(half):
                for lane in range(lanes):
                    angle = position * f32[block, frequency + p, lane]
                    cosine, sine = np.float32(np.cos(angle)) * multiplier, np.float32(np.sin(angle)) * multiplier
                    for h in range(Hq + Hk):
                        source = x + m * width + h * F + p
                        first, second = widen(acc[block, source, lane]), widen(acc[block, source + half, lane])
                        out = q + (m * Hq + h) * F + p if h < Hq else k + (m * Hk + h - Hq) * F + p
                        like = act[block, out, lane]
                        act[block, out, lane] = narrow(first * cosine - second * sine, like)
                        act[block, out + half, lane] = narrow(second * cosine + first * sine, like)
            for h in range(Hq + Hk):
                for e in range(R, F):
                    out = q + (m * Hq + h) * F + e if h < Hq else k + (m * Hk + h - Hq) * F + e
                    for lane in range(lanes):
                        value = widen(acc[block, x + m * width + h * F + e, lane])
                        act[block, out, lane] = narrow(value, act[block, out, lane])
            for e in range(Hk * F):
                for lane in range(lanes):
                    like = act[block, v + m * Hk * F + e, lane]
                    value = widen(acc[block, x + m * width + (Hq + Hk) * F + e, lane])
                    act[block, v + m * Hk * F + e, lane] = narrow(value, like)


def rotate(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """Rotate heads where they are, as ``rope`` does.

    Operands: 3 act ``[M, H, F]``, 4 frequency, 5 M, 6 H, 7 F, 8 R, 9 what cos and sin are multiplied with, in units of
    1e-12.
    """
    x, frequency, M, H, F, half = a[3], a[4], a[5], a[6], a[7], a[8] // 2
    multiplier = np.float32(a[9] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            position = np.float32(ctl[block // a[2], 0] + m)
            for p in range(half):
                for lane in range(lanes):
                    angle = position * f32[block, frequency + p, lane]
                    cosine, sine = np.float32(np.cos(angle)) * multiplier, np.float32(np.sin(angle)) * multiplier
                    for h in range(H):
                        at = x + (m * H + h) * F + p
                        like = act[block, at, lane]
                        first, second = widen(like), widen(act[block, at + half, lane])
                        act[block, at, lane] = narrow(first * cosine - second * sine, like)
                        act[block, at + half, lane] = narrow(second * cosine + first * sine, like)


def split_heads(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """Round q, k and v out of the projection's accumulators to the element type, without rotation.

    Operands: 3 acc ``[M, (Hq + 2 Hk) F]`` (q, k, v), 4 q ``[M, Hq, F]``, 5 k ``[M, Hk, F]``, 6 v ``[M, Hk, F]``, 7 M,
    8 Hq, 9 Hk, 10 F.
    """
    x, q, k, v, M, queries, keys = a[3], a[4], a[5], a[6], a[7], a[8] * a[10], a[9] * a[10]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for e in range(queries + 2 * keys):
                if e < queries:
                    out = q + m * queries + e
                elif e < queries + keys:
                    out = k + m * keys + e - queries
                else:
                    out = v + m * keys + e - queries - keys
                for lane in range(lanes):
                    value = widen(acc[block, x + m * (queries + 2 * keys) + e, lane])
                    act[block, out, lane] = narrow(value, act[block, out, lane])


def scale_queries(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, n] *= 1 + coefficient * ln(1 + floor((position of m + 1) / tokens)).

    Operands: 3 act, 4 M, 5 n, 6 coefficient in units of 1e-12, 7 tokens.
    """
    x, M, n = a[3], a[4], a[5]
    coefficient = np.float32(a[6] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            far = np.float32((ctl[block // a[2], 0] + m + 1) // a[7])
            factor = np.float32(np.log1p(far)) * coefficient + np.float32(1.0)
            for e in range(x + m * n, x + m * n + n):
                for lane in range(lanes):
                    value = act[block, e, lane]
                    act[block, e, lane] = narrow(widen(value) * factor, value)
