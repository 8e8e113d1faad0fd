"""Oracles of both ends of a model: table look-ups, and arg max over logits."""

from __future__ import annotations

import numpy as np

from wse_kernels.oracle.memory import LOWEST


def embedding_lookup(pe, ids, table, out, M, K, V):
    """Look up the embeddings of tokens in the rows of the table that this column of PEs stores.

    out[M, K] = table[ids[M] - column * V, K] if the column stores the embedding of that id, else 0.
    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ids: Address of the float32 token ids [M].
        table: Address of the embeddings [V, K].
        out: Address of the results [M, K] in the accumulator type.
        M, K, V: Numbers of tokens, features per PE, and ids per column.
    """
    rows = np.zeros((M, K), np.float32)
    for m, token in enumerate(pe.read("f32", ids, M).astype(np.int64)):
        if pe.col * V <= token < (pe.col + 1) * V:
            rows[m] = pe.read("wgt", table + (token - pe.col * V) * K, K)
    pe.write("acc", out, rows)


def add_positions(pe, ctl, x, table, M, K, V, row):
    """Add learned position embeddings from the rows of the table that this column of PEs stores.

    x[M, K] += table[position - column * V, K] if the column stores the position. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        x: Address of the values [M, K] in the accumulator type, changed in place.
        table: Address of the position embeddings [V, K].
        M, K, V: Numbers of tokens, features per PE, and positions per column.
        row: Mesh row whose counters give the position of the first token.
    """
    sums = pe.read("acc", x, M, K)
    for m in range(M):
        local = ctl[row, 0] + m - pe.col * V
        if 0 <= local < V:
            sums[m] += pe.read("wgt", table + local * K, K)
    pe.write("acc", x, sums)


def argmax_fold(pe, logits, pair, n, V, first, vocabulary, fold):
    """Find the largest logit and its vocabulary index: pair[2] = (logit, index).

    On a tie, the lower index wins. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        logits: Address of the logits [n] in the accumulator type.
        pair: Address of the float32 pair [2].
        n, V: Number of logits to examine, and number of vocabulary ids per mesh column.
        first: Index of the first logit within the column's V ids.
        vocabulary: Size of the vocabulary.
        fold: 1 to compare with the pair that is already stored, 0 to ignore it.
    """
    best, index = pe.read("f32", pair, 2) if fold else (LOWEST, np.float32(-1.0))
    for e, logit in enumerate(pe.read("acc", logits, n)):
        candidate = pe.col * V + first + e
        if first + e < V and candidate < vocabulary and logit > best:
            best, index = logit, np.float32(candidate)
    pe.write("f32", pair, np.array([best, index], np.float32))


def pair_indices(pe, pairs, out, n):
    """Extract the indices from float32 (value, index) pairs: out[n] = pairs[n, 1].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        pairs: Address of the float32 pairs [n, 2].
        out: Address of the float32 indices [n].
        n: Number of pairs.
    """
    pe.write("f32", out, pe.read("f32", pairs, n, 2)[:, 1])
