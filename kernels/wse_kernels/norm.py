"""Normalisation: the local sums, and the scaling once all PEs know the sums of all."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def sum_squares(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[M] = sum over K of act[M, K] ** 2, in float32. Operands: 3 act, 4 f32, 5 M, 6 K."""
    x, out, M, K = a[3], a[4], a[5], a[6]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                f32[block, out + m, lane] = np.float32(0.0)
            for k in range(K):
                for lane in range(lanes):
                    value = widen(act[block, x + m * K + k, lane])
                    f32[block, out + m, lane] += value * value


def rms_scale(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sum[M] / size + eps)); the factor takes the place of the sum.

    Rounds to the element type before a gain without offset, as Hugging Face transformers does (and not before one with
    it). Operands: 3 x, 4 f32 sums, 5 gain (in wgt), 6 result, 7 M, 8 K, 9 the normalised size, 10 eps in units of
    1e-18, 11 offset.
    """
    x, sums, gain, out, M, K = a[3], a[4], a[5], a[6], a[7], a[8]
    size, offset = np.float32(a[9]), np.float32(a[11])
    eps = np.float32(a[10] * 1e-18)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
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


def l2_scale(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, K] /= sqrt(sum[M] / size + eps): the scaling without a gain; the factor takes the place of the sum.

    Operands: 3 act, 4 f32 sums, 5 M, 6 K, 7 the normalised size, 8 eps in units of 1e-18.
    """
    x, sums, M, K = a[3], a[4], a[5], a[6]
    size, eps = np.float32(a[7]), np.float32(a[8] * 1e-18)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                mean = f32[block, sums + m, lane] / size
                f32[block, sums + m, lane] = np.float32(1.0) / np.sqrt(mean + eps)
            for e in range(x + m * K, x + m * K + K):
                for lane in range(lanes):
                    value = act[block, e, lane]
                    act[block, e, lane] = narrow(widen(value) * f32[block, sums + m, lane], value)


def moments(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[M, 2] = sum over K of act[M, K] and of its squares, in float32. Operands: 3 act, 4 f32, 5 M, 6 K."""
    x, out, M, K = a[3], a[4], a[5], a[6]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                f32[block, out + 2 * m, lane] = np.float32(0.0)
                f32[block, out + 2 * m + 1, lane] = np.float32(0.0)
            for k in range(K):
                for lane in range(lanes):
                    value = widen(act[block, x + m * K + k, lane])
                    f32[block, out + 2 * m, lane] += value
                    f32[block, out + 2 * m + 1, lane] += value * value


def layer_scale(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K].

    The mean and the factor take the places of the sums of values and of squares ``[M, 2]``. Operands: 3 x, 4 f32 sums,
    5 gain and 6 bias (in wgt), 7 result, 8 M, 9 K, 10 the normalised size, 11 eps in units of 1e-18, 12 offset.
    """
    x, sums, gain, bias, out, M, K = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    size, offset = np.float32(a[10]), np.float32(a[12])
    eps = np.float32(a[11] * 1e-18)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
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
