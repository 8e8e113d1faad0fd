"""The two ends of a model: looking token ids and positions up in their tables, and the arg max over the logits.

Token ids and vocabulary indices are held as float32 values, which are exact up to 2 ** 24.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen


def embedding_lookup(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, K] = wgt[id - first, K] where this column holds the id, else 0.

    Column c holds ids c * V to (c + 1) * V - 1. Operands: 3 f32 ids ``[M]``, 4 wgt ``[V, K]``, 5 acc, 6 M, 7 K, 8 V.
    """
    ids, table, out, M, K, V = a[3], a[4], a[5], a[6], a[7], a[8]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                column = (block % a[2]) * lanes + lane
                local = np.int64(f32[block, ids + m, lane]) - column * V
                here = local >= 0 and local < V
                for k in range(K):
                    like = acc[block, out + m * K + k, lane]
                    value = widen(wgt[block, table + local * K + k, lane]) if here else np.float32(0.0)
                    acc[block, out + m * K + k, lane] = narrow(value, like)


def add_positions(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, K] += wgt[position - first, K] where this column holds the position, for the tokens of one row.

    Column c holds positions c * V to (c + 1) * V - 1. Operands: 3 acc, 4 wgt ``[V, K]``, 5 M, 6 K, 7 V, 8 the row.
    """
    out, table, M, K, V = a[3], a[4], a[5], a[6], a[7]
    lanes = acc.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for m in range(M):
            for lane in range(lanes):
                local = ctl[a[8], 0] + m - ((block % a[2]) * lanes + lane) * V
                if local >= 0 and local < V:
                    for k in range(K):
                        old = acc[block, out + m * K + k, lane]
                        acc[block, out + m * K + k, lane] = narrow(
                            widen(old) + widen(wgt[block, table + local * K + k, lane]), old
                        )


def argmax_fold(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[2] = (largest logit, its vocabulary index), over this call's logits and, if asked, the pair held.

    The lower index wins a tie. Operands: 3 acc logits ``[n]``, 4 f32 pair, 5 n, 6 ids a column, 7 the local
    index of the first logit, 8 vocabulary size, 9 is 1 to fold into the pair held.
    """
    logits, pair, n, V, first, vocabulary = a[3], a[4], a[5], a[6], a[7], a[8]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for lane in range(lanes):
            column = (block % a[2]) * lanes + lane
            best, index = np.float32(-3.0e38), np.float32(-1.0)
            if a[9] == 1:
                best, index = f32[block, pair, lane], f32[block, pair + 1, lane]
            for e in range(n):
                candidate = column * V + first + e
                logit = widen(acc[block, logits + e, lane])
                if candidate < vocabulary and first + e < V and logit > best:
                    best, index = logit, np.float32(candidate)
            f32[block, pair, lane] = best
            f32[block, pair + 1, lane] = index


def pair_indices(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[n] = the second members of f32[n, 2] pairs elsewhere. Operands: 3 pairs, 4 out, 5 n."""
    pairs, out, n = a[3], a[4], a[5]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for i in range(n):
            for lane in range(lanes):
                f32[block, out + i, lane] = f32[block, pairs + 2 * i + 1, lane]
