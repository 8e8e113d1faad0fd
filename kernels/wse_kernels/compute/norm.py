"""Compute kernels of RMS, L2 and layer normalisation.

One kernel sums over the features that a PE stores. After an all-reduce has added the sums of all
PEs, another kernel scales the features. ``eps_atto`` is epsilon in units of 1e-18.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import slice_of_place
from wse_kernels.operands.group import Place
from wse_kernels.operands.layers import LayerNormTensors, LayerSumsTensors, NormTensors, RowGroups

ONE, ZERO = np.float32(1.0), np.float32(0.0)


def sum_squares(block, act, f32, x, sums, M, K):
    """Sum the squares of the features that a PE stores: sums[M] = sum over K of x[M, K] ** 2.

    Args:
        block, act, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M].
        M, K: Tokens; features per PE.
    """
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            f32[block, sums + m, lane] = np.float32(0.0)
        for k in range(K):
            for lane in range(lanes):
                value = widen(act[block, x + m * K + k, lane])
                f32[block, sums + m, lane] += value * value


def rms_scale(block, act, wgt, f32, at: NormTensors, M, K, size, eps_atto, offset):
    """Apply RMS normalisation with a gain, given the sums of squares over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)). Without an offset, the
    normalised value is rounded to the activation type before the gain is applied, as in Hugging
    Face transformers. With an offset it is not.

    Args:
        block, act, wgt, f32: Index of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], float32 sums[M], gain[K] and results out[M, K]. The
            sums are replaced by the factors 1 / sqrt(...).
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain, usually 0 or 1.
    """
    x, sums, gain, out = at
    offset, lanes = np.float32(offset), act.shape[2]
    _invert_roots(block, f32, sums, M, size, eps_atto)
    for m in range(M):
        for k in range(K):
            for lane in range(lanes):
                value = act[block, x + m * K + k, lane]
                scaled = widen(value) * f32[block, sums + m, lane]
                if offset == 0:
                    scaled = widen(narrow(scaled, value))
                gain_product = (widen(wgt[block, gain + k, lane]) + offset) * scaled
                act[block, out + m * K + k, lane] = narrow(gain_product, value)


def gain_sum_squares(block, act, acc, wgt, at: NormTensors, M, K, offset):
    """Sum the squares of a PE's features, and multiply the features by the gain, in one pass.

    sums[M] = sum over K of x[M, K] ** 2, and out[M, K] = (gain[K] + offset) * x[M, K].

    Args:
        block, act, acc, wgt: Index of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], sums[M] in the accumulator type, gain[K] and results
            out[M, K].
        M, K: Tokens; features per PE.
        offset: Integer added to the gain.
    """
    x, sums, gain, out = at
    offset, lanes = np.float32(offset), act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            acc[block, sums + m, lane] = narrow(ZERO, acc[block, sums + m, lane])
        for k in range(K):
            for lane in range(lanes):
                element = act[block, x + m * K + k, lane]
                value, total = widen(element), acc[block, sums + m, lane]
                acc[block, sums + m, lane] = narrow(widen(total) + value * value, total)
                gain_product = (widen(wgt[block, gain + k, lane]) + offset) * value
                act[block, out + m * K + k, lane] = narrow(gain_product, element)


def rms_factors(block, f32, sums, M, size, eps_atto):
    """Replace sums of squares by factors of an RMS norm: sums[M] = 1 / sqrt(sums[M] / size + eps).

    Args:
        block, f32: Index of the block of PEs, and the float32 view of their SRAM.
        sums: Address of the sums [M], overwritten.
        M, size: Number of sums; number of features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    _invert_roots(block, f32, sums, M, size, eps_atto)


@helper_function
def _invert_roots(block, f32, sums, M, size, eps_atto):
    """Replace sums[M] by 1 / sqrt(sums[M] / size + eps). See `rms_factors` for the operands."""
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    for m in range(M):
        for lane in range(f32.shape[2]):
            f32[block, sums + m, lane] = ONE / np.sqrt(f32[block, sums + m, lane] / size + eps)


def scale_heads(block, acc, f32, x, factors, M, N):
    """Multiply each row by its factor in place: x[M, N] *= factors[M].

    Args:
        block, acc, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the values [M, N] in the accumulator type.
        factors: Address of the float32 factors [M].
        M, N: Rows, one per token or head; elements per row.
    """
    lanes = acc.shape[2]
    for m in range(M):
        for e in range(x + m * N, x + m * N + N):
            for lane in range(lanes):
                value = acc[block, e, lane]
                acc[block, e, lane] = narrow(widen(value) * f32[block, factors + m, lane], value)


def rms_scale_sums(block, acc, x, sums, M, N, size, eps_atto):
    """Apply RMS normalisation without a gain: x[M, N] /= sqrt(sums[M] / size + eps).

    Args:
        block, acc: Index of the block of PEs, and the accumulator view of their SRAM.
        x: Address of the values [M, N], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, N: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    scales = lane_values(acc.shape[2])
    for m in range(M):
        _set_scales(block, acc, scales, sums + m, size, eps_atto)
        _scale_features(block, acc, scales, x + m * N, N)


def rms_scale_share(place: Place, acc, x, sums, M, n, parts, size, eps_atto, division: RowGroups):
    """Apply `rms_scale_sums` to the slice of features that this PE computes for its group.

    All PEs of a column have the same features. They form groups of neighbours, and the PEs of a
    group divide the scaling among them. The other features of x[M, parts, n] keep their values.

    Args:
        place, acc: Position of the block of PEs, and the accumulator view of their SRAM.
        x: Address of the values [M, parts, n], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, n, parts: Tokens; features per part; parts, each of which is divided in the same way.
        size, eps_atto: Features that each sum is over; epsilon in units of 1e-18.
        division: Groups of PEs that divide the features.
    """
    scales = lane_values(acc.shape[2])
    first, last = slice_of_place(place.row, division.length, division.groups, n)
    for m in range(M):
        _set_scales(place.block, acc, scales, sums + m, size, eps_atto)
        for part in range(parts):
            _scale_features(place.block, acc, scales, x + (m * parts + part) * n + first, last - first)


@helper_function
def _set_scales(block, acc, scales, total, size, eps_atto):
    """Compute the factor of an RMS norm for each PE of a block: 1 / sqrt(total / size + eps).

    Args:
        block, acc: Index of the block of PEs, and the accumulator view of their SRAM.
        scales: float32 factors, one per PE, overwritten.
        total: Address of the sum of squares.
        size, eps_atto: Features that the sum is over; epsilon in units of 1e-18.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    for lane in range(len(scales)):
        scales[lane] = ONE / np.sqrt(widen(acc[block, total, lane]) / size + eps)


@helper_function
def _scale_features(block, acc, scales, x, n):
    """Multiply ``n`` consecutive sums of each PE by a factor of the PE, in place.

    Args:
        block, acc: Index of the block of PEs, and the accumulator view of their SRAM.
        scales: float32 factors, one per PE.
        x: Address of the first sum.
        n: Number of sums.
    """
    for e in range(x, x + n):
        for lane in range(len(scales)):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * scales[lane], acc[block, e, lane])


def l2_scale(block, act, f32, x, sums, M, K, size, eps_atto):
    """Apply L2 or RMS normalisation without a gain in place: x[M, K] /= sqrt(sums[M] / size + eps).

    Args:
        block, act, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the activations [M, K], scaled in place.
        sums: Address of the float32 sums of squares [M] over all PEs. They are replaced by the
            factors 1 / sqrt(...).
        M, K: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    _invert_roots(block, f32, sums, M, size, eps_atto)
    for m in range(M):
        for e in range(x + m * K, x + m * K + K):
            for lane in range(act.shape[2]):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * f32[block, sums + m, lane], value)


def moments(block, act, f32, x, sums, M, K):
    """Sum the features of a PE, and their squares, in float32 for layer normalisation.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2.

    Args:
        block, act, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M, 2].
        M, K: Tokens; features per PE.
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
        block, act, acc, wgt: Index of the block of PEs, and views of their SRAM.
        x, out: Addresses of the activations [M, K], and of the results [M, K] in the same type.
        sums: Address of the sums [M, 2] in the accumulator type.
        gain: Address of the gain [K] in the weight type.
        M, K: Tokens; features per PE.
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


def layer_scale_sums(block, acc, f32, at: LayerSumsTensors, M, N, size, eps_atto):
    """Complete a layer norm whose mean and scale are applied after the product with weights.

    x[M, N] = (x[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N].

    Args:
        block, acc, f32: Index of the block of PEs, and views of their SRAM.
        at: Addresses of the sums of the product x[M, N], which are changed in place, of sums[M, 2],
            and of the float32 vectors of_gain[N] and of_bias[N].
        M, N: Tokens; output features.
        size: Features that mean and variance are over.
        eps_atto: Epsilon in units of 1e-18.
    """
    x, sums, of_gain, of_bias = at
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    for m in range(M):
        for n in range(N):
            for lane in range(lanes):
                element = acc[block, x + m * N + n, lane]
                mean = widen(acc[block, sums + 2 * m, lane]) / size
                square = widen(acc[block, sums + 2 * m + 1, lane]) / size
                scale = np.float32(1.0) / np.sqrt(max(square - mean * mean, np.float32(0.0)) + eps)
                centred = widen(element) - mean * f32[block, of_gain + n, lane]
                acc[block, x + m * N + n, lane] = narrow(centred * scale + f32[block, of_bias + n, lane], element)


def layer_scale(block, act, wgt, f32, at: LayerNormTensors, M, K, size, eps_atto, offset):
    """Apply layer normalisation with gain and bias, given the moments over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K].

    Args:
        block, act, wgt, f32: Index of the block of PEs, and views of their SRAM.
        at: Addresses of activations x[M, K], float32 sums[M, 2], gain[K], bias[K] and results
            out[M, K]. The sums of values and squares are replaced by mean and scale factor.
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain.
    """
    x, sums, gain, bias, out = at
    size, offset = np.float32(size), np.float32(offset)
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
                act[block, out + m * K + k, lane] = narrow(gain_product + widen(wgt[block, bias + k, lane]), value)
