"""Tile products: MeshGEMV, MeshGEMM and dist-GEMM-T share them, with weights or with activations on the right.

``k_stride`` and ``n_stride`` are the strides of ``w`` along K and N in elements, ``out_stride`` is that of ``out``
along M. With ``add`` other than 0 the product is added to what ``out`` holds.

Codes of quantised weights are unpacked in registers. A code is exact in every activation type, so with one scale an
output the sums are of activations times codes and are scaled at their end. With a scale a group of inputs, which begins
and ends elsewhere on every PE, codes are scaled as they are unpacked. ``codes`` is the scratch where a PE has ``rows``
rows of N at once, and ``factors`` that for the scales of a row's group; what they hold is read by nobody else.
"""

from __future__ import annotations

from wse_kernels._chunk_product import multiply_chunk
from wse_kernels._code_product import multiply_codes
from wse_kernels._codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4, scale_rows
from wse_kernels._vector_product import multiply_vector


def matmul(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with weights on the right."""
    multiply_chunk(acc, act, wgt, block, out, x, w, M, K, N, K, k_stride, n_stride, out_stride, add)


def matmul_act(block, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with activations on the right."""
    multiply_chunk(acc, act, act, block, out, x, w, M, K, N, K, k_stride, n_stride, out_stride, add)


def gemv(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride):
    """out[M, N] = x[M, K] @ w[K, N]: one token after another, for each one mapped operation over K."""
    for m in range(M):
        multiply_vector(acc, act, wgt, None, block, out + m * out_stride, x + m * K, w, K, N, k_stride, n_stride, 0)


def matmul_int8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """out[M, N] = scale[N] * (x[M, K] @ int8 w[K, N])."""
    multiply_codes(acc, act, wgt, raw, block, out, x, w, w, w, scale, M, K, N, 1, 1, INT8)
    for m in range(M):
        scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_fp8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """out[M, N] = scale[N] * (x[M, K] @ e4m3 w[K, N])."""
    multiply_codes(acc, act, wgt, raw, block, out, x, w, w, w, scale, M, K, N, 1, 1, FP8)
    for m in range(M):
        scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_int4(block, act, wgt, acc, raw, x, w, groups, scale, codes, out, M, K, N, G, rows):
    """out[M, N] = x[M, K] @ (int4 w[K, N] * scale[groups[K], N]), the factor rounded to activations.

    A byte holds the codes of an even row, its low half, and of the odd row behind it; ``groups`` has the group of each
    row, of G.
    """
    multiply_codes(acc, act, wgt, raw, block, out, x, w, groups, w, scale, M, K, N, G, 1, INT4)


def matmul_mxfp4(block, act, acc, raw, x, w, groups, scale, factors, codes, out, M, K, N, G, rows):
    """out[M, N] = x[M, K] @ (e2m1 w[K, N] * e8m0 scale[groups[K], N]), each factor rounded to activations.

    A byte holds the codes of an even row, its low half, and of the odd row behind it; ``groups`` has the group of each
    row, of G.
    """
    multiply_codes(acc, act, raw, raw, block, out, x, w, groups, w, scale, M, K, N, G, 1, MXFP4)


def matmul_fp8_blocks(
    block, act, acc, f32, raw, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, rows
):  # fmt: skip
    """out[M, N] = x[M, K] @ (e4m3 w[K, N] * scale[groups[K], B]), each factor rounded to activations.

    ``groups`` has the group of each row, of G, and ``widths`` the outputs of each of B runs that share a scale.
    """
    multiply_codes(acc, act, f32, raw, block, out, x, w, groups, widths, scale, M, K, N, G, B, FP8_BLOCKS)
