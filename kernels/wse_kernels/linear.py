"""The tile products: MeshGEMV, MeshGEMM and dist-GEMM-T share them, with weights or with activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import kernel, multiply_add_rows, narrow, prange, widen


@kernel
def _tile_product(left: Any, right: Any, acc: Any, block: int, a: Any) -> None:
    """The product on the PEs of one block, with the operands of ``matmul``."""
    x, w, out, M, K, N, k_stride, n_stride, out_stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    if a[12] == 0:
        for m in range(M):
            for e in range(out + m * out_stride, out + m * out_stride + N):
                for lane in range(acc.shape[2]):
                    acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
    # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
    far = widen(left[block, x + M * K - 1, 0]) + widen(acc[block, out + (M - 1) * out_stride + N - 1, 0])
    far += widen(right[block, w + (K - 1) * k_stride + (N - 1) * n_stride, 0])
    for k in range(K):
        for m in range(M):
            multiply_add_rows(
                acc, left, right, block, out + m * out_stride, x + m * K + k, w + k * k_stride, N, n_stride
            )


def matmul(act: Any, wgt: Any, acc: Any, f32: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] (+)= act[M, K] @ wgt[K, N] on every PE.

    Operands: 3 act, 4 wgt, 5 acc, 6 M, 7 K, 8 N, 9 and 10 the strides of wgt along K and N in elements, 11 that of acc
    along M, 12 is not 0 to add to what acc holds. Oracle: ``oracle.compute.matmul``.
    """
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        _tile_product(act, wgt, acc, block, a)


def matmul_act(act: Any, wgt: Any, acc: Any, f32: Any, ctl: Any, a: Any) -> None:
    """acc[M, N] (+)= act[M, K] @ act[K, N] on every PE: ``matmul`` with activations on both sides."""
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        _tile_product(act, act, acc, block, a)
