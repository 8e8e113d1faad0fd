"""The tile products: MeshGEMV, MeshGEMM and dist-GEMM-T share them, with weights or with activations on the right."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import multiply_add_rows, narrow, prange, widen


def matmul(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] (+)= act[M, K] @ wgt[K, N] on every PE.

    Operands: 3 act, 4 wgt, 5 acc, 6 M, 7 K, 8 N, 9 and 10 the strides of wgt along K and N in elements, 11 that of acc
    along M, 12 is not 0 to add to what acc holds. Oracle: ``oracle.compute.matmul``.
    """
    x, w, out, M, K, N, k_stride, n_stride, out_stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        if a[12] == 0:
            for m in range(M):
                for e in range(out + m * out_stride, out + m * out_stride + N):
                    for lane in range(lanes):
                        acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + (M - 1) * out_stride + N - 1, 0])
        far += widen(wgt[block, w + (K - 1) * k_stride + (N - 1) * n_stride, 0])
        for k in range(K):
            for m in range(M):
                e = out + m * out_stride
                multiply_add_rows(acc, act, wgt, block, e, x + m * K + k, w + k * k_stride, N, n_stride)


def matmul_act(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] (+)= act[M, K] @ act[K, N] on every PE, both made there.

    Operands: 3 and 4 act, 5 acc, 6 M, 7 K, 8 N, 9 and 10 the strides of the second along K and N in elements, 11 that
    of acc along M, 12 is not 0 to add to what acc holds. Oracle: ``oracle.compute.matmul_act``.
    """
    x, w, out, M, K, N, k_stride, n_stride, out_stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        if a[12] == 0:
            for m in range(M):
                for e in range(out + m * out_stride, out + m * out_stride + N):
                    for lane in range(lanes):
                        acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + (M - 1) * out_stride + N - 1, 0])
        far += widen(act[block, w + (K - 1) * k_stride + (N - 1) * n_stride, 0])
        for k in range(K):
            for m in range(M):
                e = out + m * out_stride
                multiply_add_rows(acc, act, act, block, e, x + m * K + k, w + k * k_stride, N, n_stride)


def gemv(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[N] = act[K] @ wgt[K, N] on every PE: one token, one mapped operation over K.

    Operands: 3 act, 4 wgt, 5 acc, 6 K, 7 N, 8 and 9 the strides of wgt along K and N in elements. Oracle:
    ``oracle.compute.gemv``.
    """
    x, w, out, K, N, k_stride, n_stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for e in range(out, out + N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + K - 1, 0]) + widen(acc[block, out + N - 1, 0])
        far += widen(wgt[block, w + (K - 1) * k_stride + (N - 1) * n_stride, 0])
        for k in range(K):
            multiply_add_rows(acc, act, wgt, block, out, x + k, w + k * k_stride, N, n_stride)
