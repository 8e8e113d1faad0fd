"""Compute kernels for both ends of a model: embedding lookup, and argmax over the logits.

Token ids and vocabulary indices are stored as float32 values, which are exact up to 2 ** 24.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.operands.group import Place


def embedding_lookup(place: Place, wgt, acc, f32, ids, table, out, M, K, V):
    """Look up the embeddings of tokens in the rows of the table that this column of PEs stores.

    out[M, K] = table[ids[M] - column * V, K] if the column stores the embedding of that id, else 0.
    Column c stores ids c * V to (c + 1) * V - 1, so a sum over the columns gives every embedding.

    Args:
        place: Position of the block (group of neighbouring PEs).
        wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ids: Address of the float32 token ids [M].
        table: Address of the embeddings [V, K].
        out: Address of the results [M, K] in the accumulator type.
        M, K, V: Numbers of tokens, features per PE, and ids per column.
    """
    block, lanes = place.block, acc.shape[2]
    tokens = lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            tokens[lane] = f32[block, ids + m, lane]
        clear_rows(acc, block, out + m * K, K)
        for lane in range(lanes):
            local = np.int64(tokens[lane]) - (place.col + lane) * V
            if local >= 0 and local < V:
                for k in range(K):
                    element = acc[block, out + m * K + k, lane]
                    acc[block, out + m * K + k, lane] = narrow(widen(wgt[block, table + local * K + k, lane]), element)


def add_positions(place: Place, wgt, acc, ctl, x, table, M, K, V, row):
    """Add learned position embeddings from the rows of the table that this column of PEs stores.

    x[M, K] += table[position - column * V, K] if the column stores the position. Column c stores
    positions c * V to (c + 1) * V - 1.

    Args:
        place: Position of the block (group of neighbouring PEs).
        wgt, acc: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        x: Address of the values [M, K] in the accumulator type, changed in place.
        table: Address of the position embeddings [V, K].
        M, K, V: Numbers of tokens, features per PE, and positions per column.
        row: Mesh row whose counters give the position of the first token.
    """
    block, lanes = place.block, acc.shape[2]
    for m in range(M):
        for lane in range(lanes):
            local = ctl[row, 0] + m - (place.col + lane) * V
            if local >= 0 and local < V:
                for k in range(K):
                    old = acc[block, x + m * K + k, lane]
                    acc[block, x + m * K + k, lane] = narrow(
                        widen(old) + widen(wgt[block, table + local * K + k, lane]), old
                    )


def argmax_fold(place: Place, acc, f32, logits, pair, n, V, first, vocabulary, fold):
    """Find the largest logit of this PE and its vocabulary index: pair[2] = (logit, index).

    If ``fold`` is 1, the stored pair of earlier logits also takes part in the comparison. On a tie,
    the lower index wins. Indices of ``vocabulary`` and above are padding and never win.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        logits: Address of the logits [n] in the accumulator type.
        pair: Address of the float32 pair [2].
        n, V: Number of logits to examine, and number of vocabulary ids per mesh column.
        first: Index of the first logit within the column's V ids.
        vocabulary: Size of the vocabulary.
        fold: 1 to compare with the pair that is already stored, 0 to ignore it.
    """
    block, _, first_col = place
    lanes = acc.shape[2]
    best_logits, best_indices = lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        best_logits[lane] = f32[block, pair, lane] if fold == 1 else np.float32(-3.0e38)
        best_indices[lane] = f32[block, pair + 1, lane] if fold == 1 else np.float32(-1.0)
    for e in range(min(n, V - first)):
        for lane in range(lanes):
            candidate = (first_col + lane) * V + first + e
            logit = widen(acc[block, logits + e, lane])
            is_larger = (candidate < vocabulary) & (logit > best_logits[lane])
            best_indices[lane] = np.float32(candidate) if is_larger else best_indices[lane]
            best_logits[lane] = logit if is_larger else best_logits[lane]
    for lane in range(lanes):
        f32[block, pair, lane] = best_logits[lane]
        f32[block, pair + 1, lane] = best_indices[lane]


def pair_indices(block, f32, pairs, out, n):
    """Extract the indices from (value, index) pairs: out[n] = pairs[n, 1].

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        pairs: Address of the float32 pairs [n, 2].
        out: Address of the float32 indices [n].
        n: Number of pairs.
    """
    lanes = f32.shape[2]
    for i in range(n):
        for lane in range(lanes):
            f32[block, out + i, lane] = f32[block, pairs + 2 * i + 1, lane]
