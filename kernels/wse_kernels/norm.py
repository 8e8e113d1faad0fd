"""Compute kernels of RMS, L2 and layer normalisation.

One kernel sums over the features that a PE stores. After an all-reduce has added the sums of all
PEs, another kernel scales the features. ``eps_atto`` is epsilon in units of 1e-18.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._elements import narrow, widen
from wse_kernels._lanes import lane_values
from wse_kernels._slices import slice_of_place


def sum_squares(block, act, f32, x, sums, M, K):
    """Sum the squares of each token's local features: sums[M] = sum over K of x[M, K] ** 2.

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM by element type.
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


def rms_scale(block, act, wgt, f32, x, sums, gain, out, M, K, size, eps_atto, offset):
    """Apply RMS normalisation with a gain, once the sums of squares of all PEs are known.

    out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)). Without an offset, the
    normalised value is rounded to the activation type before the gain is applied, as in Hugging
    Face transformers. With an offset it is not.

    Args:
        block, act, wgt, f32: Block of up to 128 PEs, and views of their SRAM. The next four
            arguments are addresses in it.
        x, out: Activations [M, K].
        sums: float32 [M], sums of squares over all PEs. Replaced by the factors 1 / sqrt(...).
        gain: Weights [K].
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain, usually 0 or 1.
    """
    size, offset = np.float32(size), np.float32(offset)
    eps = np.float32(eps_atto * 1e-18)
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            mean = f32[block, sums + m, lane] / size
            f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(mean + eps)
        for k in range(K):
            for lane in range(lanes):
                value = act[block, x + m * K + k, lane]
                scaled = widen(value) * f32[block, sums + m, lane]
                if offset == 0:
                    scaled = widen(narrow(scaled, value))
                gain_product = (widen(wgt[block, gain + k, lane]) + offset) * scaled
                act[block, out + m * K + k, lane] = narrow(gain_product, value)


def gain_sum_squares(block, act, acc, wgt, x, sums, gain, out, M, K, offset):
    """Sum the squares of the local features, and multiply the features by the gain, in one pass.

    sums[M] = sum over K of x[M, K] ** 2, and out[M, K] = (gain[K] + offset) * x[M, K].

    Args:
        block, act, acc, wgt: Block of up to 128 PEs, and views of their SRAM. The next four
            arguments are addresses in it.
        x, out: Activations [M, K].
        sums: Sums [M] in the accumulator type.
        gain: Weights [K].
        M, K: Tokens; features per PE.
        offset: Integer added to the gain.
    """
    offset = np.float32(offset)
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            acc[block, sums + m, lane] = narrow(np.float32(0.0), acc[block, sums + m, lane])
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
        block, f32: Block of up to 128 PEs, and the float32 view of their SRAM.
        sums: Address of the sums [M], overwritten.
        M, size: Sums; features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = f32.shape[2]
    for m in range(M):
        for lane in range(lanes):
            f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(f32[block, sums + m, lane] / size + eps)


def scale_heads(block, acc, f32, x, factors, M, N):
    """Multiply each row by its factor in place: x[M, N] *= factors[M].

    Args:
        block, acc, f32: Block of up to 128 PEs, and views of their SRAM.
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
        block, acc: Block of up to 128 PEs, and the accumulator view of their SRAM.
        x: Address of the values [M, N], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, N: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    scales = lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            scales[lane] = np.float32(1.0) / np.sqrt(widen(acc[block, sums + m, lane]) / size + eps)
        for e in range(x + m * N, x + m * N + N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * scales[lane], acc[block, e, lane])


def rms_scale_share(block, block_row, acc, x, sums, M, n, parts, size, eps_atto, length, groups):
    """Apply `rms_scale_sums` to the slice of features that this PE computes for its group.

    PEs of a column have the same features. Neighbours form groups, and the PEs of a group divide
    the scaling among them (`slice_of_place`). The other features of x[M, parts, n] stay as they
    are.

    Args:
        block, block_row, acc: Block of up to 128 PEs, its mesh row, and the accumulator view of
            their SRAM.
        x: Address of the values [M, parts, n], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, n, parts: Tokens; features per part; parts, each of which is divided in the same way.
        size, eps_atto: Features that each sum is over; epsilon in units of 1e-18.
        length, groups: PEs of the column; groups that they form.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    scales = lane_values(lanes)
    first, last = slice_of_place(block_row, length, groups, n)
    for m in range(M):
        for lane in range(lanes):
            scales[lane] = np.float32(1.0) / np.sqrt(widen(acc[block, sums + m, lane]) / size + eps)
        for part in range(parts):
            for e in range(x + (m * parts + part) * n + first, x + (m * parts + part) * n + last):
                for lane in range(lanes):
                    acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * scales[lane], acc[block, e, lane])


def l2_scale(block, act, f32, x, sums, M, K, size, eps_atto):
    """Apply L2 or RMS normalisation without a gain in place: x[M, K] /= sqrt(sums[M] / size + eps).

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM.
        x: Address of the activations [M, K], scaled in place.
        sums: Address of the float32 sums of squares [M] over all PEs. Replaced by the factors 1 /
            sqrt(...).
        M, K: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            mean = f32[block, sums + m, lane] / size
            f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(mean + eps)
        for e in range(x + m * K, x + m * K + K):
            for lane in range(lanes):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * f32[block, sums + m, lane], value)


def moments(block, act, f32, x, sums, M, K):
    """Sum each token's local features and their squares in float32, for layer normalisation.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2.

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM.
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
    """Sum the local features and their squares, and multiply the features by the gain, in one pass.

    sums[M, 0] = sum over K of x[M, K], sums[M, 1] = sum over K of x[M, K] ** 2, and out[M, K] =
    gain[K] * x[M, K].

    Args:
        block, act, acc, wgt: Block of up to 128 PEs, and views of their SRAM. The next four
            arguments are addresses in it.
        x, out: Activations [M, K].
        sums: Sums [M, 2] in the accumulator type.
        gain: Weights [K].
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


def layer_scale_sums(block, acc, f32, x, sums, of_gain, of_bias, M, N, size, eps_atto):
    """Complete a layer norm after a product with weights: subtract the mean and scale the sums.

    x[M, N] = (x[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N].

    Args:
        block, acc, f32: Block of up to 128 PEs, and views of their SRAM. The next four arguments
            are addresses in it.
        x: Sums of the product [M, N] in the accumulator type, rewritten in place.
        sums: [M, 2] in the accumulator type: the sum of ``size`` values, and the sum of their
            squares.
        of_gain, of_bias: float32 [N], products of the gain and of the bias of the norm with the
            weights.
        M, N: Tokens; output features.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
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


def layer_scale(block, act, wgt, f32, x, sums, gain, bias, out, M, K, size, eps_atto, offset):
    """Apply layer normalisation with gain and bias, once the moments over all PEs are known.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K].

    Args:
        block, act, wgt, f32: Block of up to 128 PEs, and views of their SRAM. The next five
            arguments are addresses in it.
        x, out: Activations [M, K].
        sums: float32 [M, 2]: sum of ``size`` values, and of their squares. Replaced by mean and
            scale factor.
        gain, bias: Weights [K].
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain.
    """
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
