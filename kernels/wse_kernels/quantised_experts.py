"""Products with quantised experts: those of `wse_kernels.experts`, of weights that are unpacked a few rows at a time.

A PE takes of each row of codes the stretch of the expert that its list names. A token's sums go over experts with
scales of their own, so codes are scaled as they are unpacked, whatever shares a scale. ``coding`` is 0 for int8, 1 for
fp8, 2 for int4; of a tile of int4 a byte holds an even row, its low half, and the odd row behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._codes import INT4, unpack_scaled
from wse_kernels._jit import multiply_add_rows, narrow, prange, widen


def expert_in_quantised(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[pair, N] = x[token, K] @ (code x scale)[expert][K, N], times the pair's weight where that is asked for.

    Operands: 3 act x ``[M, K]``, 4 raw codes, 5 raw, the group of each row, read for int4 alone, 6 wgt scales, 7 f32
    list, 8 act, scratch of 21 rows of N, 9 acc, 10 P, 11 M, 12 K, 13 N, 14 experts held, 15 stride of codes and scales
    along rows and 16 stride of acc along pairs in elements, 17 is 1 to weigh, 18 columns, 19 coding, 20 groups, 21 the
    rows unpacked at once.
    """
    x, w, groups, scale, pairs, codes, out, P, M = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    K, N, held, stride, out_stride, weighed, columns = a[12], a[13], a[14], a[15], a[16], a[17], a[18]
    coding, G, rows = a[19], a[20], a[21]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        used = min(lanes, columns - (block % a[2]) * lanes)
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + (P - 1) * out_stride + N - 1, 0])
        far += raw[block, w + ((K + 1) // 2 if coding == INT4 else K) * stride - stride + held * N - 1, 0]
        far += widen(act[block, codes + min(rows, K) * N - 1, 0])
        far += widen(wgt[block, scale + (G - 1) * stride + held * N - 1, 0])
        for i in range(P):
            at, row = pairs + 1 + 3 * i, out + i * out_stride
            alike = True
            for lane in range(1, used):
                same = f32[block, pairs, lane] == f32[block, pairs, 0] and f32[block, at, lane] == f32[block, at, 0]
                alike = alike and same and f32[block, at + 1, lane] == f32[block, at + 1, 0]
            for lane in range(-1 if alike else 0, 0 if alike else used):  # -1: all of them
                one = max(lane, 0)
                if i < f32[block, pairs, one]:
                    token = min(max(np.int64(f32[block, at, one]), 0), M - 1)
                    expert = min(max(np.int64(f32[block, at + 1, one]), 0), held - 1)
                    mine, scales = w + expert * N, scale + expert * N
                    for e in range(row, row + N):
                        for other in range(one, lanes if alike else one + 1):
                            acc[block, e, other] = narrow(np.float32(0.0), acc[block, e, other])
                    for k in range(K):
                        weights, value = codes + k % rows * N, x + token * K + k
                        if k % rows == 0:
                            for ahead in range(k, min(k + rows, K)):
                                e = codes + (ahead - k) * N
                                unpack_scaled(
                                    act, raw, wgt, block, lane, e, mine, groups, scales, N, ahead, stride, coding, G
                                )
                        if alike:
                            multiply_add_rows(acc, act, act, block, row, value, weights, N, 1)
                        else:
                            for n in range(N):
                                old = acc[block, row + n, lane]
                                product = widen(act[block, value, lane]) * widen(act[block, weights + n, lane])
                                acc[block, row + n, lane] = narrow(widen(old) + product, old)
            if weighed == 1:
                for e in range(row, row + N):
                    for lane in range(used):
                        if i < f32[block, pairs, lane]:
                            old = acc[block, e, lane]
                            acc[block, e, lane] = narrow(widen(old) * f32[block, at + 2, lane], old)


def expert_out_quantised(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[token, N] = the sum over the token's pairs of x[pair, K] @ (code x scale)[expert][K, N]; 0 without any.

    Where that is asked for, x is first multiplied by the pairs' weights, in place. Operands: 3 act x ``[P, K]``, 4 raw
    codes, 5 raw, the group of each row, read for int4 alone, 6 wgt scales, 7 f32 list, 8 act, scratch of 19 rows of N,
    9 acc, 10 P, 11 M, 12 K, 13 N, 14 experts held, 15 is 1 to weigh, 16 columns, 17 coding, 18 groups, 19 the rows
    unpacked at once.
    """
    x, w, groups, scale, pairs, codes, out, P, M = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    K, N, held, weighed, columns, coding, G, rows = a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19]
    lanes, stride = act.shape[2], held * N
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        used = min(lanes, columns - (block % a[2]) * lanes)
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + P * K - 1, 0]) + widen(act[block, codes + min(rows, K) * N - 1, 0])
        far += raw[block, w + ((K + 1) // 2 if coding == INT4 else K) * stride - 1, 0]
        far += widen(wgt[block, scale + G * stride - 1, 0])
        for e in range(out, out + M * N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        for i in range(P):
            at = pairs + 1 + 3 * i
            if weighed == 1:
                for e in range(x + i * K, x + i * K + K):
                    for lane in range(used):
                        if i < f32[block, pairs, lane]:
                            old = act[block, e, lane]
                            act[block, e, lane] = narrow(widen(old) * f32[block, at + 2, lane], old)
            alike = True
            for lane in range(1, used):
                same = f32[block, pairs, lane] == f32[block, pairs, 0] and f32[block, at, lane] == f32[block, at, 0]
                alike = alike and same and f32[block, at + 1, lane] == f32[block, at + 1, 0]
            for lane in range(-1 if alike else 0, 0 if alike else used):  # -1: all of them
                one = max(lane, 0)
                if i < f32[block, pairs, one]:
                    token = min(max(np.int64(f32[block, at, one]), 0), M - 1)
                    expert = min(max(np.int64(f32[block, at + 1, one]), 0), held - 1)
                    mine, scales, row = w + expert * N, scale + expert * N, out + token * N
                    for k in range(K):
                        weights, value = codes + k % rows * N, x + i * K + k
                        if k % rows == 0:
                            for ahead in range(k, min(k + rows, K)):
                                e = codes + (ahead - k) * N
                                unpack_scaled(
                                    act, raw, wgt, block, lane, e, mine, groups, scales, N, ahead, stride, coding, G
                                )
                        if alike:
                            multiply_add_rows(acc, act, act, block, row, value, weights, N, 1)
                        else:
                            for n in range(N):
                                old = acc[block, row + n, lane]
                                product = widen(act[block, value, lane]) * widen(act[block, weights + n, lane])
                                acc[block, row + n, lane] = narrow(widen(old) + product, old)
