"""Tile products: MeshGEMV, MeshGEMM and dist-GEMM-T share them, with weights or with activations on the right.

``k_stride`` and ``n_stride`` are the strides of ``w`` along K and N in elements, ``out_stride`` is that of ``out``
along M. With ``add`` other than 0 the product is added to what ``out`` holds.

Codes of quantised weights are unpacked a few rows at a time into activations, then multiplied. A code is exact in every
activation type, so with one scale an output the sums are of activations times codes and are scaled at their end. With a
scale a group of inputs, which begins and ends elsewhere on every PE, codes are scaled as they are unpacked. ``codes``
is scratch for ``rows`` rows of N, which are unpacked at once, and ``factors`` for the scales of a row's group.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._chunk_product import multiply_chunk
from wse_kernels._codes import (
    FP8,
    FP8_BLOCKS,
    INT8,
    MXFP4,
    scale_rows,
    unpack_fp8,
    unpack_int4,
    unpack_int8,
    unpack_with_factors,
)
from wse_kernels._elements import clear_rows
from wse_kernels._jit import helper_function
from wse_kernels._moved_rows import fetch_rows
from wse_kernels._vector_product import multiply_vector


def matmul(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with weights on the right."""
    _product(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def matmul_act(block, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """out[M, N] (+)= x[M, K] @ w[K, N], with activations on the right."""
    _product(block, act, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def gemv(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride):
    """out[M, N] = x[M, K] @ w[K, N]: one token after another, for each one mapped operation over K."""
    for m in range(M):
        multiply_vector(acc, act, wgt, block, out + m * out_stride, x + m * K, w, K, N, k_stride, n_stride, 0)


@helper_function
def _product(block, act, right, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    if add == 0:
        for m in range(M):
            clear_rows(acc, block, out + m * out_stride, N)
    multiply_chunk(acc, act, right, block, out, x, w, M, K, N, K, k_stride, n_stride, out_stride)


def matmul_int8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """out[M, N] = scale[N] * (x[M, K] @ int8 w[K, N])."""
    _one_scale(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows, INT8)


def matmul_fp8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """out[M, N] = scale[N] * (x[M, K] @ e4m3 w[K, N])."""
    _one_scale(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows, FP8)


@helper_function
def _one_scale(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows, coding):
    clear_rows(acc, block, out, M * N)
    for first in range(0, K, rows):
        last = min(first + rows, K)
        fetch_rows(raw, block + 1, w + first * N, (last - first) * N)
        if coding == INT8:
            unpack_int8(act, raw, block, codes, w + first * N, (last - first) * N)
        else:
            unpack_fp8(act, raw, block, codes, w + first * N, (last - first) * N)
        multiply_chunk(acc, act, act, block, out, x + first, codes, M, last - first, N, K, N, 1, N)
    for m in range(M):
        scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_int4(block, act, wgt, acc, raw, x, w, groups, scale, codes, out, M, K, N, G, rows):
    """out[M, N] = x[M, K] @ (int4 w[K, N] * scale[groups[K], N]), the factor rounded to activations.

    A byte holds the codes of an even row, its low half, and of the odd row behind it; ``groups`` has the group of each
    row, of G.
    """
    lanes = act.shape[2]
    clear_rows(acc, block, out, M * N)
    for first in range(0, K, rows):
        last = min(first + rows, K)
        fetch_rows(raw, block + 1, w + first // 2 * N, (last - first + 1) // 2 * N)
        for k in range(first, last):
            low, high = G, np.int64(0)  # lanes without a PE may hold anything
            for lane in range(lanes):
                low = min(low, np.int64(raw[block, groups + k, lane]))
                high = max(high, np.int64(raw[block, groups + k, lane]))
            row, pair = codes + (k - first) * N, w + k // 2 * N
            for g in range(low, min(high + 1, G)):
                unpack_int4(act, raw, wgt, block, row, pair, N, k, g, groups + k, scale + g * N)
        multiply_chunk(acc, act, act, block, out, x + first, codes, M, last - first, N, K, N, 1, N)


def matmul_mxfp4(block, act, acc, raw, x, w, groups, scale, factors, codes, out, M, K, N, G, rows):
    """out[M, N] = x[M, K] @ (e2m1 w[K, N] * e8m0 scale[groups[K], N]), each factor rounded to activations.

    A byte holds the codes of an even row, its low half, and of the odd row behind it; ``groups`` has the group of each
    row, of G.
    """
    _with_factors(
        block, act, raw, acc, raw, x, w, groups, w, scale, factors, codes, out, M, K, N, G, N, N, rows, MXFP4
    )  # fmt: skip


def matmul_fp8_blocks(
    block, act, acc, f32, raw, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, rows
):  # fmt: skip
    """out[M, N] = x[M, K] @ (e4m3 w[K, N] * scale[groups[K], B]), each factor rounded to activations.

    ``groups`` has the group of each row, of G, and ``widths`` the outputs of each of B runs that share a scale.
    """
    _with_factors(
        block, act, f32, acc, raw, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, B, rows, FP8_BLOCKS
    )  # fmt: skip


@helper_function
def _with_factors(
    block, act, scales, acc, raw, x, w, groups, widths, scale, factors, codes, out,
    M, K, N, G, B, scale_stride, rows, coding,
):  # fmt: skip
    clear_rows(acc, block, out, M * N)
    for first in range(0, K, rows):
        last = min(first + rows, K)
        for k in range(first, last):
            unpack_with_factors(
                act, raw, scales, block, -1, codes + (k - first) * N, w, groups, widths, scale, factors,
                N, k, N, scale_stride, coding, G, B,
            )  # fmt: skip
        multiply_chunk(acc, act, act, block, out, x + first, codes, M, last - first, N, K, N, 1, N)
