"""Oracles of products with the experts that were selected for each token."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.experts import (
    BlockScaledExpertTensors,
    BlockScaledInputProduct,
    BlockScales,
    ExpertShape,
    ExpertTensors,
    InputProduct,
    Mxfp4ExpertTensors,
    OutputProduct,
    QuantisedExpertTensors,
    QuantisedScales,
)
from wse_kernels.oracle.experts.column import pairs_of_column
from wse_kernels.oracle.memory import F32, Pe, sums_of_products
from wse_kernels.oracle.quantised_weights import (
    FP8_BLOCKS,
    MXFP4,
    block_factors,
    powers_of_two,
    scaled_codes,
    times_factors,
)


def expert_in(pe, at: ExpertTensors, shape: ExpertShape, product: InputProduct):
    """Multiply activations by the input weights of the selected experts, one product per pair.

    A pair is a token and one of its selected experts. out[pair, N] = x[token, K] @ w[expert][K, N],
    multiplied by the pair's routing weight if ``product.weighted`` is 1. This NumPy reference for
    one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
    """
    K, N = shape.K, shape.N
    _products(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, product.k_stride, K, N))


def expert_out(pe, at: ExpertTensors, shape: ExpertShape, product: OutputProduct):
    """Multiply activations by the selected experts' output weights, and sum the products per token.

    A pair is a token and one of its selected experts. out[token, N] = sum over the token's pairs of
    x[pair, K] @ w[expert][K, N]. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    _sums_of_tokens(pe, at, shape, product, lambda expert: _rows(pe, at.w + expert * N, stride, K, N))


def expert_in_quantised(
    pe, at: QuantisedExpertTensors, shape: ExpertShape, product: InputProduct, scales: QuantisedScales
):
    """Multiply activations by the int8, FP8 or int4 input weights of the selected experts.

    There is one product per (token, selected expert) pair, and each weight is multiplied by its
    scale. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        scales: Weight format, and the groups of rows that share scales.
    """
    _products(pe, at, shape, product, _quantised(pe, at, shape, product.k_stride, scales))


def expert_in_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: InputProduct, G, rows):
    """Multiply activations by the MXFP4 input weights of the selected experts.

    There is one product per (token, selected expert) pair. Weights are e2m1 codes multiplied by
    e8m0 scales. This NumPy reference for one PE is used to test the compiled kernel of the same
    name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _products(pe, at, shape, product, _mxfp4(pe, at, shape, product.k_stride, G))


def expert_in_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: BlockScaledInputProduct, scales: BlockScales
):
    """Multiply activations by the block-scaled FP8 input weights of the selected experts.

    There is one product per (token, selected expert) pair. Weights are e4m3 codes multiplied by
    float32 scales. This NumPy reference for one PE is used to test the compiled kernel of the same
    name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        scales: Groups of rows and blocks of outputs that share scales.
    """
    strides = product.k_stride, product.scale_stride
    _products(pe, at, shape, product, _fp8_blocks(pe, at, shape, strides, scales))


def expert_out_quantised(
    pe, at: QuantisedExpertTensors, shape: ExpertShape, product: OutputProduct, scales: QuantisedScales
):
    """Multiply activations by the experts' int8, FP8 or int4 output weights, and sum per token.

    Each weight is multiplied by its scale. This NumPy reference for one PE is used to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P (token, expert) pairs, M tokens, K inputs, N outputs, and the number of experts in
            the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        scales: Weight format, and the groups of rows that share scales.
    """
    _sums_of_tokens(pe, at, shape, product, _quantised(pe, at, shape, shape.local_experts * shape.N, scales))


def expert_out_mxfp4(pe, at: Mxfp4ExpertTensors, shape: ExpertShape, product: OutputProduct, G, rows):
    """Multiply activations by the selected experts' MXFP4 output weights, and sum per token.

    Weights are e2m1 codes multiplied by e8m0 scales. This NumPy reference for one PE is used to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P (token, expert) pairs, M tokens, K inputs, N outputs, and the number of experts in
            the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _sums_of_tokens(pe, at, shape, product, _mxfp4(pe, at, shape, shape.local_experts * shape.N, G))


def expert_out_fp8_blocks(
    pe, at: BlockScaledExpertTensors, shape: ExpertShape, product: OutputProduct, scales: BlockScales
):
    """Multiply activations by the experts' block-scaled FP8 output weights, and sum per token.

    Weights are e4m3 codes multiplied by float32 scales. This NumPy reference for one PE is used to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P (token, expert) pairs, M tokens, K inputs, N outputs, and the number of experts in
            the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        scales: Groups of rows and blocks of outputs that share scales.
    """
    strides = shape.local_experts * shape.N, shape.local_experts * scales.B
    _sums_of_tokens(pe, at, shape, product, _fp8_blocks(pe, at, shape, strides, scales))


def _products(pe, at, shape, product, weights_of):
    """Multiply a token's activations by an expert's weights, for each (token, expert) pair.

    Each pair gets its own row of results. If ``product.weighted`` is 1, the results are multiplied
    by the routing weight of the pair.

    Args:
        pe: PE whose SRAM is read and written.
        at, shape, product: Operands of the calling kernel: addresses, sizes and settings.
        weights_of: Function that returns the weights [K, N] of an expert, given its index in the
            column.
    """
    for i, (token, expert, weight) in enumerate(pairs_of_column(pe, at.pairs, shape)):
        total = sums_of_products(pe, at.x + token * shape.K, weights_of(expert), np.zeros(shape.N, np.float32))
        if product.weighted:
            total = pe.round_to("acc", total * weight)
        pe.write("acc", at.out + i * product.out_stride, total)


def _sums_of_tokens(pe, at, shape, product, weights_of):
    """For each token, sum the products of its activations and the weights of its experts.

    Each (token, expert) pair in the list has its own activations.

    Args:
        pe: PE whose SRAM is read and written.
        at, shape, product: Operands of the calling kernel: addresses, sizes and settings.
        weights_of: Function that returns the weights [K, N] of an expert, given its index in the
            column.
    """
    K, N = shape.K, shape.N
    pe.write("acc", at.out, np.zeros(shape.M * N, np.float32))
    for i, (token, expert, weight) in enumerate(pairs_of_column(pe, at.pairs, shape)):
        x, out = at.x + i * K, at.out + token * N
        if product.weighted:
            pe.write("act", x, pe.read("act", x, K) * weight)
        pe.write("acc", out, sums_of_products(pe, x, weights_of(expert), pe.read("acc", out, N)))


def _quantised(pe, at, shape, stride, scales):
    """Return a function that computes an expert's dequantised int8, FP8 or int4 weights.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        stride: Distance between two rows of quantised weights, and between two rows of scales.
        scales: Weight format, and number of groups of rows that share scales.
    """
    K, N, (coding, G, _) = shape.K, shape.N, scales

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of the expert with this index in the column."""
        return scaled_codes(
            pe, coding, (at.w + expert * N, stride), (at.scale + expert * N, stride), at.groups, (K, N, G)
        )

    return weights_of


def _mxfp4(pe, at, shape, stride, G):
    """Return a function that computes an expert's dequantised MXFP4 weights.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        stride: Distance between two rows of quantised weights, and between two rows of scales.
        G: Number of groups of rows that share scales.
    """
    K, N = shape.K, shape.N

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of the expert with this index in the column."""
        factors = powers_of_two(pe, at.scale + expert * N, stride, N, G)
        return times_factors(pe, MXFP4, factors, at.w + expert * N, at.groups, K, stride)

    return weights_of


def _fp8_blocks(pe, at, shape, strides, scales):
    """Return a function that computes an expert's dequantised, block-scaled FP8 weights.

    Args:
        pe: PE whose SRAM is read.
        at, shape: Addresses and sizes of the calling kernel's operands.
        strides: Distance between two rows of quantised weights, and between two rows of scales.
        scales: Number of groups of rows, and of blocks of outputs, that share a scale.
    """
    K, N, (G, B, _), (k_stride, scale_stride) = shape.K, shape.N, scales, strides

    def weights_of(expert: int) -> F32:
        """Return the dequantised weights [K, N] of the expert with this index in the column."""
        factors = block_factors(pe, at.scale + expert * B, scale_stride, at.widths, N, G, B)
        return times_factors(pe, FP8_BLOCKS, factors, at.w + expert * N, at.groups, K, k_stride)

    return weights_of


def _rows(pe: Pe, w: int, k_stride: int, K: int, N: int) -> F32:
    """Read the weights [K, N] at address ``w``, with ``k_stride`` elements from row to row."""
    return np.stack([pe.read("wgt", w + k * k_stride, N) for k in range(K)])
