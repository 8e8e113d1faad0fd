"""Kernels of RMS and L2 normalisation, which divide by the root of a sum of squares."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import slice_of_place
from wse_kernels.operands.group import Place
from wse_kernels.operands.layers import NormTensors, RowGroups

ONE, ZERO = np.float32(1.0), np.float32(0.0)


def sum_squares(block, act, f32, x, sums, M, K):
    """Sum the squares of the features that a PE stores: sums[M] = sum over K of x[M, K] ** 2.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M].
        M, K: Numbers of tokens and features per PE.
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
    Face transformers. With an offset, it is not rounded.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, wgt, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], float32 sums[M], gain[K] and results out[M, K].
            The sums are replaced by the factors 1 / sqrt(...).
        M, K: Numbers of tokens and features per PE.
        size: Number of features in the whole vector.
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
        block: Index of the block (group of neighbouring PEs).
        act, acc, wgt: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the activations x[M, K], sums[M] in the accumulator type, gain[K] and
            results out[M, K].
        M, K: Numbers of tokens and features per PE.
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
    """Replace sums of squares by RMS norm factors: sums[M] = 1 / sqrt(sums[M] / size + eps).

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        sums: Address of the sums [M], overwritten.
        M: Number of sums.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    _invert_roots(block, f32, sums, M, size, eps_atto)


@helper_function
def _invert_roots(block, f32, sums, M, size, eps_atto):
    """Replace sums of squares by norm factors: sums[M] becomes 1 / sqrt(sums[M] / size + eps).

    This is the code that the kernels `rms_factors`, `rms_scale` and `l2_scale` have in common.
    `rms_factors` describes the operands.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    for m in range(M):
        for lane in range(f32.shape[2]):
            f32[block, sums + m, lane] = ONE / np.sqrt(f32[block, sums + m, lane] / size + eps)


def scale_heads(block, acc, f32, x, factors, M, N):
    """Multiply each row by its factor in place: x[M, N] *= factors[M].

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the values [M, N] in the accumulator type.
        factors: Address of the float32 factors [M].
        M: Number of rows, one per token or head.
        N: Number of elements per row.
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
        block: Index of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        x: Address of the values [M, N], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, N: Numbers of tokens and features per PE.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    scales = lane_values(acc.shape[2])
    for m in range(M):
        _set_scales(block, acc, scales, sums + m, size, eps_atto)
        _scale_features(block, acc, scales, x + m * N, N)


def rms_scale_share(place: Place, acc, x, sums, M, n, parts, size, eps_atto, division: RowGroups):
    """Apply RMS normalisation without a gain to the features that this PE scales for its group.

    All PEs of a column store the same features. They form groups of neighbours, and each PE of a
    group scales a slice of the features, as `rms_scale_sums` does. The other features of x[M,
    parts, n] keep their values.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        x: Address of the values [M, parts, n], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M: Number of tokens.
        n, parts: Number of features in each part, and number of parts. Every part is divided among
            the PEs in the same way.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
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
    """Compute the RMS norm factor for each PE of a block: 1 / sqrt(total / size + eps).

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        scales: float32 factors, one per PE, overwritten.
        total: Address of the sum of squares.
        size: Number of features in the sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    for lane in range(len(scales)):
        scales[lane] = ONE / np.sqrt(widen(acc[block, total, lane]) / size + eps)


@helper_function
def _scale_features(block, acc, scales, x, n):
    """Multiply ``n`` consecutive sums of each PE by the PE's factor, in place.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
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
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the activations [M, K], scaled in place.
        sums: Address of the float32 sums of squares [M] over all PEs. They are replaced by the
            factors 1 / sqrt(...).
        M, K: Numbers of tokens and features per PE.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    _invert_roots(block, f32, sums, M, size, eps_atto)
    for m in range(M):
        for e in range(x + m * K, x + m * K + K):
            for lane in range(act.shape[2]):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * f32[block, sums + m, lane], value)
