"""Moves between vectors cut over rows and vectors cut over columns, for attention over a latent cache.

A PE keeps what its row and its column share of a vector and zeros elsewhere; an all-reduce then brings the whole part
of its new axis to every PE. Which heads a row has, and which rotated features a row and a column have, stand in tables
of ordinals, 1 for the first and 0 for padding; those of a row are the same in all lanes.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._elements import clear_rows, narrow, widen


def place_heads(block, acc, f32, x, heads, out, M, H, Hl, n):
    """out[M, H, n] = the row's heads x[M, Hl, n] where they belong, zeros elsewhere; heads[Hl] are their ordinals."""
    lanes = acc.shape[2]
    clear_rows(acc, block, out, M * H * n)
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h < 0:
            continue
        for m in range(M):
            for e in range(n):
                for lane in range(lanes):
                    acc[block, out + (m * H + h) * n + e, lane] = acc[block, x + (m * Hl + i) * n + e, lane]


def place_rotated(block, acc, f32, x, heads, first, feature_ordinals, out, M, H, Hl, K, n, stride):
    """out[M, H, n] = the row's features x[M, Hl, K] that the column needs, zeros elsewhere.

    A row has neighbouring features, the first with ordinal ``first``; ``heads[Hl]`` are the ordinals of its heads,
    ``feature_ordinals[n]`` those of the features that the column needs, and ``stride`` is that of ``x`` along M.
    """
    lanes = acc.shape[2]
    clear_rows(acc, block, out, M * H * n)
    start = np.int64(f32[block, first, 0])
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h < 0 or start == 0:
            continue
        for j in range(n):
            for lane in range(lanes):
                k = np.int64(f32[block, feature_ordinals + j, lane]) - start
                if k >= 0 and k < K:
                    for m in range(M):
                        source = acc[block, x + m * stride + i * K + k, lane]
                        acc[block, out + (m * H + h) * n + j, lane] = source


def pick_rotated(block, acc, f32, x, first, feature_ordinals, out, Hl, K, n):
    """out[Hl, n] = the features of the row's heads x[Hl, K] that the column needs, zeros for those of other rows.

    ``first`` and ``feature_ordinals`` are those of `place_rotated`.
    """
    lanes = acc.shape[2]
    clear_rows(acc, block, out, Hl * n)
    start = np.int64(f32[block, first, 0])
    for j in range(n):
        for lane in range(lanes):
            k = np.int64(f32[block, feature_ordinals + j, lane]) - start
            if start > 0 and k >= 0 and k < K:
                for i in range(Hl):
                    acc[block, out + i * n + j, lane] = acc[block, x + i * K + k, lane]


def set_heads(block, act, acc, f32, x, heads, out, H, Hl, n):
    """out[H, n] = the row's heads x[Hl, n] where they belong, and what was there elsewhere; ``heads[Hl]`` as above."""
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        if h >= 0 and h < H:
            for e in range(n):
                for lane in range(lanes):
                    like = acc[block, out + h * n + e, lane]
                    acc[block, out + h * n + e, lane] = narrow(widen(act[block, x + i * n + e, lane]), like)


def pick_heads(block, act, f32, x, heads, out, M, H, Hl, n):
    """out[Hl, M, n] = the row's heads of x[M, H, n], head by head; heads[Hl] are their ordinals; zeros for padding."""
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        for m in range(M):
            source, target = x + (m * H + h) * n, out + (i * M + m) * n
            for e in range(n):
                for lane in range(lanes):
                    zero = narrow(np.float32(0.0), act[block, target + e, lane])
                    act[block, target + e, lane] = act[block, source + e, lane] if h >= 0 else zero


def finish_heads(block, act, acc, f32, x, sums, heads, out, M, H, Hl, n):
    """out[Hl, M, n] = the row's heads of x[M, H, n] / sums[M, H], head by head; heads[Hl] are their ordinals.

    Zeros for padding, and where a sum is not positive.
    """
    lanes = act.shape[2]
    for i in range(Hl):
        h = np.int64(f32[block, heads + i, 0]) - 1
        for m in range(M):
            mh, target = m * H + max(h, 0), out + (i * M + m) * n
            for e in range(n):
                for lane in range(lanes):
                    total = f32[block, sums + mh, lane] if h >= 0 else np.float32(0.0)
                    value = widen(acc[block, x + mh * n + e, lane]) / total if total > 0.0 else np.float32(0.0)
                    act[block, target + e, lane] = narrow(value, act[block, target + e, lane])


def turn_block(block, block_row, block_col, act, acc, x, out, M, K, N, first_col, to_rows):
    """out[M, N] = what a PE's block x[M, K] of a vector and its block on the other axis share, zeros elsewhere.

    The vector is cut into blocks of K over rows and of N over columns from ``first_col`` on, or the other way round;
    ``to_rows`` is 1 when the result is cut over rows.
    """
    lanes = act.shape[2]
    for lane in range(lanes):
        col = block_col + lane - first_col
        first = block_row * N - col * K if to_rows == 1 else col * N - block_row * K
        for m in range(M):
            for e in range(N):
                value = np.float32(0.0)
                if first + e >= 0 and first + e < K:
                    value = widen(act[block, x + m * K + first + e, lane])
                acc[block, out + m * N + e, lane] = narrow(value, acc[block, out + m * N + e, lane])
