"""Compute kernels that multiply activations by the weight tile of a PE, quantised or not.

The same kernels serve MeshGEMV, MeshGEMM and dist-GEMM-T. The right operand contains weights or
activations.

Quantised weights are unpacked in registers. There are two cases:

- One scale per output (int8, fp8). Every code is exact in each activation type, so the sums are
  those of activations times codes. Each sum is multiplied by its scale at the end.
- One scale per group of inputs (int4, mxfp4, fp8 blocks). Groups begin and end at different rows on
  every PE, so each code is multiplied by its scale as it is unpacked. Scales, and codes times
  scales, are rounded to the activation type.

A PE would unpack a few rows of codes at a time into scratch buffers. The compiled kernels leave
these buffers alone, and no other kernel reads their contents.
"""

from __future__ import annotations

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.products import (
    BlockScaledTensors,
    CodedTensors,
    Int4Tensors,
    Mxfp4Tensors,
    ProductShape,
    ProductStrides,
)
from wse_kernels.products.chunk_product import multiply_chunk
from wse_kernels.products.code_product import multiply_codes
from wse_kernels.products.codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4, scale_rows
from wse_kernels.products.tiles import CodeTile, ProductRows, Tile
from wse_kernels.products.vector_product import multiply_vector


def matmul(block, act, wgt, acc, x, w, out, shape: ProductShape, strides: ProductStrides, add):
    """Multiply a chunk of tokens by a tile of weights: out[M, N] = x[M, K] @ w[K, N].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the activations [M, K].
        w: Address of the weights [K, N].
        out: Address of the sums [M, N] in the accumulator type.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
        add: 0 to overwrite the sums; any other value to add the product to them.
    """
    tile = Tile(w, shape.K, shape.N, strides.k_stride, strides.n_stride)
    multiply_chunk((acc, act, wgt), block, ProductRows(shape.M, out, strides.out_stride, x, shape.K), tile, add)


def matmul_act(block, act, acc, x, w, out, shape: ProductShape, strides: ProductStrides, add):
    """Multiply activations by a tile of other activations: out[M, N] = x[M, K] @ w[K, N].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x, w: Addresses of the activations [M, K] and [K, N].
        out: Address of the sums [M, N] in the accumulator type.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
        add: 0 to overwrite the sums; any other value to add the product to them.
    """
    tile = Tile(w, shape.K, shape.N, strides.k_stride, strides.n_stride)
    multiply_chunk((acc, act, act), block, ProductRows(shape.M, out, strides.out_stride, x, shape.K), tile, add)


def gemv(block, act, wgt, acc, x, w, out, shape: ProductShape, strides: ProductStrides):
    """Multiply tokens by a tile of weights, one token at a time: out[M, N] = x[M, K] @ w[K, N].

    `matmul` computes the same result but reads the weights once for several tokens.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the activations [M, K].
        w: Address of the weights [K, N].
        out: Address of the sums [M, N] in the accumulator type, always overwritten.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
    """
    M, K, N = shape
    tile = Tile(w, K, N, strides.k_stride, strides.n_stride)
    for m in range(M):
        multiply_vector((acc, act, wgt), None, block, out + m * strides.out_stride, x + m * K, tile, 0)


def matmul_int8(block, act, wgt, acc, raw, at: CodedTensors, shape: ProductShape, rows):
    """Multiply activations by int8 weights: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, acc, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights w[K, N], scale[N] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _multiply_scaled((acc, act, wgt, raw), block, at, shape, INT8)


def matmul_fp8(block, act, wgt, acc, raw, at: CodedTensors, shape: ProductShape, rows):
    """Multiply activations by FP8 (e4m3) weights: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, acc, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights w[K, N], scale[N] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _multiply_scaled((acc, act, wgt, raw), block, at, shape, FP8)


@helper_function
def _multiply_scaled(views, block, at, shape, coding):
    """Multiply activations by quantised weights with one scale per output.

    out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Args:
        views: Views of SRAM: acc, act, wgt and raw.
        block: Index of the block of PEs in these views.
        at: Addresses of the operands, a `CodedTensors`.
        shape: M tokens, K inputs, N outputs.
        coding: Number that identifies the weight format: INT8 or FP8.
    """
    M, K, N = shape
    acc, _, wgt, _ = views
    tile = CodeTile(at.w, 0, 0, at.scale, K, N, N, N, 1, N)
    multiply_codes(views, block, ProductRows(M, at.out, N, at.x, K), tile, coding)
    for m in range(M):
        scale_rows(acc, wgt, block, at.out + m * N, at.scale, N)


def matmul_int4(block, act, wgt, acc, raw, at: Int4Tensors, shape: ProductShape, G, rows):
    """Multiply activations by int4 weights with one scale per group of inputs.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]). Rows of weights form groups that share
    scales, and groups[k] is the index of the group of row k.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, acc, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], scale[G, N] and sums
            out[M, N].
        shape: M tokens, K inputs, N outputs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    M, K, N = shape
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, N, N, G, N)
    multiply_codes((acc, act, wgt, raw), block, ProductRows(M, at.out, N, at.x, K), tile, INT4)


def matmul_mxfp4(block, act, acc, raw, at: Mxfp4Tensors, shape: ProductShape, G, rows):
    """Multiply activations by MXFP4 weights: e2m1 codes with one e8m0 scale per group of inputs.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]). Rows of weights form groups that share
    scales, and groups[k] is the index of the group of row k.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], scale[G, N] and sums
            out[M, N].
        shape: M tokens, K inputs, N outputs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    M, K, N = shape
    tile = CodeTile(at.w, at.groups, 0, at.scale, K, N, N, N, G, N)
    multiply_codes((acc, act, raw, raw), block, ProductRows(M, at.out, N, at.x, K), tile, MXFP4)


def matmul_fp8_blocks(block, act, acc, f32, raw, at: BlockScaledTensors, shape: ProductShape, G, B, rows):
    """Multiply activations by FP8 (e4m3) weights with block scales.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], block of N]). A scale applies to a group of
    rows (inputs) and a block of neighbouring outputs; groups[k] is the index of the group of row k.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, f32, raw: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], numbers of outputs per
            block widths[B], scale[G, B] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        G, B: Numbers of groups of rows and of blocks of outputs.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    M, K, N = shape
    tile = CodeTile(at.w, at.groups, at.widths, at.scale, K, N, N, B, G, B)
    multiply_codes((acc, act, f32, raw), block, ProductRows(M, at.out, N, at.x, K), tile, FP8_BLOCKS)
