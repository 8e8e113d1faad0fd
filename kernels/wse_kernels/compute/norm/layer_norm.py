"""Kernels of layer normalisation: subtract the mean, and divide by the standard deviation."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.operands.layers import GainAndBias, LayerNormTensors, LayerSumsTensors


def moments(block, act, f32, x, sums, M, K):
    """Sum a PE's features and their squares in float32, for layer normalisation.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M, 2].
        M, K: Numbers of tokens and features per PE.
    """
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            f32[block, sums + 2 * m, lane] = np.float32(0.0)
            f32[block, sums + 2 * m + 1, lane] = np.float32(0.0)
        for k in range(K):
            for lane in range(lanes):
                value = widen(act[block, x + m * K + k, lane])
                f32[block, sums + 2 * m, lane] += value
                f32[block, sums + 2 * m + 1, lane] += value * value


def gain_moments(block, act, acc, wgt, x, sums, gain, out, M, K):
    """Sum a PE's features and their squares, and multiply the features by the gain, in one pass.

    sums[M, 0] = sum over K of x[M, K], sums[M, 1] = sum over K of x[M, K] ** 2, and out[M, K] =
    gain[K] * x[M, K].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, wgt: SRAM as arrays [block, address, PE of block] of different element types.
        x, out: Addresses of the activations [M, K] and the results [M, K], which have the same
            type.
        sums: Address of the sums [M, 2] in the accumulator type.
        gain: Address of the gain [K] in the weight type.
        M, K: Numbers of tokens and features per PE.
    """
    lanes = act.shape[2]
    for m in range(M):
        first, second = sums + 2 * m, sums + 2 * m + 1
        for lane in range(lanes):
            acc[block, first, lane] = narrow(np.float32(0.0), acc[block, first, lane])
            acc[block, second, lane] = narrow(np.float32(0.0), acc[block, second, lane])
        for k in range(K):
            for lane in range(lanes):
                element = act[block, x + m * K + k, lane]
                value, total, squares = widen(element), acc[block, first, lane], acc[block, second, lane]
                acc[block, first, lane] = narrow(widen(total) + value, total)
                acc[block, second, lane] = narrow(widen(squares) + value * value, squares)
                act[block, out + m * K + k, lane] = narrow(widen(wgt[block, gain + k, lane]) * value, element)


def layer_scale_sums(block, acc, f32, at: LayerSumsTensors, M, N, size, eps_atto, biased):
    """Complete a layer norm whose mean and scale are applied after the product with the weights.

    x[M, N] = (x[M, N] - mean[M] * gain_product[N]) / sqrt(variance[M] + eps) + bias_product[N],
    where bias_product is only added if biased.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of x[M, N], sums[M, 2], gain_product[N] and bias_product[N]. x is the product
            with the weights and is changed in place. ``sums`` contains, for each token, the sum of
            its features and the sum of their squares. gain_product and bias_product are the float32
            products of the norm's gain and bias with the weights.
        M, N: Numbers of tokens and output features.
        size: Number of features over which mean and variance are computed.
        eps_atto: Epsilon in units of 1e-18.
        biased: 1 if the norm has a bias, otherwise 0.
    """
    x, sums, gain_product, bias_product = at
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    for m in range(M):
        for n in range(N):
            for lane in range(lanes):
                element = acc[block, x + m * N + n, lane]
                mean = widen(acc[block, sums + 2 * m, lane]) / size
                square = widen(acc[block, sums + 2 * m + 1, lane]) / size
                scale = np.float32(1.0) / np.sqrt(max(square - mean * mean, np.float32(0.0)) + eps)
                centred = widen(element) - mean * f32[block, gain_product + n, lane]
                bias_value = f32[block, bias_product + n, lane] if biased == 1 else np.float32(0.0)
                acc[block, x + m * N + n, lane] = narrow(centred * scale + bias_value, element)


def layer_scale(block, act, wgt, f32, at: LayerNormTensors, M, K, size, eps_atto, form: GainAndBias):
    """Apply layer normalisation with a gain, given the moments over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K], where
    bias is only added if biased.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], float32 sums[M, 2], gain[K], bias[K] and results
            out[M, K]. The sums of values and squares are replaced by the mean and the scale factor.
        M, K: Numbers of tokens and features per PE.
        size: Number of features in the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        form: Number added to the gain, and whether the bias is added.
    """
    x, sums, gain, bias, out = at
    size, offset, biased = np.float32(size), np.float32(form.offset), form.biased
    eps = np.float32(eps_atto * 1e-18)
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            mean = f32[block, sums + 2 * m, lane] / size
            variance = max(f32[block, sums + 2 * m + 1, lane] / size - mean * mean, np.float32(0.0))
            f32[block, sums + 2 * m, lane] = mean
            f32[block, sums + 2 * m + 1, lane] = np.float32(1.0) / np.sqrt(variance + eps)
        for k in range(K):
            for lane in range(lanes):
                value = act[block, x + m * K + k, lane]
                centred = widen(value) - f32[block, sums + 2 * m, lane]
                scaled = centred * f32[block, sums + 2 * m + 1, lane]
                gain_product = (widen(wgt[block, gain + k, lane]) + offset) * scaled
                bias_value = widen(wgt[block, bias + k, lane]) if biased == 1 else np.float32(0.0)
                act[block, out + m * K + k, lane] = narrow(gain_product + bias_value, value)
