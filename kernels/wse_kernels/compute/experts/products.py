"""Kernels that multiply tokens by the weights of the experts that were selected for them.

Weights are ``[K, local_experts, N]``, or codes of this shape with scales. Since a token's sum
contains products with several experts, which have different scales, codes are multiplied by their
scales as they are unpacked. A PE would unpack a few rows at a time into scratch buffers. The
compiled kernels unpack them in registers.
"""

from __future__ import annotations

from wse_kernels.compute.experts._pair_products import (
    Views,
    multiply_elements,
    multiply_fp8_blocks,
    multiply_mxfp4,
    multiply_quantised,
    products_of_tokens,
    sums_of_tokens,
)
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
from wse_kernels.operands.group import Place
from wse_kernels.products.codes import FP8_BLOCKS, MXFP4
from wse_kernels.products.tiles import CodeTile


def expert_in(place: Place, act, wgt, acc, f32, at: ExpertTensors, shape: ExpertShape, product: InputProduct):
    """Multiply activations by the input weights of the selected experts, one product per pair.

    A pair is a token and one of its selected experts: out[pair, N] = x[token, K] @ w[expert][K, N].

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
    """
    tile = CodeTile(at.w, 0, 0, 0, shape.K, shape.N, product.k_stride, 0, 0, 0)
    views = Views(acc, act, wgt, wgt, f32)
    products_of_tokens(multiply_elements, place, views, at, shape, product, tile, 0)


def expert_out(place: Place, act, wgt, acc, f32, at: ExpertTensors, shape: ExpertShape, product: OutputProduct):
    """Multiply activations by the selected experts' output weights, and sum the products per token.

    A pair is a token and one of its selected experts. out[token, N] = sum over the token's pairs of
    x[pair, K] @ w[expert][K, N]. It is 0 for a token without pairs.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
    """
    tile = CodeTile(at.w, 0, 0, 0, shape.K, shape.N, shape.local_experts * shape.N, 0, 0, 0)
    views = Views(acc, act, wgt, wgt, f32)
    sums_of_tokens(multiply_elements, place, views, at, shape, product, tile, 0)


def expert_in_quantised(
    place: Place,
    act,
    wgt,
    acc,
    f32,
    raw,
    at: QuantisedExpertTensors,
    shape: ExpertShape,
    product: InputProduct,
    scales: QuantisedScales,
):
    """Multiply activations by the int8, FP8 or int4 input weights of the selected experts.

    A pair is a token and one of its selected experts. Each weight is multiplied by its scale:
    out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, N]), where groups[k] is
    the index of the group of rows, with shared scales, of row k.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32, raw: SRAM in different element types, [block, address, PE of block].
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        scales: Weight format, and the groups of rows that share scales.
    """
    K, N, stride = shape.K, shape.N, product.k_stride
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, scales.G, N)
    views = Views(acc, act, wgt, raw, f32)
    products_of_tokens(multiply_quantised, place, views, at, shape, product, tile, scales.coding)


def expert_in_mxfp4(
    place: Place, act, acc, f32, raw, at: Mxfp4ExpertTensors, shape: ExpertShape, product: InputProduct, G, rows
):
    """Multiply activations by the MXFP4 input weights of the selected experts.

    A pair is a token and one of its selected experts. Each weight is an e2m1 code multiplied by its
    e8m0 scale: out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, N]), where
    groups[k] is the index of the group of rows, with shared scales, of row k.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    K, N, stride = shape.K, shape.N, product.k_stride
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, G, N)
    views = Views(acc, act, raw, raw, f32)
    products_of_tokens(multiply_mxfp4, place, views, at, shape, product, tile, MXFP4)


def expert_in_fp8_blocks(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: BlockScaledExpertTensors,
    shape: ExpertShape,
    product: BlockScaledInputProduct,
    scales: BlockScales,
):
    """Multiply activations by the FP8 input weights, with block scales, of the selected experts.

    A pair is a token and one of its selected experts. Each weight is an e4m3 code multiplied by its
    float32 scale: out[pair, N] = x[token, K] @ (w[expert][K, N] * scale[groups[K], expert, block of
    N]). A scale applies to a group of rows and a block of outputs; groups[k] is the index of the
    group of row k.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights, list of pairs, and products out[P, N].
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Strides, and whether to apply routing weights.
        scales: Groups of rows and blocks of outputs that share scales.
    """
    k_stride, scale_stride = product.k_stride, product.scale_stride
    tile = CodeTile(
        at.w, at.groups, at.widths, at.scale, shape.K, shape.N, k_stride, scale_stride, scales.G, scales.B
    )  # fmt: skip
    views = Views(acc, act, f32, raw, f32)
    products_of_tokens(multiply_fp8_blocks, place, views, at, shape, product, tile, FP8_BLOCKS)


def expert_out_quantised(
    place: Place,
    act,
    wgt,
    acc,
    f32,
    raw,
    at: QuantisedExpertTensors,
    shape: ExpertShape,
    product: OutputProduct,
    scales: QuantisedScales,
):
    """Multiply activations by the experts' int8, FP8 or int4 output weights, and sum per token.

    A pair is a token and one of its selected experts. Each weight is multiplied by its scale:
    out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] * scale[groups[K],
    expert, N]), where groups[k] is the index of the group of rows, with shared scales, of row k.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32, raw: SRAM in different element types, [block, address, PE of block].
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        scales: Weight format, and the groups of rows that share scales.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, scales.G, N)
    views = Views(acc, act, wgt, raw, f32)
    sums_of_tokens(multiply_quantised, place, views, at, shape, product, tile, scales.coding)


def expert_out_mxfp4(
    place: Place, act, acc, f32, raw, at: Mxfp4ExpertTensors, shape: ExpertShape, product: OutputProduct, G, rows
):
    """Multiply activations by the selected experts' MXFP4 output weights, and sum per token.

    A pair is a token and one of its selected experts. Each weight is an e2m1 code multiplied by its
    e8m0 scale: out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] *
    scale[groups[K], expert, N]).

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    K, N, stride = shape.K, shape.N, shape.local_experts * shape.N
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, stride, stride, G, N)
    views = Views(acc, act, raw, raw, f32)
    sums_of_tokens(multiply_mxfp4, place, views, at, shape, product, tile, MXFP4)


def expert_out_fp8_blocks(
    place: Place,
    act,
    acc,
    f32,
    raw,
    at: BlockScaledExpertTensors,
    shape: ExpertShape,
    product: OutputProduct,
    scales: BlockScales,
):
    """Multiply activations by the experts' block-scaled FP8 output weights, and sum per token.

    A pair is a token and one of its selected experts. Each weight is an e4m3 code multiplied by its
    float32 scale: out[token, N] = sum over the token's pairs of x[pair, K] @ (w[expert][K, N] *
    scale[groups[K], expert, block of N]).

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[P, K], weights, list of pairs, and sums out[M, N]. The
            activations are multiplied in place by routing weights if ``product.weighted`` is 1.
        shape: P pairs, M tokens, K inputs, N outputs, and the number of experts in the column.
        product: Settings: ``weighted`` is 1 to multiply x by the routing weights of its pairs.
        scales: Groups of rows and blocks of outputs that share scales.
    """
    k_stride, scale_stride = shape.local_experts * shape.N, shape.local_experts * scales.B
    tile = CodeTile(
        at.w, at.groups, at.widths, at.scale, shape.K, shape.N, k_stride, scale_stride, scales.G, scales.B
    )  # fmt: skip
    views = Views(acc, act, f32, raw, f32)
    sums_of_tokens(multiply_fp8_blocks, place, views, at, shape, product, tile, FP8_BLOCKS)
