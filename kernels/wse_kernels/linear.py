"""Compute kernels that multiply activations by the weight tile of a PE, quantised or not.

The same kernels serve MeshGEMV, MeshGEMM and dist-GEMM-T. The right operand contains weights or
activations.

Quantised weights are unpacked in registers. There are two cases:

- One scale per output (int8, fp8). Every code is exact in each activation type, so the sums are
  those of activations times codes. Each sum is multiplied by its scale at the end.
- One scale per group of inputs (int4, mxfp4, fp8 blocks). Groups begin and end at different rows on
  every PE, so each code is multiplied by its scale as it is unpacked.

A PE would unpack ``rows`` rows of N codes at a time into the scratch buffer ``codes``, with the
scales of a row's group in the scratch buffer ``factors``. The compiled kernels leave these buffers
alone, and no other kernel reads their contents.
"""

from __future__ import annotations

from wse_kernels._chunk_product import multiply_chunk
from wse_kernels._code_product import multiply_codes
from wse_kernels._codes import FP8, FP8_BLOCKS, INT4, INT8, MXFP4, scale_rows
from wse_kernels._vector_product import multiply_vector


def matmul(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """Multiply a chunk of tokens by a weight tile: out[M, N] = x[M, K] @ w[K, N].

    Args:
        block, act, wgt, acc: Block of up to 128 PEs, and views of their SRAM by element type. The
            next three arguments are addresses in it.
        x: Activations [M, K].
        w: Weights [K, N].
        out: Sums [M, N] in the accumulator type.
        M, K, N: Tokens; input features; output features.
        k_stride, n_stride, out_stride: Strides in elements: of ``w`` along K and N, of ``out``
            along M.
        add: 0 to overwrite ``out``; any other value to add the product to it.
    """
    multiply_chunk(acc, act, wgt, block, out, x, w, M, K, N, K, k_stride, n_stride, out_stride, add)


def matmul_act(block, act, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride, add):
    """Multiply activations by activations: out[M, N] = x[M, K] @ w[K, N].

    Same as `matmul`, except that the right operand ``w`` contains activations instead of weights.

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM by element type. The next
            three arguments are addresses in it.
        x, w: Activations [M, K] and [K, N].
        out: Sums [M, N] in the accumulator type.
        M, K, N: Rows of ``x``; contracted dimension; columns of ``w``.
        k_stride, n_stride, out_stride: Strides in elements: of ``w`` along K and N, of ``out``
            along M.
        add: 0 to overwrite ``out``; any other value to add the product to it.
    """
    multiply_chunk(acc, act, act, block, out, x, w, M, K, N, K, k_stride, n_stride, out_stride, add)


def gemv(block, act, wgt, acc, x, w, out, M, K, N, k_stride, n_stride, out_stride):
    """Multiply tokens by a weight tile one token at a time: out[M, N] = x[M, K] @ w[K, N].

    Each token is one vector operation over K. Use `matmul` to read the weights once for several
    tokens.

    Args:
        block, act, wgt, acc: Block of up to 128 PEs, and views of their SRAM by element type. The
            next three arguments are addresses in it.
        x: Activations [M, K].
        w: Weights [K, N].
        out: Sums [M, N] in the accumulator type, always overwritten.
        M, K, N: Tokens; input features; output features.
        k_stride, n_stride, out_stride: Strides in elements: of ``w`` along K and N, of ``out``
            along M.
    """
    for m in range(M):
        multiply_vector(acc, act, wgt, None, block, out + m * out_stride, x + m * K, w, K, N, k_stride, n_stride, 0)


def matmul_int8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """Multiply activations by int8 codes: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Args:
        block, act, wgt, acc, raw: Block of up to 128 PEs, and views of their SRAM by element type.
            The next five arguments are addresses in it.
        x: Activations [M, K].
        w: int8 codes [K, N].
        scale: Scales [N] in the weight type, one per output.
        codes, rows: Unused here. Scratch buffer of the PE, and the number of rows that it has room
            for.
        out: Sums [M, N] in the accumulator type.
        M, K, N: Tokens; input features; output features.
    """
    multiply_codes(acc, act, wgt, raw, block, out, x, w, w, w, scale, M, K, N, 1, 1, INT8)
    for m in range(M):
        scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_fp8(block, act, wgt, acc, raw, x, w, scale, codes, out, M, K, N, rows):
    """Multiply activations by FP8 codes: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    Args:
        block, act, wgt, acc, raw: Block of up to 128 PEs, and views of their SRAM by element type.
            The next five arguments are addresses in it.
        x: Activations [M, K].
        w: e4m3 codes [K, N].
        scale: Scales [N] in the weight type, one per output.
        codes, rows: Unused here. Scratch buffer of the PE, and the number of rows that it has room
            for.
        out: Sums [M, N] in the accumulator type.
        M, K, N: Tokens; input features; output features.
    """
    multiply_codes(acc, act, wgt, raw, block, out, x, w, w, w, scale, M, K, N, 1, 1, FP8)
    for m in range(M):
        scale_rows(acc, wgt, block, out + m * N, scale, N)


def matmul_int4(block, act, wgt, acc, raw, x, w, groups, scale, codes, out, M, K, N, G, rows):
    """Multiply activations by int4 codes: out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]).

    Scales, and codes times scales, are rounded to the activation type.

    Args:
        block, act, wgt, acc, raw: Block of up to 128 PEs, and views of their SRAM by element type.
            The next six arguments are addresses in it.
        x: Activations [M, K].
        w: int4 codes [K, N]. A byte has the code of an even row in its low half and that of the
            next row in its high half.
        groups: Scale group of each of the K rows, one byte each.
        scale: Scales [G, N] in the weight type.
        codes, rows: Unused here. Scratch buffer of the PE, and the number of rows that it has room
            for.
        out: Sums [M, N] in the accumulator type.
        M, K, N, G: Tokens; input features; output features; groups of rows that share scales.
    """
    multiply_codes(acc, act, wgt, raw, block, out, x, w, groups, w, scale, M, K, N, G, 1, INT4)


def matmul_mxfp4(block, act, acc, raw, x, w, groups, scale, factors, codes, out, M, K, N, G, rows):
    """Multiply activations by MXFP4 codes: out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]).

    Scales, and codes times scales, are rounded to the activation type.

    Args:
        block, act, acc, raw: Block of up to 128 PEs, and views of their SRAM by element type. The
            next seven arguments are addresses in it.
        x: Activations [M, K].
        w: e2m1 codes [K, N]. A byte has the code of an even row in its low half and that of the
            next row in its high half.
        groups: Scale group of each of the K rows, one byte each.
        scale: e8m0 scales [G, N], powers of two of one byte each.
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows of
            codes.
        out: Sums [M, N] in the accumulator type.
        M, K, N, G: Tokens; input features; output features; groups of rows that share scales.
    """
    multiply_codes(acc, act, raw, raw, block, out, x, w, groups, w, scale, M, K, N, G, 1, MXFP4)


def matmul_fp8_blocks(
    block, act, acc, f32, raw, x, w, groups, widths, scale, factors, codes, out, M, K, N, G, B, rows
):  # fmt: skip
    """Multiply activations by FP8 codes with block scales, rounded to the activation type.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], block of N]). The outputs are divided into B
    blocks of neighbours that share a scale.

    Args:
        block, act, acc, f32, raw: Block of PEs and views of its SRAM. The next eight arguments are
            addresses in it.
        x: Activations [M, K].
        w: e4m3 codes [K, N].
        groups: Scale group of each of the K rows, one byte each.
        widths: Number of outputs in each of the B blocks, one byte each.
        scale: float32 scales [G, B].
        factors, codes, rows: Unused here. Scratch buffers of the PE, and the number of rows of
            codes.
        out: Sums [M, N] in the accumulator type.
        M, K, N, G, B: Tokens; inputs; outputs; groups of rows and blocks of outputs that share a
            scale.
    """
    multiply_codes(acc, act, f32, raw, block, out, x, w, groups, widths, scale, M, K, N, G, B, FP8_BLOCKS)
