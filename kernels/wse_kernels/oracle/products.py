"""The oracles of products: with weights, with quantised weights, and with the experts that tokens were routed to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wse_kernels.oracle.memory import F32, Pe, e2m1, e4m3, e8m0

INT8, FP8, INT4, MXFP4, FP8_BLOCKS = range(5)
"""Codings by number."""


def matmul(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """acc[M, N] (+)= act[M, K] @ wgt[K, N]."""
    _product(pe, "wgt", x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def matmul_act(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """acc[M, N] (+)= act[M, K] @ act[K, N]."""
    _product(pe, "act", x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def gemv(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride):
    """acc[M, N] = act[M, K] @ wgt[K, N]."""
    _product(pe, "wgt", x, w, out, M, K, N, k_stride, n_stride, out_stride, 0)


def _product(pe, right, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    X = pe.read("act", x, M, K)
    rows = [out + m * out_stride for m in range(M)]
    total = np.array([pe.read("acc", row, N) if add else np.zeros(N, np.float32) for row in rows])
    for k in range(K):
        for n in range(N):
            product = X[:, k] * pe.read(right, w + k * k_stride + n * n_stride, 1)
            total[:, n] = pe.round_to("acc", total[:, n] + product)
    for row, sums in zip(rows, total, strict=True):
        pe.write("acc", row, sums)


def matmul_int8(pe, x, w, scale, codes, out, M, K, N, rows):
    """acc[M, N] = scale[N] * (act[M, K] @ int8[K, N])."""
    values = pe.bytes(w, K * N).view(np.int8).astype(np.float32)
    _one_scale(pe, values.reshape(K, N), x, scale, out, M)


def matmul_fp8(pe, x, w, scale, codes, out, M, K, N, rows):
    """acc[M, N] = scale[N] * (act[M, K] @ e4m3[K, N])."""
    _one_scale(pe, e4m3(pe.bytes(w, K * N)).reshape(K, N), x, scale, out, M)


def matmul_int4(pe, x, w, groups, scale, codes, out, M, K, N, G, rows):
    """acc[M, N] = act[M, K] @ (int4[K, N] * scale[group[K], N])."""
    weights = _unpack(pe, w, groups, scale, K, N, N, INT4, G)
    for m in range(M):
        pe.write("acc", out + m * N, _sums(pe, x + m * K, weights, np.zeros(N, np.float32)))


def matmul_mxfp4(pe, x, w, groups, scale, factors, codes, out, M, K, N, G, rows):
    """acc[M, N] = act[M, K] @ (e2m1[K, N] * e8m0[group[K], N])."""
    of_group = _powers(pe, scale, N, N, G)
    _with_factors(pe, MXFP4, of_group, x, w, groups, out, M, K, N)


def matmul_fp8_blocks(pe, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, rows):
    """acc[M, N] = act[M, K] @ (e4m3[K, N] * f32[group[K], run of N])."""
    of_group = _runs(pe, scale, B, widths, N, G, B)
    _with_factors(pe, FP8_BLOCKS, of_group, x, w, groups, out, M, K, N)


def _with_factors(
    pe: Pe, coding: int, of_group: F32, x: int, w: int, groups: int, out: int, M: int, K: int, N: int
) -> None:  # fmt: skip
    """A product with codes times the factors ``[G, N]`` of their group."""
    weights = _times_factors(pe, coding, of_group, w, groups, K, N, N)
    for m in range(M):
        pe.write("acc", out + m * N, _sums(pe, x + m * K, weights, np.zeros(N, np.float32)))


def _one_scale(pe: Pe, values: F32, x: int, scale: int, out: int, M: int) -> None:
    """A product with the ``values`` ``[K, N]`` of codes, whose sums are scaled."""
    K, N = values.shape
    for m in range(M):
        sums = _sums(pe, x + m * K, values, np.zeros(N, np.float32))
        pe.write("acc", out + m * N, sums * pe.read("wgt", scale, N))


def expert_in(pe, x, w, pairs, out, P, M, K, N, local_experts, k_stride, out_stride, weighted, columns):
    """acc[pair, N] = x[token, K] @ w[expert][K, N], weighed where requested."""
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        total = _sums(pe, x + token * K, _rows(pe, w + expert * N, k_stride, K, N), np.zeros(N, np.float32))
        if weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", out + i * out_stride, total)


def expert_out(pe, x, w, pairs, out, P, M, K, N, local_experts, weighted, columns):
    """acc[token, N] = the sum over its pairs of x[pair, K] @ w[expert][K, N]; x is weighed in place where requested."""
    pe.write("acc", out, np.zeros(M * N, np.float32))
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        if weighted:
            pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
        weights = _rows(pe, w + expert * N, local_experts * N, K, N)
        pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))


def expert_bias(
    pe, x, bias, pairs, P, M, N, parts, local_experts, stride, by_token, weighted, share, columns, groups, stretches
):
    """acc[pair, N] += bias[expert, N], or acc[token, N] of it times the weight, of what the PE's share has, by part."""
    width = columns // stretches
    starts = np.cumsum([0, *[width // groups + (g < width % groups) for g in range(groups)]])
    col = pe.col % width
    place = col - starts[np.searchsorted(starts, col, side="right") - 1] if by_token else pe.row
    held = pe.read("wgt", bias, parts, share)
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        row, scale = x + (token if by_token else i) * stride, weight if weighted else np.float32(1.0)
        index = expert * N + np.arange(N) - place * share
        own = (index >= 0) & (index < share)
        sums = pe.read("acc", row, parts, N)
        sums[:, own] += held[:, index[own]] * scale
        pe.write("acc", row, sums)


def expert_in_quantised(
    pe,
    x,
    w,
    groups,
    scale,
    pairs,
    codes,
    out,
    P,
    M,
    K,
    N,
    local_experts,
    k_stride,
    out_stride,
    weighted,
    columns,
    coding,
    G,
    rows,
):
    """acc[pair, N] = x[token, K] @ (code x scale)[expert][K, N], weighed where requested."""
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        weights = _unpack(pe, w + expert * N, groups, scale + expert * N, K, N, k_stride, coding, G)
        total = _sums(pe, x + token * K, weights, np.zeros(N, np.float32))
        if weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", out + i * out_stride, total)


def expert_out_quantised(
    pe, x, w, groups, scale, pairs, codes, out, P, M, K, N, local_experts, weighted, columns, coding, G, rows
):
    """acc[token, N] = the sum over its pairs of x[pair, K] @ (code x scale)[expert][K, N]; x is weighed in place."""
    pe.write("acc", out, np.zeros(M * N, np.float32))
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        if weighted:
            pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
        weights = _unpack(pe, w + expert * N, groups, scale + expert * N, K, N, local_experts * N, coding, G)
        pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))


def expert_in_mxfp4(
    pe, x, w, groups, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, out_stride, weighted, columns, G, rows,
):  # fmt: skip
    """acc[pair, N] = x[token, K] @ (e2m1 x e8m0)[expert][K, N], weighed where requested."""

    def of_group(expert: int) -> F32:
        return _powers(pe, scale + expert * N, k_stride, N, G)

    _in_with_factors(
        pe, MXFP4, of_group, x, w, groups, pairs, out, P, M, K, N, local_experts, k_stride, out_stride, weighted
    )


def expert_in_fp8_blocks(
    pe, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, G, B, rows,
):  # fmt: skip
    """acc[pair, N] = x[token, K] @ (e4m3 x f32)[expert][K, N], weighed where requested."""

    def of_group(expert: int) -> F32:
        return _runs(pe, scale + expert * B, scale_stride, widths, N, G, B)

    _in_with_factors(
        pe, FP8_BLOCKS, of_group, x, w, groups, pairs, out, P, M, K, N, local_experts, k_stride, out_stride, weighted
    )


def expert_out_mxfp4(
    pe, x, w, groups, scale, factors, pairs, codes, out, P, M, K, N, local_experts, weighted, columns, G, rows
):
    """acc[token, N] = the sum over its pairs of x[pair, K] @ (e2m1 x e8m0)[expert][K, N]; x is weighed in place."""

    def of_group(expert: int) -> F32:
        return _powers(pe, scale + expert * N, local_experts * N, N, G)

    _out_with_factors(pe, MXFP4, of_group, x, w, groups, pairs, out, P, M, K, N, local_experts, weighted)


def expert_out_fp8_blocks(
    pe, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, B, rows,
):  # fmt: skip
    """acc[token, N] = the sum over its pairs of x[pair, K] @ (e4m3 x f32)[expert][K, N]; x is weighed in place."""

    def of_group(expert: int) -> F32:
        return _runs(pe, scale + expert * B, local_experts * B, widths, N, G, B)

    _out_with_factors(pe, FP8_BLOCKS, of_group, x, w, groups, pairs, out, P, M, K, N, local_experts, weighted)


def _in_with_factors(
    pe: Pe, coding: int, of_group: Callable[[int], F32], x: int, w: int, groups: int, pairs: int,
    out: int, P: int, M: int, K: int, N: int, local_experts: int, k_stride: int, out_stride: int, weighted: int,
) -> None:  # fmt: skip
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        weights = _times_factors(pe, coding, of_group(expert), w + expert * N, groups, K, N, k_stride)
        total = _sums(pe, x + token * K, weights, np.zeros(N, np.float32))
        pe.write("acc", out + i * out_stride, pe.round_to("acc", total * weight) if weighted else total)


def _out_with_factors(
    pe: Pe, coding: int, of_group: Callable[[int], F32], x: int, w: int, groups: int, pairs: int,
    out: int, P: int, M: int, K: int, N: int, local_experts: int, weighted: int,
) -> None:  # fmt: skip
    pe.write("acc", out, np.zeros(M * N, np.float32))
    stride = local_experts * N
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        if weighted:
            pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
        weights = _times_factors(pe, coding, of_group(expert), w + expert * N, groups, K, N, stride)
        pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))


def _pair_list(pe: Pe, pairs: int, P: int, M: int, local_experts: int) -> list[tuple[int, int, np.float32]]:
    """(token, expert, weight) of the pairs in the list, each index at most the last that there is."""
    count = min(int(pe.read("f32", pairs, 1)[0]), P)
    rows = pe.read("f32", pairs + 1, max(count, 0), 3)
    return [(min(max(int(t), 0), M - 1), min(max(int(e), 0), local_experts - 1), weight) for t, e, weight in rows]


def _rows(pe: Pe, w: int, k_stride: int, K: int, N: int) -> F32:
    """Return the weights ``[K, N]`` whose rows are ``k_stride`` apart."""
    return np.stack([pe.read("wgt", w + k * k_stride, N) for k in range(K)])


def _unpack(pe: Pe, w: int, groups: int, scale: int, K: int, N: int, k_stride: int, coding: int, G: int) -> F32:
    """Return the weights ``[K, N]`` decoded from codes and scales, rounded to activations."""
    halves = 2 if coding == INT4 else 1
    codes = np.stack([pe.bytes(w + k // halves * k_stride, N) for k in range(K)])
    scales = np.stack([pe.read("wgt", scale + g * k_stride, N) for g in range(G)])
    of_row = np.zeros(K, np.int64)
    if coding == INT8:
        values = codes.view(np.int8).astype(np.float32)
    elif coding == FP8:
        values = e4m3(codes)
    else:
        of_row = pe.bytes(groups, K).astype(np.int64)
        nibbles = np.where(np.arange(K)[:, None] % 2, codes >> 4, codes & 0xF).astype(np.float32)
        values = np.where(nibbles > 7, nibbles - 16, nibbles)
    return pe.round_to("act", values * scales[of_row])


def _powers(pe: Pe, scale: int, stride: int, N: int, G: int) -> F32:
    """Return the factors ``[G, N]`` decoded from bytes."""
    return np.stack([e8m0(pe.bytes(scale + g * stride, N)) for g in range(G)])


def _runs(pe: Pe, scale: int, stride: int, widths: int, N: int, G: int, B: int) -> F32:
    """Return the factors ``[G, N]`` of B runs of outputs with a scale each."""
    width = pe.bytes(widths, B).astype(np.int64)
    return np.stack([np.repeat(pe.read("f32", scale + g * stride, B), width)[:N] for g in range(G)])


def _times_factors(pe: Pe, coding: int, of_group: F32, w: int, groups: int, K: int, N: int, k_stride: int) -> F32:
    """Return the weights ``[K, N]``, rounded to activations, of codes and rounded factors."""
    halves = 2 if coding == MXFP4 else 1
    codes = np.stack([pe.bytes(w + k // halves * k_stride, N) for k in range(K)])
    nibbles = np.where(np.arange(K)[:, None] % 2, codes >> 4, codes & 0xF)
    values = e2m1(nibbles) if coding == MXFP4 else e4m3(codes)
    of_row = pe.round_to("act", of_group[pe.bytes(groups, K)])
    return pe.round_to("act", values * of_row)


def _sums(pe: Pe, x: int, weights: F32, total: F32) -> F32:
    """total[N] += act[K] @ weights[K, N], k by k."""
    for value, row in zip(pe.read("act", x, len(weights)), weights, strict=True):
        total = pe.round_to("acc", total + value * row)
    return total
