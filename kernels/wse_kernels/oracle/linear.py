"""Oracles of products with weights, quantised or not, and with activations."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.products import (
    BlockScaledTensors,
    CodedTensors,
    Int4Tensors,
    Mxfp4Tensors,
    ProductShape,
    ProductStrides,
)
from wse_kernels.oracle.memory import sums_of_products
from wse_kernels.oracle.quantised_weights import (
    FP8_BLOCKS,
    INT4,
    MXFP4,
    block_factors,
    e4m3,
    powers_of_two,
    scaled_codes,
    times_factors,
)


def matmul(pe, x, w, out, shape: ProductShape, strides: ProductStrides, add):
    """Multiply tokens by a weight tile: out[M, N] = x[M, K] @ w[K, N].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        w: Address of the weights [K, N].
        out: Address of the sums [M, N] in the accumulator type.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
        add: 0 to overwrite the sums; any other value to add the product to them.
    """
    _product(pe, "wgt", x, w, out, shape, strides, add)


def matmul_act(pe, x, w, out, shape: ProductShape, strides: ProductStrides, add):
    """Multiply activations by activations: out[M, N] = x[M, K] @ w[K, N].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x, w: Addresses of the activations [M, K] and [K, N].
        out: Address of the sums [M, N] in the accumulator type.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
        add: 0 to overwrite the sums; any other value to add the product to them.
    """
    _product(pe, "act", x, w, out, shape, strides, add)


def gemv(pe, x, w, out, shape: ProductShape, strides: ProductStrides):
    """Multiply tokens by a weight tile: out[M, N] = x[M, K] @ w[K, N], overwriting ``out``.

    This NumPy reference for one PE is used to test the compiled kernel of the same name. Its
    results equal those of `matmul`, because the summation order does not depend on how many tokens
    are computed together.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        w: Address of the weights [K, N].
        out: Address of the sums [M, N] in the accumulator type, always overwritten.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
    """
    _product(pe, "wgt", x, w, out, shape, strides, 0)


def _product(pe, right, x, w, out, shape, strides, add):
    """Multiply activations by a right operand from SRAM: out[M, N] = x[M, K] @ w[K, N].

    Args:
        pe: PE whose SRAM is read and written.
        right: View that contains the right operand: "wgt" for weights, "act" for activations.
        x, w: Addresses of the activations [M, K] and of the right operand [K, N].
        out: Address of the sums [M, N] in the accumulator type.
        shape: M tokens, K inputs, N outputs.
        strides: Strides of ``w`` along K and N, and of ``out`` along M.
        add: 0 to overwrite the sums; any other value to add the product to them.
    """
    M, K, N = shape
    X = pe.read("act", x, M, K)
    rows = [out + m * strides.out_stride for m in range(M)]
    total = np.array([pe.read("acc", row, N) if add else np.zeros(N, np.float32) for row in rows])
    for k in range(K):
        for n in range(N):
            product = X[:, k] * pe.read(right, w + k * strides.k_stride + n * strides.n_stride, 1)
            total[:, n] = pe.round_to("acc", total[:, n] + product)
    for row, sums in zip(rows, total, strict=True):
        pe.write("acc", row, sums)


def matmul_int8(pe, at: CodedTensors, shape: ProductShape, rows):
    """Multiply activations by int8 weights: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights w[K, N], scale[N] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    codes = pe.bytes(at.w, shape.K * shape.N)
    _one_scale(pe, codes.view(np.int8).astype(np.float32), at, shape)


def matmul_fp8(pe, at: CodedTensors, shape: ProductShape, rows):
    """Multiply activations by FP8 (e4m3) weights: out[M, N] = scale[N] * (x[M, K] @ w[K, N]).

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights w[K, N], scale[N] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _one_scale(pe, e4m3(pe.bytes(at.w, shape.K * shape.N)), at, shape)


def _one_scale(pe, values, at, shape):
    """Multiply activations by unscaled weights, then multiply the sums by one scale per output.

    Args:
        pe: PE whose SRAM is read and written.
        values: Unscaled weights [K, N].
        at: Addresses of the activations x[M, K], scale[N] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
    """
    M, K, N = shape
    for m in range(M):
        sums = sums_of_products(pe, at.x + m * K, values.reshape(K, N), np.zeros(N, np.float32))
        pe.write("acc", at.out + m * N, sums * pe.read("wgt", at.scale, N))


def matmul_int4(pe, at: Int4Tensors, shape: ProductShape, G, rows):
    """Multiply activations by int4 weights with one scale per group of inputs.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]), where groups[k] is the index of the group
    of row k. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], scale[G, N] and sums
            out[M, N].
        shape: M tokens, K inputs, N outputs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _, K, N = shape
    _multiply(pe, scaled_codes(pe, INT4, (at.w, N), (at.scale, N), at.groups, (K, N, G)), at, shape)


def matmul_mxfp4(pe, at: Mxfp4Tensors, shape: ProductShape, G, rows):
    """Multiply activations by MXFP4 weights: e2m1 codes with one e8m0 scale per group of inputs.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], N]), where groups[k] is the index of the group
    of row k. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], scale[G, N] and sums
            out[M, N].
        shape: M tokens, K inputs, N outputs.
        G: Number of groups of rows that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _, K, N = shape
    factors = powers_of_two(pe, at.scale, N, N, G)
    _multiply(pe, times_factors(pe, MXFP4, factors, at.w, at.groups, K, N), at, shape)


def matmul_fp8_blocks(pe, at: BlockScaledTensors, shape: ProductShape, G, B, rows):
    """Multiply activations by FP8 (e4m3) weights with block scales.

    out[M, N] = x[M, K] @ (w[K, N] * scale[groups[K], block of N]), where groups[k] is the index of
    the group of row k. The scaled weights are rounded to the activation type. This NumPy reference
    for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], weights w[K, N], groups[K], numbers of outputs per
            block widths[B], scale[G, B] and sums out[M, N].
        shape: M tokens, K inputs, N outputs.
        G, B: Numbers of row groups and of output blocks that share scales.
        rows: Unused here. Number of rows in the scratch buffer that a real PE needs.
    """
    _, K, N = shape
    factors = block_factors(pe, at.scale, B, at.widths, N, G, B)
    _multiply(pe, times_factors(pe, FP8_BLOCKS, factors, at.w, at.groups, K, N), at, shape)


def _multiply(pe, weights, at, shape):
    """Multiply activations [M, K] by dequantised weights [K, N], and store the sums [M, N].

    Args:
        pe: PE whose SRAM is read and written.
        weights: float32 weights [K, N] after multiplication by their scales.
        at: Addresses of the activations ``at.x`` and of the sums ``at.out``.
        shape: M tokens, K inputs, N outputs.
    """
    M, K, N = shape
    for m in range(M):
        sums = sums_of_products(pe, at.x + m * K, weights, np.zeros(N, np.float32))
        pe.write("acc", at.out + m * N, sums)
