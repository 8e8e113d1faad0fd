"""Oracles of products with the experts that were selected for each token."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.experts import (
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
    """List the (token, selected expert) pairs whose expert is stored in this column of PEs.

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the count, then (token, expert, weight) for each pair.
        M, A, P: Tokens; experts per token; maximum number of pairs in the list.
        experts: Number of experts of the layer.
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
    """Divide ``total`` items into parts whose sizes differ by at most one, and return their starts.

    The larger parts come first. The end of the last part follows the starts.
    """
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    return np.concatenate([[0], np.cumsum(sizes)])


def expert_in(pe, at: ExpertTensors, shape: ExpertShape, product: InputProduct):
    """Multiply activations by the input weights of the selected experts, one product per pair.

    A pair is a token and one of its selected experts. out[pair, N] = x[token, K] @ w[expert][K, N],
    times the pair's routing weight if ``product.weighted`` is 1. This NumPy reference for one PE
    serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
    """
    K, N = shape.K, shape.N
    _products(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, product.k_stride, K, N))


def expert_out(pe, at: ExpertTensors, shape: ExpertShape, product: OutputProduct):
    """Multiply by the output weights of the selected experts, and sum the products of each token.

    A pair is a token and one of its selected experts. out[token, N] = sum over the token's pairs of
    x[pair, K] @ w[expert][K, N]. This NumPy reference for one PE serves to test the compiled kernel
    of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    _sums_of_tokens(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, stride, K, N))


def expert_in_quantised(
    pe, at: QuantisedExpertTensors, shape: ExpertShape, product: InputProduct, scales: QuantisedScales
):
    """Multiply activations by the int8, FP8 or int4 input weights of the selected experts.

    There is one product per (token, selected expert) pair, and each weight is multiplied by its
    scale. This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        scales: Format of the weights, and groups of rows that share scales.
    """
    _products(pe, at, shape, product, _quantised(pe, at, shape, product.k_stride, scales))


def expert_in_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: InputProduct, G, rows):
    """Multiply activations by the MXFP4 input weights of the selected experts.

    There is one product per (token, selected expert) pair. Weights are e2m1 codes times e8m0
    scales. This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and experts of the column.
        product: Strides, and whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Rows of the scratch buffer that a real PE needs.
    """
    _products(pe, at, shape, product, _mxfp4(pe, at, shape, product.k_stride, G))


def expert_in_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: BlockScaledInputProduct, scales: BlockScales
):
    """Multiply activations by the block-scaled FP8 input weights of the selected experts.

    There is one product per (token, selected expert) pair. Weights are e4m3 codes times float32
    scales. This NumPy reference for one PE serves to test the compiled kernel of the same name.

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
    """Multiply by the int8, FP8 or int4 output weights of the selected experts, and sum per token.

    Each weight is multiplied by its scale. This NumPy reference for one PE serves to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs (token, expert), M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Format of the weights, and groups of rows that share scales.
    """
    _sums_of_tokens(pe, at, shape, product, _quantised(pe, at, shape, shape.local_experts * shape.N, scales))


def expert_out_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: OutputProduct, G, rows):
    """Multiply by the MXFP4 output weights of the selected experts, and sum per token.

    Weights are e2m1 codes times e8m0 scales. This NumPy reference for one PE serves to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs (token, expert), M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Rows of the scratch buffer that a real PE needs.
    """
    _sums_of_tokens(pe, at, shape, product, _mxfp4(pe, at, shape, shape.local_experts * shape.N, G))


def expert_out_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: OutputProduct, scales: BlockScales
):
    """Multiply by the block-scaled FP8 output weights of the selected experts, and sum per token.

    Weights are e4m3 codes times float32 scales. This NumPy reference for one PE serves to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs (token, expert), M tokens, K inputs, N outputs, and experts of the column.
        product: Whether to apply routing weights.
        scales: Groups of rows, and blocks of outputs, that share scales.
    """
    strides = shape.local_experts * shape.N, shape.local_experts * scales.B
    _sums_of_tokens(pe, at, shape, product, _fp8_blocks(pe, at, shape, strides, scales))


def expert_bias(pe, at: ExpertBiasTensors, shape: ExpertBiasShape, by_token, weighted, share, division: ColumnGroups):
    """Add the biases of selected experts that this PE stores to the sums of pairs or tokens.

    A pair is a token and one of its selected experts. Biases are added to x[pair, N], or to
    x[token, N] if ``by_token``, in each part of the outputs (gate and up, for example). If
    ``weighted``, they are multiplied by the pair's routing weight. This NumPy reference for one PE
    serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of sums, biases and pairs.
        shape: P pairs, M tokens, N outputs in each part, parts, and experts of the column.
        by_token: 1 to add to the sums of tokens, 0 to add to the sums of pairs.
        weighted: 1 to multiply biases by routing weights, else 0.
        share: Number of biases of a part on one PE.
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
    """Multiply the token of each (token, expert) pair by the expert's weights, a row per pair.

    Args:
        pe: PE whose SRAM is read and written.
        at, shape, product: Operands of the calling kernel: addresses, sizes and settings.
        weights_of: Function that returns the weights [K, N] of an expert, given its index in the
            column.
    """
    for i, (token, expert, weight) in enumerate(_pair_list(pe, at.pairs, shape)):
        total = sums_of_products(pe, at.x + token * shape.K, weights_of(expert), np.zeros(shape.N, np.float32))
        if product.weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", at.out + i * product.out_stride, total)


def _sums_of_tokens(pe, at, shape, product, weights_of):
    """Sum, for each token, the products of its activations with the weights of its experts.

    Each (token, expert) pair in the list has activations of its own.

    Args:
        pe: PE whose SRAM is read and written.
        at, shape, product: Operands of the calling kernel: addresses, sizes and settings.
        weights_of: Function that returns the weights [K, N] of an expert, given its index in the
            column.
    """
    K, N = shape.K, shape.N
    pe.write("acc", at.out, np.zeros(shape.M * N, np.float32))
    for i, (token, expert, weight) in enumerate(_pair_list(pe, at.pairs, shape)):
        x, out = at.x + i * K, at.out + token * N
        if product.weighted:
            pe.write("act", x, pe.read("act", x, K) * weight)
        pe.write("acc", out, sums_of_products(pe, x, weights_of(expert), pe.read("acc", out, N)))


def _quantised(pe, at, shape, stride, scales):
    """Return a function that returns the dequantised int8, FP8 or int4 weights of an expert.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        stride: Distance between two rows of quantised weights, and between two rows of scales.
        scales: Weight format, and number of groups of rows that share scales.
    """
    K, N, (coding, G, _) = shape.K, shape.N, scales

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of an expert."""
        return scaled_codes(
            pe, coding, (at.w + expert * N, stride), (at.scale + expert * N, stride), at.groups, (K, N, G)
        )

    return weights_of


def _mxfp4(pe, at, shape, stride, G):
    """Return a function that returns the dequantised MXFP4 weights of an expert.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        stride: Distance between two rows of quantised weights, and between two rows of scales.
        G: Number of groups of rows that share scales.
    """
    K, N = shape.K, shape.N

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of an expert."""
        factors = powers_of_two(pe, at.scale + expert * N, stride, N, G)
        return times_factors(pe, MXFP4, factors, at.w + expert * N, at.groups, K, stride)

    return weights_of


def _fp8_blocks(pe, at, shape, strides, scales):
    """Return a function that returns the dequantised, block-scaled FP8 weights of an expert.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        strides: Distance between two rows of quantised weights, and between two rows of scales.
        scales: Number of groups of rows, and of blocks of outputs, that share a scale.
    """
    K, N, (G, B, _), (k_stride, scale_stride) = shape.K, shape.N, scales, strides

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of an expert."""
        factors = block_factors(pe, at.scale + expert * B, scale_stride, at.widths, N, G, B)
        return times_factors(pe, FP8_BLOCKS, factors, at.w + expert * N, at.groups, K, k_stride)

    return weights_of


def _pair_list(pe, pairs, shape):
    """Return the (token, expert, routing weight) triples in a PE's list of pairs.

    Token and expert indices are limited to the valid range.

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
