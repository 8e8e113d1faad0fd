"""Tile products with quantised weights: codes are unpacked a few rows at a time into activations, then multiplied.

A code is exact in every activation type, so with one scale an output the sums are of activations times codes and are
scaled at their end. With a scale a group of inputs, which begins and ends elsewhere on every PE, codes are scaled as
they are unpacked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._codes import scale_rows, unpack_fp8, unpack_int4, unpack_int8
from wse_kernels._jit import multiply_add_rows, narrow, prange, widen


def matmul_int8(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] = scale[N] * (act[M, K] @ int8[K, N]) on every PE.

    Operands: 3 act, 4 raw, 5 wgt, the scales, 6 act, scratch of 11 rows of N, 7 acc, 8 M, 9 K, 10 N, 11 the rows
    unpacked at once. Oracle: ``oracle.quantised.matmul_int8``.
    """
    x, w, scale, codes, out, M, K, N, rows = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + M * N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + M * N - 1, 0]) + raw[block, w + K * N - 1, 0]
        far += widen(act[block, codes + min(rows, K) * N - 1, 0]) + widen(wgt[block, scale + N - 1, 0])
        for first in range(0, K, rows):
            last = min(first + rows, K)
            unpack_int8(act, raw, block, codes, w + first * N, (last - first) * N)
            for k in range(first, last):
                for m in range(M):
                    row = codes + (k - first) * N
                    multiply_add_rows(acc, act, act, block, out + m * N, x + m * K + k, row, N, 1)
        for m in range(M):
            scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_fp8(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] = scale[N] * (act[M, K] @ e4m3[K, N]) on every PE.

    Operands: 3 act, 4 raw, 5 wgt, the scales, 6 act, scratch of 11 rows of N, 7 acc, 8 M, 9 K, 10 N, 11 the rows
    unpacked at once. Oracle: ``oracle.quantised.matmul_fp8``.
    """
    x, w, scale, codes, out, M, K, N, rows = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + M * N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + M * N - 1, 0]) + raw[block, w + K * N - 1, 0]
        far += widen(act[block, codes + min(rows, K) * N - 1, 0]) + widen(wgt[block, scale + N - 1, 0])
        for first in range(0, K, rows):
            last = min(first + rows, K)
            unpack_fp8(act, raw, block, codes, w + first * N, (last - first) * N)
            for k in range(first, last):
                for m in range(M):
                    row = codes + (k - first) * N
                    multiply_add_rows(acc, act, act, block, out + m * N, x + m * K + k, row, N, 1)
        for m in range(M):
            scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_int4(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] = act[M, K] @ (int4[K, N] * scale[group[K], N]) on every PE, the factor rounded to activations.

    A byte holds the codes of an even row, its low half, and of the odd row behind it. Operands: 3 act, 4 raw, the
    codes, 5 raw, the group of each row, 6 wgt, the scales, 7 act, scratch of 13 rows of N, 8 acc, 9 M, 10 K, 11 N, 12
    groups, 13 the rows unpacked at once. Oracle: ``oracle.quantised.matmul_int4``.
    """
    x, w, groups, scale, codes, out, M, K, N = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    G, rows, lanes = a[12], a[13], act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + M * N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + M * N - 1, 0])
        far += raw[block, w + (K + 1) // 2 * N - 1, 0] + widen(act[block, codes + min(rows, K) * N - 1, 0])
        far += widen(wgt[block, scale + G * N - 1, 0])
        for first in range(0, K, rows):
            last = min(first + rows, K)
            for k in range(first, last):
                low, high = G, np.int64(0)  # lanes without a PE may hold anything
                for lane in range(lanes):
                    low = min(low, np.int64(raw[block, groups + k, lane]))
                    high = max(high, np.int64(raw[block, groups + k, lane]))
                row, pair = codes + (k - first) * N, w + k // 2 * N
                for g in range(low, min(high + 1, G)):
                    unpack_int4(act, raw, wgt, block, row, pair, N, k, g, groups + k, scale + g * N)
            for k in range(first, last):
                for m in range(M):
                    row = codes + (k - first) * N
                    multiply_add_rows(acc, act, act, block, out + m * N, x + m * K + k, row, N, 1)
