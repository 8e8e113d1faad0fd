"""The oracles of the products with quantised weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Bytes, Pe, Sram, e4m3

I32 = npt.NDArray[np.int32]


def matmul_int8(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] = scale[N] * (act[M, K] @ int8[K, N])."""
    _one_scale(pes, a, lambda codes: codes.view(np.int8).astype(np.float32))


def matmul_fp8(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] = scale[N] * (act[M, K] @ e4m3[K, N])."""
    _one_scale(pes, a, e4m3)


def matmul_int4(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] = act[M, K] @ (int4[K, N] * scale[group[K], N])."""
    x, w, groups, scale, scratch, out, M, K, N, G, rows = a[3:14]
    for pe in pes.pes(a):
        pairs = pe.bytes(w, (K + 1) // 2 * N).reshape(-1, N)
        codes = np.stack([pairs & 0xF, pairs >> 4], axis=1).reshape(-1, N)[:K].astype(np.float32)
        codes = np.where(codes > 7, codes - 16, codes)
        of_row = pe.bytes(groups, K).astype(np.int64)
        scales = pe.read("wgt", scale, G, N)
        pe.write("acc", out, _sums(pe, x, pe.rounded("act", codes * scales[of_row]), M, K, N))
        _leave(pe, scratch, codes * scales[of_row], rows)


def _one_scale(pes: Sram, a: I64, value: Callable[[Bytes], F32]) -> None:
    x, w, scale, scratch, out, M, K, N, rows = a[3:12]
    for pe in pes.pes(a):
        codes = value(pe.bytes(w, K * N)).reshape(K, N)
        pe.write("acc", out, pe.rounded("acc", _sums(pe, x, codes, M, K, N)) * pe.read("wgt", scale, N))
        _leave(pe, scratch, codes, rows)


def _sums(pe: Pe, x: int, weights: F32, M: int, K: int, N: int) -> F32:
    """act[M, K] @ weights[K, N], one k after another."""
    X = pe.read("act", x, M, K)
    total = np.zeros((M, N), np.float32)
    for k in range(K):
        total = pe.rounded("acc", total + X[:, k, None] * weights[k])
    return total


def _leave(pe: Pe, scratch: int, weights: F32, rows: int) -> None:
    """What unpacking leaves in the scratch rows: each holds the last row of weights that was put there."""
    for k in range(len(weights)):
        pe.write("act", scratch + k % rows * weights.shape[1], weights[k])
