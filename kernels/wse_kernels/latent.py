"""Moves between vectors cut over rows and vectors cut over columns, for attention over a latent cache.

A PE keeps what its row and its column share of a vector and zeros elsewhere; an all-reduce then brings the whole part
of its new axis to every PE. Which heads a row has, and which rotated features a row and a column have, stand in tables
of ordinals, 1 for the first and 0 for padding; those of a row are the same in all lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def place_heads(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, H, n] = the row's heads acc[M, Hl, n] where they belong, zeros elsewhere.

    Operands: 3 the row's heads, 4 their ordinals f32 ``[Hl]``, 5 result, 6 M, 7 H, 8 Hl, 9 n.
    """
    x, heads, out, M, H, Hl, n = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + M * H * n):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        for i in range(Hl):
            h = np.int64(f32[block, heads + i, 0]) - 1
            if h < 0:
                continue
            for m in range(M):
                for e in range(n):
                    for lane in range(lanes):
                        acc[block, out + (m * H + h) * n + e, lane] = acc[block, x + (m * Hl + i) * n + e, lane]


def place_rotated(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, H, n] = those of the row's features acc[M, Hl, K] that the column wants, zeros elsewhere.

    The row has neighbouring features. Operands: 3 these, 4 ordinals of its heads f32 ``[Hl]``, 5 of the first feature,
    6 of the features that the column wants ``[n]``, 7 result, 8 M, 9 H, 10 Hl, 11 K, 12 n, 13 the stride of the row's
    features along M.
    """
    x, heads, first, wanted, out, M, H, Hl, K, n = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + M * H * n):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        start = np.int64(f32[block, first, 0])
        for i in range(Hl):
            h = np.int64(f32[block, heads + i, 0]) - 1
            if h < 0 or start == 0:
                continue
            for j in range(n):
                for lane in range(lanes):
                    k = np.int64(f32[block, wanted + j, lane]) - start
                    if k >= 0 and k < K:
                        for m in range(M):
                            source = acc[block, x + m * a[13] + i * K + k, lane]
                            acc[block, out + (m * H + h) * n + j, lane] = source


def pick_heads(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[Hl, M, n] = the row's heads of act[M, H, n], head by head; zeros for padding.

    Operands: 3 all heads, 4 ordinals of the row's f32 ``[Hl]``, 5 result, 6 M, 7 H, 8 Hl, 9 n.
    """
    x, heads, out, M, H, Hl, n = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for i in range(Hl):
            h = np.int64(f32[block, heads + i, 0]) - 1
            for m in range(M):
                source, target = x + (m * H + h) * n, out + (i * M + m) * n
                for e in range(n):
                    for lane in range(lanes):
                        zero = narrow(np.float32(0.0), act[block, target + e, lane])
                        act[block, target + e, lane] = act[block, source + e, lane] if h >= 0 else zero


def turn_block(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] = what a PE's block act[M, K] of a vector and its block on the other axis share, zeros elsewhere.

    The vector is cut into blocks of K over rows and of N over columns, or the other way round. Operands: 3 act, 4 acc,
    5 M, 6 K, 7 N, 8 is 1 when the result is cut over rows.
    """
    x, out, M, K, N, to_rows = a[3], a[4], a[5], a[6], a[7], a[8]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for lane in range(lanes):
            col = block % a[2] * lanes + lane
            first = row * N - col * K if to_rows == 1 else col * N - row * K
            for m in range(M):
                for e in range(N):
                    value = np.float32(0.0)
                    if first + e >= 0 and first + e < K:
                        value = widen(act[block, x + m * K + first + e, lane])
                    acc[block, out + m * N + e, lane] = narrow(value, acc[block, out + m * N + e, lane])
