"""The oracles of normalisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Sram

I32 = npt.NDArray[np.int32]

ATTO = 1e-18


def sum_squares(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M] = sum over K of act[M, K] ** 2."""
    x, out, M, K = a[3:7]
    for pe in pes.pes(a):
        X = pe.read("act", x, M, K)
        total = np.zeros(M, np.float32)
        for k in range(K):
            total += X[:, k] * X[:, k]
        pe.write("f32", out, total)


def rms_scale(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sum[M] / size + eps)); the factor takes the place of the sum."""
    x, sums, gain, out, M, K, size, eps_atto, offset = a[3:12]
    for pe in pes.pes(a):
        factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
        scaled = pe.read("act", x, M, K) * factor[:, None]
        scaled = scaled if offset else pe.rounded("act", scaled)
        pe.write("f32", sums, factor)
        pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * scaled)


def l2_scale(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, K] /= sqrt(sum[M] / size + eps); the factor takes the place of the sum."""
    x, sums, M, K, size, eps_atto = a[3:9]
    for pe in pes.pes(a):
        factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
        pe.write("act", x, pe.read("act", x, M, K) * factor[:, None])
        pe.write("f32", sums, factor)


def _rms_factor(squares: F32, size: np.int64, eps_atto: np.int64) -> F32:
    factor: F32 = np.float32(1.0) / np.sqrt(squares / np.float32(size) + np.float32(eps_atto * ATTO))
    return factor


def moments(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, 2] = sum over K of act[M, K] and of act[M, K] ** 2."""
    x, sums, M, K = a[3:7]
    for pe in pes.pes(a):
        X = pe.read("act", x, M, K)
        total = np.zeros((M, 2), np.float32)
        for k in range(K):
            total += np.stack([X[:, k], X[:, k] * X[:, k]], axis=1)
        pe.write("f32", sums, total)


def layer_scale(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K]."""
    x, sums, gain, bias, out, M, K, size, eps_atto, offset = a[3:13]
    for pe in pes.pes(a):
        mean, squares = (pe.read("f32", sums, M, 2) / np.float32(size)).T
        variance = np.maximum(squares - mean * mean, np.float32(0.0))
        factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
        scaled = (pe.read("act", x, M, K) - mean[:, None]) * factor[:, None]
        pe.write("f32", sums, np.stack([mean, factor], axis=1))
        gained = (pe.read("wgt", gain, K) + np.float32(offset)) * scaled
        pe.write("act", out, gained + pe.read("wgt", bias, K))
