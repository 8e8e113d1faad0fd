"""The two ends of a model: looking token ids and positions up in their tables, and the arg max over the logits.

Token ids and vocabulary indices are held as float32 values, which are exact up to 2 ** 24.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._lanes import lane_values


def embedding_lookup(block, block_col, wgt, acc, f32, ids, table, out, M, K, V):
    """out[M, K] = table[id - column * V, K] where this column stores the id of ids[M], else 0.

    Column c holds ids c * V to (c + 1) * V - 1.
    """
    lanes = acc.shape[2]
    tokens = lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            tokens[lane] = f32[block, ids + m, lane]
        clear_rows(acc, block, out + m * K, K)
        for lane in range(lanes):
            local = np.int64(tokens[lane]) - (block_col + lane) * V
            if local >= 0 and local < V:
                for k in range(K):
                    like = acc[block, out + m * K + k, lane]
                    acc[block, out + m * K + k, lane] = narrow(widen(wgt[block, table + local * K + k, lane]), like)


def add_positions(block, block_col, wgt, acc, ctl, x, table, M, K, V, row):
    """x[M, K] += table[position - column * V, K] where this column stores the position, for the tokens of one ``row``.

    Column c holds positions c * V to (c + 1) * V - 1.
    """
    lanes = acc.shape[2]
    for m in range(M):
        for lane in range(lanes):
            local = ctl[row, 0] + m - (block_col + lane) * V
            if local >= 0 and local < V:
                for k in range(K):
                    old = acc[block, x + m * K + k, lane]
                    acc[block, x + m * K + k, lane] = narrow(
                        widen(old) + widen(wgt[block, table + local * K + k, lane]), old
                    )


def argmax_fold(block, block_col, acc, f32, logits, pair, n, V, first, vocabulary, fold):
    """pair[2] = (largest logit, its vocabulary index), over logits[n] and, where ``fold`` is 1, the pair there before.

    The lower index wins a tie. A column has V ids; ``first`` is the local index of the first logit.
    """
    lanes = acc.shape[2]
    largest, indices = lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        largest[lane] = f32[block, pair, lane] if fold == 1 else np.float32(-3.0e38)
        indices[lane] = f32[block, pair + 1, lane] if fold == 1 else np.float32(-1.0)
    for e in range(min(n, V - first)):
        for lane in range(lanes):
            candidate = (block_col + lane) * V + first + e
            logit = widen(acc[block, logits + e, lane])
            larger = (candidate < vocabulary) & (logit > largest[lane])
            indices[lane] = np.float32(candidate) if larger else indices[lane]
            largest[lane] = logit if larger else largest[lane]
    for lane in range(lanes):
        f32[block, pair, lane] = largest[lane]
        f32[block, pair + 1, lane] = indices[lane]


def pair_indices(block, f32, pairs, out, n):
    """out[n] = the second members of pairs[n, 2]."""
    lanes = f32.shape[2]
    for i in range(n):
        for lane in range(lanes):
            f32[block, out + i, lane] = f32[block, pairs + 2 * i + 1, lane]
