"""The oracles of the kernels of attention over a latent cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import I64, Sram

I32 = npt.NDArray[np.int32]


def place_heads(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, H, n] = the row's heads acc[M, Hl, n] where they belong, zeros elsewhere."""
    x, heads, out, M, H, Hl, n = a[3:10]
    for pe in pes.pes(a):
        placed = np.zeros((M, H + 1, n), np.float32)
        placed[:, pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("acc", x, M, Hl, n)
        pe.write("acc", out, placed[:, 1:])


def place_rotated(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, H, n] = those of the row's features acc[M, Hl, K] that the column wants, zeros elsewhere."""
    x, heads, first, wanted, out, M, H, Hl, K, n, stride = a[3:14]
    for pe in pes.pes(a):
        start, columns = pe.read("f32", first, 1), pe.read("f32", wanted, n)
        mine = np.stack([pe.read("acc", x + m * stride, Hl, K) for m in range(M)])
        placed = np.zeros((M, H + 1, n), np.float32)
        for i, head in enumerate(pe.read("f32", heads, Hl).astype(np.int64)):
            for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
                placed[:, head, j] = mine[:, i, k]
        pe.write("acc", out, placed[:, 1:])


def pick_heads(pes: Sram, ctl: I32, a: I64) -> None:
    """act[Hl, M, n] = the row's heads of act[M, H, n], head by head; zeros for padding."""
    x, heads, out, M, H, Hl, n = a[3:10]
    for pe in pes.pes(a):
        padded = np.concatenate([np.zeros((M, 1, n), np.float32), pe.read("act", x, M, H, n)], axis=1)
        pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def turn_block(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] = what a PE's block act[M, K] of a vector and its block on the other axis share, zeros elsewhere."""
    x, out, M, K, N, to_rows = a[3:9]
    for pe in pes.pes(a):
        here, there = (pe.col, pe.row) if to_rows else (pe.row, pe.col)
        whole = np.zeros((M, (here + 1) * K + (there + 1) * N), np.float32)
        whole[:, here * K : (here + 1) * K] = pe.read("act", x, M, K)
        pe.write("acc", out, whole[:, there * N : (there + 1) * N])
