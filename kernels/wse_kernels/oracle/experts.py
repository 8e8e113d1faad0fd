"""Oracles of products with the experts that were selected for each token."""

from __future__ import annotations

import numpy as np

from wse_kernels._expert_operands import (
    BlockScaledExpertTensors,
    BlockScaledInputProduct,
    BlockScales,
    ColumnGroups,
    ExpertBiasShape,
    ExpertBiasTensors,
    ExpertShape,
    ExpertTensors,
    InputProduct,
    Mxfp4ExpertTensors,
    OutputProduct,
    QuantisedExpertTensors,
    QuantisedScales,
)
from wse_kernels.oracle.memory import (
    F32,
    FP8_BLOCKS,
    I64,
    MXFP4,
    Pe,
    block_factors,
    powers_of_two,
    scaled_codes,
    sums_of_products,
    times_factors,
)


def expert_pairs(pe, ids, weights, pairs, M, A, P, experts, division: ColumnGroups):
    """Write the list of the pairs (token, expert) whose expert is stored in this PE's column.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the count, then (token, expert, weight) for each pair.
        M, A, P: Tokens; experts per token; maximum number of pairs in the list.
        experts: Experts of the layer.
        division: Groups of columns that store different experts.
    """
    columns, groups, segments = division
    segment, col = divmod(pe.col, int(columns // segments))
    group = int(np.searchsorted(_starts(columns // segments, groups), col, side="right")) - 1
    segment_start, segment_end = _starts(experts, segments)[segment : segment + 2]
    first, end = segment_start + _starts(segment_end - segment_start, groups)[group : group + 2]
    chosen_ids, weight = pe.read("f32", ids, M * A), pe.read("f32", weights, M * A)
    in_column = [p for p in range(M * A) if first <= int(chosen_ids[p]) < end][:P]
    pe.write("f32", pairs, np.array([len(in_column)], np.float32))
    for i, p in enumerate(in_column):
        pe.write("f32", pairs + 1 + 3 * i, np.array([p // A, chosen_ids[p] - first, weight[p]], np.float32))


def _starts(total: int, parts: int) -> I64:
    """Divide ``total`` items into parts whose sizes differ by at most one, the larger parts first.

    Returns:
        Start of each part, and the end of the last part.
    """
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    return np.concatenate([[0], np.cumsum(sizes)])


def expert_in(pe, at: ExpertTensors, shape: ExpertShape, product: InputProduct):
    """Multiply tokens by the input weights of the experts selected for them.

    out[pair, N] = x[token, K] @ w[expert][K, N], times the pair's routing weight if ``product``
    says so. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
    """
    K, N = shape.K, shape.N
    _products(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, product.k_stride, K, N))


def expert_out(pe, at: ExpertTensors, shape: ExpertShape, product: OutputProduct):
    """Multiply pairs by the output weights of their experts, and sum the products of each token.

    out[token, N] = sum over its pairs of x[pair, K] @ w[expert][K, N]. If ``product`` says so, each
    row of x is first multiplied in place by its routing weight. Reference for the kernel of the
    same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product`` says so.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    _sums_of_tokens(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, stride, K, N))


def expert_in_quantised(
    pe, at: QuantisedExpertTensors, shape: ExpertShape, product: InputProduct, scales: QuantisedScales
):
    """Compute `expert_in` with int8, FP8 or int4 codes, each multiplied by its scale.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        scales: Coding, and groups of rows that share scales.
    """
    _products(pe, at, shape, product, _quantised(pe, at, shape, product.k_stride, scales))


def expert_in_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: InputProduct, G, rows):
    """Compute `expert_in` with MXFP4 weights: e2m1 codes times e8m0 scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        G: Groups of rows that share scales.
        rows: Unused here. Rows of the PE's scratch buffer.
    """
    _products(pe, at, shape, product, _mxfp4(pe, at, shape, product.k_stride, G))


def expert_in_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: BlockScaledInputProduct, scales: BlockScales
):
    """Compute `expert_in` with FP8 weights: e4m3 codes times float32 block scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        scales: Groups of rows, and blocks of outputs, that share scales.
    """
    strides = product.k_stride, product.scale_stride
    _products(pe, at, shape, product, _fp8_blocks(pe, at, shape, strides, scales))


def expert_out_quantised(
    pe, at: QuantisedExpertTensors, shape: ExpertShape, product: OutputProduct, scales: QuantisedScales
):
    """Compute `expert_out` with int8, FP8 or int4 codes, each multiplied by its scale.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product`` says so.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Coding, and groups of rows that share scales.
    """
    _sums_of_tokens(pe, at, shape, product, _quantised(pe, at, shape, shape.local_experts * shape.N, scales))


def expert_out_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: OutputProduct, G, rows):
    """Compute `expert_out` with MXFP4 weights: e2m1 codes times e8m0 scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product`` says so.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        G: Groups of rows that share scales.
        rows: Unused here. Rows of the PE's scratch buffer.
    """
    _sums_of_tokens(pe, at, shape, product, _mxfp4(pe, at, shape, shape.local_experts * shape.N, G))


def expert_out_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: OutputProduct, scales: BlockScales
):
    """Compute `expert_out` with FP8 weights: e4m3 codes times float32 block scales.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product`` says so.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Groups of rows, and blocks of outputs, that share scales.
    """
    strides = shape.local_experts * shape.N, shape.local_experts * scales.B
    _sums_of_tokens(pe, at, shape, product, _fp8_blocks(pe, at, shape, strides, scales))


def expert_bias(pe, at: ExpertBiasTensors, shape: ExpertBiasShape, by_token, weighted, share, division: ColumnGroups):
    """Add the biases of experts that this PE stores to the sums of their pairs or tokens.

    Biases are added to x[pair, N], or to x[token, N] if ``by_token``, in each of ``parts`` parts.
    If ``weighted``, they are multiplied by the pair's routing weight. Reference for the kernel of
    the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of sums, biases and pairs.
        shape: P pairs, M tokens, N outputs in each part, parts, and experts of the column.
        by_token: 1 to add to the sums of tokens, 0 to add to those of pairs.
        weighted: 1 to multiply biases by routing weights, else 0.
        share: Biases of a part on one PE.
        division: Groups of columns that store different experts.
    """
    x, bias, pairs = at
    N, parts, stride = shape.N, shape.parts, shape.stride
    columns, groups, segments = division
    width = columns // segments
    starts = np.cumsum([0, *[width // groups + (g < width % groups) for g in range(groups)]])
    col = pe.col % width
    place = col - starts[np.searchsorted(starts, col, side="right") - 1] if by_token else pe.row
    stored_bias = pe.read("wgt", bias, parts, share)
    for i, (token, expert, weight) in enumerate(_pair_list(pe, pairs, shape)):
        row, scale = x + (token if by_token else i) * stride, weight if weighted else np.float32(1.0)
        index = expert * N + np.arange(N) - place * share
        is_stored = (index >= 0) & (index < share)
        sums = pe.read("acc", row, parts, N)
        sums[:, is_stored] += stored_bias[:, index[is_stored]] * scale
        pe.write("acc", row, sums)


def _products(pe, at, shape, product, weights_of):
    """Compute the product of each pair's token with its expert, a row of ``out`` for each pair.

    Args:
        pe, at, shape, product: Operands of the kernels.
        weights_of: Function that returns the weights [K, N] of an expert.
    """
    for i, (token, expert, weight) in enumerate(_pair_list(pe, at.pairs, shape)):
        total = sums_of_products(pe, at.x + token * shape.K, weights_of(expert), np.zeros(shape.N, np.float32))
        if product.weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", at.out + i * product.out_stride, total)


def _sums_of_tokens(pe, at, shape, product, weights_of):
    """Compute for each token the sum of the products of its pairs with their experts.

    The arguments are those of `_products`.
    """
    K, N = shape.K, shape.N
    pe.write("acc", at.out, np.zeros(shape.M * N, np.float32))
    for i, (token, expert, weight) in enumerate(_pair_list(pe, at.pairs, shape)):
        x, out = at.x + i * K, at.out + token * N
        if product.weighted:
            pe.write("act", x, pe.read("act", x, K) * weight)
        pe.write("acc", out, sums_of_products(pe, x, weights_of(expert), pe.read("acc", out, N)))


def _quantised(pe, at, shape, stride, scales):
    """Return a function that decodes the int8, FP8 or int4 weights [K, N] of an expert.

    ``stride`` is the distance between two rows, of codes or scales.
    """
    K, N, (coding, G, _) = shape.K, shape.N, scales

    def weights_of(expert: int) -> F32:
        """Return the weights [K, N] of an expert."""
        return scaled_codes(
            pe, coding, (at.w + expert * N, stride), (at.scale + expert * N, stride), at.groups, (K, N, G)
        )

    return weights_of


def _mxfp4(pe, at, shape, stride, G):
    """Return a function that decodes the MXFP4 weights [K, N] of an expert.

    ``stride`` is the distance between two rows, of codes or scales.
    """
    K, N = shape.K, shape.N

    def weights_of(expert: int) -> F32:
        """Return the weights [K, N] of an expert."""
        factors = powers_of_two(pe, at.scale + expert * N, stride, N, G)
        return times_factors(pe, MXFP4, factors, at.w + expert * N, at.groups, K, stride)

    return weights_of


def _fp8_blocks(pe, at, shape, strides, scales):
    """Return a function that decodes the FP8 weights [K, N] of an expert with block scales.

    ``strides`` are the distances between two rows of codes, and between two rows of scales.
    """
    K, N, (G, B, _), (k_stride, scale_stride) = shape.K, shape.N, scales, strides

    def weights_of(expert: int) -> F32:
        """Return the weights [K, N] of an expert."""
        factors = block_factors(pe, at.scale + expert * B, scale_stride, at.widths, N, G, B)
        return times_factors(pe, FP8_BLOCKS, factors, at.w + expert * N, at.groups, K, k_stride)

    return weights_of


def _pair_list(pe, pairs, shape):
    """Return (token, expert, weight) for each pair in a list, with indices kept in range.

    Args:
        pe, pairs: PE whose SRAM is read; address of the list.
        shape: Maximum number of pairs, tokens, and experts of the column.
    """
    count = min(int(pe.read("f32", pairs, 1)[0]), shape.P)
    rows = pe.read("f32", pairs + 1, max(count, 0), 3)
    last_token, last_expert = shape.M - 1, shape.local_experts - 1
    return [(min(max(int(t), 0), last_token), min(max(int(e), 0), last_expert), weight) for t, e, weight in rows]


def _rows(pe: Pe, w: int, k_stride: int, K: int, N: int) -> F32:
    """Return the weights [K, N] at address ``w``, whose rows are ``k_stride`` elements apart."""
    return np.stack([pe.read("wgt", w + k * k_stride, N) for k in range(K)])
