"""Oracles of products with weights, with quantised weights, and with experts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wse_kernels.oracle.memory import F32, Pe, e2m1, e4m3, e8m0

INT8, FP8, INT4, MXFP4, FP8_BLOCKS = range(5)
"""Codings by number."""


def matmul(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """Multiply tokens by a weight tile: out[M, N] = x[M, K] @ w[K, N].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, weights and sums (accumulator type).
        M, K, N: Tokens; inputs; outputs.
        k_stride, n_stride, out_stride: Strides of ``w`` along K and N, and of ``out`` along M.
        add: Whether to add to ``out`` instead of overwriting it.
    """
    _product(pe, "wgt", x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def matmul_act(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """Multiply activations by activations: out[M, N] = x[M, K] @ w[K, N].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, of activations, and of sums (accumulator type).
        M, K, N: Rows of ``x``; contracted dimension; columns of ``w``.
        k_stride, n_stride, out_stride: Strides of ``w`` along K and N, and of ``out`` along M.
        add: Whether to add to ``out`` instead of overwriting it.
    """
    _product(pe, "act", x, w, out, M, K, N, k_stride, n_stride, out_stride, add)


def gemv(pe, x, w, out, M, K, N, k_stride, n_stride, out_stride):
    """Multiply tokens by a weight tile: out[M, N] = x[M, K] @ w[K, N], overwriting ``out``.

    Reference for the kernel of the same name, on a single PE. It equals `matmul`, because the order
    of the sums does not depend on how many tokens are computed together.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, weights and sums (accumulator type).
        M, K, N: Tokens; inputs; outputs.
        k_stride, n_stride, out_stride: Strides of ``w`` along K and N, and of ``out`` along M.
    """
    _product(pe, "wgt", x, w, out, M, K, N, k_stride, n_stride, out_stride, 0)


def _product(pe, right, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """Multiply activations by elements of the view ``right``, with the operands of `matmul`."""
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
    """Multiply activations by int8 codes: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, out: Addresses of activations, codes, scales (weight type) and sums.
        M, K, N: Tokens; inputs; outputs.
        codes, rows: Unused. Scratch buffer of the PE, and its number of rows.
    """
    values = pe.bytes(w, K * N).view(np.int8).astype(np.float32)
    _one_scale(pe, values.reshape(K, N), x, scale, out, M)


def matmul_fp8(pe, x, w, scale, codes, out, M, K, N, rows):
    """Multiply activations by FP8 codes: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, out: Addresses of activations, e4m3 codes, scales (weight type) and sums.
        M, K, N: Tokens; inputs; outputs.
        codes, rows: Unused. Scratch buffer of the PE, and its number of rows.
    """
    _one_scale(pe, e4m3(pe.bytes(w, K * N)).reshape(K, N), x, scale, out, M)


def matmul_int4(pe, x, w, groups, scale, codes, out, M, K, N, G, rows):
    """Multiply activations by int4 codes: out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, int4 codes and sums.
        groups, scale: Addresses of the scale group of each row, a byte, and of the scales [G, N].
        M, K, N, G: Tokens; inputs; outputs; groups of rows.
        codes, rows: Unused. Scratch buffer of the PE, and its number of rows.
    """
    weights = _unpack(pe, w, groups, scale, K, N, N, INT4, G)
    for m in range(M):
        pe.write("acc", out + m * N, _sums(pe, x + m * K, weights, np.zeros(N, np.float32)))


def matmul_mxfp4(pe, x, w, groups, scale, factors, codes, out, M, K, N, G, rows):
    """Multiply activations by MXFP4 codes: out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, e2m1 codes and sums.
        groups, scale: Addresses of the scale group of each row, a byte, and of the e8m0 scales
            [G, N].
        M, K, N, G: Tokens; inputs; outputs; groups of rows.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """
    group_factors = _powers(pe, scale, N, N, G)
    _with_factors(pe, MXFP4, group_factors, x, w, groups, out, M, K, N)


def matmul_fp8_blocks(pe, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, rows):
    """Multiply activations by FP8 codes with block scales, rounded to the activation type.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], block of N]). Reference for the kernel of the
    same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations, e4m3 codes and sums.
        groups, widths: Addresses of bytes: scale group of each row, and number of outputs in each
            block.
        scale: Address of the scales [G, B].
        M, K, N, G, B: Tokens; inputs; outputs; groups of rows; blocks of outputs.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """
    group_factors = _block_factors(pe, scale, B, widths, N, G, B)
    _with_factors(pe, FP8_BLOCKS, group_factors, x, w, groups, out, M, K, N)


def _with_factors(
    pe: Pe, coding: int, group_factors: F32, x: int, w: int, groups: int, out: int, M: int, K: int, N: int
) -> None:  # fmt: skip
    """Multiply activations by codes times the factors of their group of rows.

    Args:
        pe: PE whose SRAM is read and written.
        coding, group_factors: MXFP4 or FP8_BLOCKS; factors [G, N].
        x, w, groups, out: Addresses of activations, codes, the group of each row, and sums.
        M, K, N: Tokens; inputs; outputs.
    """
    weights = _times_factors(pe, coding, group_factors, w, groups, K, N, N)
    for m in range(M):
        pe.write("acc", out + m * N, _sums(pe, x + m * K, weights, np.zeros(N, np.float32)))


def _one_scale(pe: Pe, values: F32, x: int, scale: int, out: int, M: int) -> None:
    """Multiply activations by decoded codes [K, N], and the sums by one scale per output.

    Args:
        pe: PE whose SRAM is read and written.
        values: Decoded codes.
        x, scale, out, M: Addresses of activations, scales and sums; number of tokens.
    """
    K, N = values.shape
    for m in range(M):
        sums = _sums(pe, x + m * K, values, np.zeros(N, np.float32))
        pe.write("acc", out + m * N, sums * pe.read("wgt", scale, N))


def expert_in(pe, x, w, pairs, out, P, M, K, N, local_experts, k_stride, out_stride, weighted, columns):
    """Multiply tokens by the input weights of the experts selected for them.

    out[pair, N] = x[token, K] @ w[expert][K, N], times the pair's routing weight if ``weighted``.
    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations [M, K], weights [K, local_experts, N] and products.
        pairs: Address of the list of pairs (token, expert, weight) of this column.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        k_stride, out_stride: Strides of ``w`` along K, and of ``out`` along pairs.
        weighted, columns: Whether to apply routing weights; unused number of mesh columns.
    """
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        total = _sums(pe, x + token * K, _rows(pe, w + expert * N, k_stride, K, N), np.zeros(N, np.float32))
        if weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", out + i * out_stride, total)


def expert_out(pe, x, w, pairs, out, P, M, K, N, local_experts, weighted, columns):
    """Multiply pairs by the output weights of their experts, and sum the products of each token.

    out[token, N] = sum over its pairs of x[pair, K] @ w[expert][K, N]. If ``weighted``, each row of
    x is first multiplied in place by its routing weight. Reference for the kernel of the same name,
    on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, out: Addresses of activations [P, K], weights [K, local_experts, N] and sums [M, N].
        pairs: Address of the list of pairs (token, expert, weight) of this column.
        P, M, K, N, local_experts: Maximum pairs; tokens; inputs; outputs; experts of the column.
        weighted, columns: Whether to apply routing weights; unused number of mesh columns.
    """
    pe.write("acc", out, np.zeros(M * N, np.float32))
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        if weighted:
            pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
        weights = _rows(pe, w + expert * N, local_experts * N, K, N)
        pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))


def expert_bias(
    pe, x, bias, pairs, P, M, N, parts, local_experts, stride, by_token, weighted, share, columns, groups, segments
):
    """Add the biases of experts that this PE stores to the sums of their pairs or tokens.

    Biases are added to x[pair, N], or to x[token, N] if ``by_token``, in each of ``parts`` parts.
    If ``weighted``, they are multiplied by the pair's routing weight. Reference for the kernel of
    the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, bias, pairs: Addresses of the sums, of this PE's biases [parts, share], and of the list
            of pairs.
        P, M, N, parts, local_experts: Maximum pairs; tokens; outputs per part; parts; experts.
        stride, share: Elements from one row of ``x`` to the next; biases of a part on one PE.
        by_token, weighted: As above.
        columns, groups, segments: Mesh columns; groups of columns per segment; segments.
    """
    width = columns // segments
    starts = np.cumsum([0, *[width // groups + (g < width % groups) for g in range(groups)]])
    col = pe.col % width
    place = col - starts[np.searchsorted(starts, col, side="right") - 1] if by_token else pe.row
    stored_bias = pe.read("wgt", bias, parts, share)
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        row, scale = x + (token if by_token else i) * stride, weight if weighted else np.float32(1.0)
        index = expert * N + np.arange(N) - place * share
        is_stored = (index >= 0) & (index < share)
        sums = pe.read("acc", row, parts, N)
        sums[:, is_stored] += stored_bias[:, index[is_stored]] * scale
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
    """Compute `expert_in` with int8, FP8 or int4 codes, each multiplied by its scale.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and
            products.
        groups: Address of the scale group of each row, one byte each. Read for int4 only.
        P, M, K, N, local_experts, k_stride, out_stride, weighted, columns: As in `expert_in`.
        coding, G: Number of the coding; groups of rows that share scales.
        codes, rows: Unused. Scratch buffer of the PE, and its number of rows.
    """
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        weights = _unpack(pe, w + expert * N, groups, scale + expert * N, K, N, k_stride, coding, G)
        total = _sums(pe, x + token * K, weights, np.zeros(N, np.float32))
        if weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", out + i * out_stride, total)


def expert_out_quantised(
    pe, x, w, groups, scale, pairs, codes, out, P, M, K, N, local_experts, weighted, columns, coding, G, rows
):
    """Compute `expert_out` with int8, FP8 or int4 codes, each multiplied by its scale.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and sums.
        groups: Address of the scale group of each row, one byte each. Read for int4 only.
        P, M, K, N, local_experts, weighted, columns: As in `expert_out`.
        coding, G: Number of the coding; groups of rows that share scales.
        codes, rows: Unused. Scratch buffer of the PE, and its number of rows.
    """
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
    """Compute `expert_in` with MXFP4 weights: e2m1 codes times e8m0 scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and
            products.
        groups: Address of the scale group of each row, one byte each.
        P, M, K, N, local_experts, k_stride, out_stride, weighted, columns: As in `expert_in`.
        G: Groups of rows that share scales.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """

    def group_factors(expert: int) -> F32:
        """Return the scales [G, N] of an expert."""
        return _powers(pe, scale + expert * N, k_stride, N, G)

    _in_with_factors(
        pe, MXFP4, group_factors, x, w, groups, pairs, out, P, M, K, N, local_experts, k_stride, out_stride, weighted
    )


def expert_in_fp8_blocks(
    pe, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, k_stride, scale_stride, out_stride, weighted, columns, G, B, rows,
):  # fmt: skip
    """Compute `expert_in` with FP8 weights: e4m3 codes times float32 block scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and
            products.
        groups, widths: Addresses of bytes: scale group of each row, and outputs of each block.
        P, M, K, N, local_experts, k_stride, out_stride, weighted, columns: As in `expert_in`.
        scale_stride: Distance between the scales of two groups.
        G, B: Groups of rows and blocks of outputs that share scales.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """

    def group_factors(expert: int) -> F32:
        """Return the scales [G, N] of an expert."""
        return _block_factors(pe, scale + expert * B, scale_stride, widths, N, G, B)

    _in_with_factors(
        pe,
        FP8_BLOCKS,
        group_factors,
        x,
        w,
        groups,
        pairs,
        out,
        P,
        M,
        K,
        N,
        local_experts,
        k_stride,
        out_stride,
        weighted,
    )


def expert_out_mxfp4(
    pe, x, w, groups, scale, factors, pairs, codes, out, P, M, K, N, local_experts, weighted, columns, G, rows
):
    """Compute `expert_out` with MXFP4 weights: e2m1 codes times e8m0 scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and sums.
        groups: Address of the scale group of each row, one byte each.
        P, M, K, N, local_experts, weighted, columns: As in `expert_out`.
        G: Groups of rows that share scales.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """

    def group_factors(expert: int) -> F32:
        """Return the scales [G, N] of an expert."""
        return _powers(pe, scale + expert * N, local_experts * N, N, G)

    _out_with_factors(pe, MXFP4, group_factors, x, w, groups, pairs, out, P, M, K, N, local_experts, weighted)


def expert_out_fp8_blocks(
    pe, x, w, groups, widths, scale, factors, pairs, codes, out,
    P, M, K, N, local_experts, weighted, columns, G, B, rows,
):  # fmt: skip
    """Compute `expert_out` with FP8 weights: e4m3 codes times float32 block scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, w, scale, pairs, out: Addresses of activations, codes, scales, list of pairs and sums.
        groups, widths: Addresses of bytes: scale group of each row, and outputs of each block.
        P, M, K, N, local_experts, weighted, columns: As in `expert_out`.
        G, B: Groups of rows and blocks of outputs that share scales.
        factors, codes, rows: Unused. Scratch buffers of the PE, and their number of rows.
    """

    def group_factors(expert: int) -> F32:
        """Return the scales [G, N] of an expert."""
        return _block_factors(pe, scale + expert * B, local_experts * B, widths, N, G, B)

    _out_with_factors(pe, FP8_BLOCKS, group_factors, x, w, groups, pairs, out, P, M, K, N, local_experts, weighted)


def _in_with_factors(
    pe: Pe, coding: int, group_factors: Callable[[int], F32], x: int, w: int, groups: int, pairs: int,
    out: int, P: int, M: int, K: int, N: int, local_experts: int, k_stride: int, out_stride: int, weighted: int,
) -> None:  # fmt: skip
    """Compute `expert_in` with codes times factors (scales of groups of rows).

    ``group_factors`` returns the factors [G, N] of an expert. The other operands are those of the
    kernel `expert_in`.
    """
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        weights = _times_factors(pe, coding, group_factors(expert), w + expert * N, groups, K, N, k_stride)
        total = _sums(pe, x + token * K, weights, np.zeros(N, np.float32))
        pe.write("acc", out + i * out_stride, pe.round_to("acc", total * weight) if weighted else total)


def _out_with_factors(
    pe: Pe, coding: int, group_factors: Callable[[int], F32], x: int, w: int, groups: int, pairs: int,
    out: int, P: int, M: int, K: int, N: int, local_experts: int, weighted: int,
) -> None:  # fmt: skip
    """Compute `expert_out` with codes times factors (scales of groups of rows).

    ``group_factors`` returns the factors [G, N] of an expert. The other operands are those of the
    kernel `expert_out`.
    """
    pe.write("acc", out, np.zeros(M * N, np.float32))
    stride = local_experts * N
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, P, M, local_experts)):
        if weighted:
            pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
        weights = _times_factors(pe, coding, group_factors(expert), w + expert * N, groups, K, N, stride)
        pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))


def _pair_list(pe: Pe, pairs: int, P: int, M: int, local_experts: int) -> list[tuple[int, int, np.float32]]:
    """Return (token, expert, weight) for each pair in a list, with indices kept in range.

    Args:
        pe, pairs: PE whose SRAM is read; address of the list.
        P, M, local_experts: Maximum number of pairs; tokens; experts of the column.
    """
    count = min(int(pe.read("f32", pairs, 1)[0]), P)
    rows = pe.read("f32", pairs + 1, max(count, 0), 3)
    return [(min(max(int(t), 0), M - 1), min(max(int(e), 0), local_experts - 1), weight) for t, e, weight in rows]


def _rows(pe: Pe, w: int, k_stride: int, K: int, N: int) -> F32:
    """Return the weights [K, N] at address ``w``, whose rows are ``k_stride`` elements apart."""
    return np.stack([pe.read("wgt", w + k * k_stride, N) for k in range(K)])


def _unpack(pe: Pe, w: int, groups: int, scale: int, K: int, N: int, k_stride: int, coding: int, G: int) -> F32:
    """Return weights [K, N], decoded from codes, times their scales and rounded to activations.

    Args:
        pe: PE whose SRAM is read.
        w, groups, scale: Addresses of codes, of the group of each row (int4 only), and of scales.
        K, N, G: Rows; outputs; groups of rows.
        k_stride: Distance between two rows, of codes or scales.
        coding: INT8, FP8 or INT4.
    """
    halves = 2 if coding == INT4 else 1
    codes = np.stack([pe.bytes(w + k // halves * k_stride, N) for k in range(K)])
    scales = np.stack([pe.read("wgt", scale + g * k_stride, N) for g in range(G)])
    row_groups = np.zeros(K, np.int64)
    if coding == INT8:
        values = codes.view(np.int8).astype(np.float32)
    elif coding == FP8:
        values = e4m3(codes)
    else:
        row_groups = pe.bytes(groups, K).astype(np.int64)
        nibbles = np.where(np.arange(K)[:, None] % 2, codes >> 4, codes & 0xF).astype(np.float32)
        values = np.where(nibbles > 7, nibbles - 16, nibbles)
    return pe.round_to("act", values * scales[row_groups])


def _powers(pe: Pe, scale: int, stride: int, N: int, G: int) -> F32:
    """Return the e8m0 scales [G, N] at address ``scale``, whose rows are ``stride`` bytes apart."""
    return np.stack([e8m0(pe.bytes(scale + g * stride, N)) for g in range(G)])


def _block_factors(pe: Pe, scale: int, stride: int, widths: int, N: int, G: int, B: int) -> F32:
    """Return float32 scales [G, N], in which each of B scales is repeated for its block.

    Args:
        pe: PE whose SRAM is read.
        scale, stride: Address of the scales, and distance between the scales of two groups.
        widths: Address of the number of outputs in each block, one byte each.
        N, G, B: Outputs; groups of rows; blocks of outputs.
    """
    width = pe.bytes(widths, B).astype(np.int64)
    return np.stack([np.repeat(pe.read("f32", scale + g * stride, B), width)[:N] for g in range(G)])


def _times_factors(pe: Pe, coding: int, group_factors: F32, w: int, groups: int, K: int, N: int, k_stride: int) -> F32:
    """Return weights [K, N], decoded from codes, times rounded factors, and rounded to activations.

    Args:
        pe: PE whose SRAM is read.
        coding: MXFP4 or FP8_BLOCKS.
        group_factors: Factors [G, N].
        w, groups: Addresses of the codes, and of the group of each row.
        K, N, k_stride: Rows; outputs; distance between two rows of codes.
    """
    halves = 2 if coding == MXFP4 else 1
    codes = np.stack([pe.bytes(w + k // halves * k_stride, N) for k in range(K)])
    nibbles = np.where(np.arange(K)[:, None] % 2, codes >> 4, codes & 0xF)
    values = e2m1(nibbles) if coding == MXFP4 else e4m3(codes)
    row_factors = pe.round_to("act", group_factors[pe.bytes(groups, K)])
    return pe.round_to("act", values * row_factors)


def _sums(pe: Pe, x: int, weights: F32, total: F32) -> F32:
    """Return total[N] + x[K] @ weights[K, N], added in ascending order of K with rounding.

    ``x`` is the address of the activations. Sums are rounded to the accumulator type after each
    term.
    """
    for value, row in zip(pe.read("act", x, len(weights)), weights, strict=True):
        total = pe.round_to("acc", total + value * row)
    return total
