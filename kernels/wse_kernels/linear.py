"""The tile products: MeshGEMV, MeshGEMM and dist-GEMM-T share them, with weights or with activations on the right.

``k_stride`` and ``n_stride`` are the strides of ``w`` along K and N in elements, ``out_stride`` is that of ``out``
along M. With ``add`` other than 0 the product is added to what ``out`` holds.
"""

from __future__ import annotations

from wse_kernels._jit import clear_rows, inlined, multiply_add_rows, widen


def matmul(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with weights on the right."""
    _product(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def matmul_act(block, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with activations on the right."""
    _product(block, act, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def gemv(block, act, wgt, acc, x, w, out, K, N, k_stride, n_stride):
    """out[N] = x[K] @ w[K, N]: one token, one mapped operation over K."""
    _product(block, act, wgt, acc, x, w, out, 1, K, N, k_stride, n_stride, N, 0)


@inlined
def _product(block, act, right, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    if add == 0:
        for m in range(M):
            clear_rows(acc, block, out + m * out_stride, N)
    # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
    far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + (M - 1) * out_stride + N - 1, 0])
    far += widen(right[block, w + (K - 1) * k_stride + (N - 1) * n_stride, 0])
    for k in range(K):
        for m in range(M):
            e = out + m * out_stride
            multiply_add_rows(acc, act, right, block, e, x + m * K + k, w + k * k_stride, N, n_stride)
