"""Normalisation: the local sums, and the scaling once all PEs know the sums of all."""

from __future__ import annotations

import numpy as np

from wse_kernels._elements import narrow, widen
from wse_kernels._lanes import lane_values
from wse_kernels._shares import share_of_place


def sum_squares(block, act, f32, x, sums, M, K):
    """sums[M] = sum over K of x[M, K] ** 2, in float32."""
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            f32[block, sums + m, lane] = np.float32(0.0)
        for k in range(K):
            for lane in range(lanes):
                value = widen(act[block, x + m * K + k, lane])
                f32[block, sums + m, lane] += value * value


def rms_scale(block, act, wgt, f32, x, sums, gain, out, M, K, size, eps_atto, offset):
    """out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)); the factor takes the place of the sum.

    ``size`` is the normalised size. Rounds to the element type before a gain without offset, as Hugging Face
    transformers does, and not before one with it.
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
                gained = (widen(wgt[block, gain + k, lane]) + offset) * scaled
                act[block, out + m * K + k, lane] = narrow(gained, value)


def gain_sum_squares(block, act, acc, wgt, x, sums, gain, out, M, K, offset):
    """sums[M] = sum over K of x[M, K] ** 2; out[M, K] = (gain[K] + offset) * x[M, K]."""
    offset = np.float32(offset)
    lanes = act.shape[2]
    for m in range(M):
        for lane in range(lanes):
            acc[block, sums + m, lane] = narrow(np.float32(0.0), acc[block, sums + m, lane])
        for k in range(K):
            for lane in range(lanes):
                stored = act[block, x + m * K + k, lane]
                value, total = widen(stored), acc[block, sums + m, lane]
                acc[block, sums + m, lane] = narrow(widen(total) + value * value, total)
                gained = (widen(wgt[block, gain + k, lane]) + offset) * value
                act[block, out + m * K + k, lane] = narrow(gained, stored)


def rms_factors(block, f32, sums, M, size, eps_atto):
    """sums[M] = 1 / sqrt(sums[M] / size + eps): the factor takes the place of the sum."""
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = f32.shape[2]
    for m in range(M):
        for lane in range(lanes):
            f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(f32[block, sums + m, lane] / size + eps)


def scale_heads(block, acc, f32, x, factors, M, N):
    """x[M, N] *= factors[M]."""
    lanes = acc.shape[2]
    for m in range(M):
        for e in range(x + m * N, x + m * N + N):
            for lane in range(lanes):
                value = acc[block, e, lane]
                acc[block, e, lane] = narrow(widen(value) * f32[block, factors + m, lane], value)


def rms_scale_sums(block, acc, x, sums, M, N, size, eps_atto):
    """x[M, N] /= sqrt(sums[M] / size + eps)."""
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
    """`rms_scale_sums` for the PE's own share (`share_of_place`) of the n features of parts of x[M, parts, n]."""
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    scales = lane_values(lanes)
    first, last = share_of_place(block_row, length, groups, n)
    for m in range(M):
        for lane in range(lanes):
            scales[lane] = np.float32(1.0) / np.sqrt(widen(acc[block, sums + m, lane]) / size + eps)
        for part in range(parts):
            for e in range(x + (m * parts + part) * n + first, x + (m * parts + part) * n + last):
                for lane in range(lanes):
                    acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * scales[lane], acc[block, e, lane])


def l2_scale(block, act, f32, x, sums, M, K, size, eps_atto):
    """x[M, K] /= sqrt(sums[M] / size + eps): the scaling without a gain; the factor takes the place of the sum."""
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
    """sums[M, 2] = sum over K of x[M, K] and of its squares, in float32."""
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
    """sums[M, 2] = sum over K of x[M, K] and of its squares; out[M, K] = gain[K] * x[M, K]."""
    lanes = act.shape[2]
    for m in range(M):
        first, second = sums + 2 * m, sums + 2 * m + 1
        for lane in range(lanes):
            acc[block, first, lane] = narrow(np.float32(0.0), acc[block, first, lane])
            acc[block, second, lane] = narrow(np.float32(0.0), acc[block, second, lane])
        for k in range(K):
            for lane in range(lanes):
                stored = act[block, x + m * K + k, lane]
                value, total, squares = widen(stored), acc[block, first, lane], acc[block, second, lane]
                acc[block, first, lane] = narrow(widen(total) + value, total)
                acc[block, second, lane] = narrow(widen(squares) + value * value, squares)
                act[block, out + m * K + k, lane] = narrow(widen(wgt[block, gain + k, lane]) * value, stored)


def layer_scale_sums(block, acc, f32, x, sums, of_gain, of_bias, M, N, size, eps_atto):
    """x[M, N] = (x[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N].

    ``sums[M, 2]`` are the sums of ``size`` values and of their squares.
    """
    size, eps = np.float32(size), np.float32(eps_atto * 1e-18)
    lanes = acc.shape[2]
    for m in range(M):
        for n in range(N):
            for lane in range(lanes):
                stored = acc[block, x + m * N + n, lane]
                mean = widen(acc[block, sums + 2 * m, lane]) / size
                square = widen(acc[block, sums + 2 * m + 1, lane]) / size
                scale = np.float32(1.0) / np.sqrt(max(square - mean * mean, np.float32(0.0)) + eps)
                centred = widen(stored) - mean * f32[block, of_gain + n, lane]
                acc[block, x + m * N + n, lane] = narrow(centred * scale + f32[block, of_bias + n, lane], stored)


def layer_scale(block, act, wgt, f32, x, sums, gain, bias, out, M, K, size, eps_atto, offset):
    """out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K].

    ``sums[M, 2]`` are the sums of ``size`` values and of their squares; mean and factor take their places.
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
                gained = (widen(wgt[block, gain + k, lane]) + offset) * scaled
                act[block, out + m * K + k, lane] = narrow(gained + widen(wgt[block, bias + k, lane]), value)
