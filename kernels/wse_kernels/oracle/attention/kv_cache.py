"""Oracles that append to a KV cache, and that multiply by its keys and values."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.attention import CacheAppend, HeadShape
from wse_kernels.oracle.attention.visible_entries import slots_of


def kv_append(pe, ctl, at: CacheAppend, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this mesh row into its KV cache.

    Every ``stride``-th new token belongs to the row. Slots wrap around the end of the cache. This
    NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of the new keys and values, and of the caches.
        E, Ev: Number of elements of a key and of a value on this PE, over all heads.
        capacity: Number of slots in the cache.
        tokens: Unused here. Maximum number of tokens that a row appends, used by the cycle model.
        stride: The row appends every ``stride``-th of the new tokens, starting with its first
            token.
    """
    first, count, slot = ctl[pe.row, 2:5]
    for i in range(count):
        for new, cache, n in ((at.k, at.k_cache, E), (at.v, at.v_cache, Ev)):
            pe.move("act", new + (first + i * stride) * n, cache + (slot + i) % capacity * n, n)


def attention_scores(pe, ctl, q, k, out, shape: HeadShape, capacity, add):
    """Compute the scores of queries with the cached keys of this PE.

    out[M, H, T] = q[M, H, F] . k[T, Hk, F], where the dot products are over the F features that
    this PE stores. This NumPy reference for one PE is used to test the compiled kernel of the same
    name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        q: Address of the queries [M, H, F].
        k: Address of the key cache [capacity, Hk, F].
        out: Address of the scores [M, H, T] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
        add: 0 to overwrite ``out``; any other value to add to it.
    """
    M, Hk, queries_per_kv, F, T = shape
    Q = pe.read("act", q, M, Hk, queries_per_kv, 1, F)
    keys = pe.read("act", k, capacity, Hk, F)[slots_of(ctl, pe.row, T, capacity)].transpose(1, 0, 2)
    total = pe.read("acc", out, M, Hk, queries_per_kv, T) if add else np.zeros((M, Hk, queries_per_kv, T), np.float32)
    for f in range(F):
        total = pe.round_to("acc", total + Q[..., f] * keys[:, None, :, f])
    pe.write("acc", out, total)


def attention_values(pe, ctl, p, v, out, shape: HeadShape, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        p: Address of the softmax weights [M, H, T].
        v: Address of the value cache [capacity, Hk, F].
        out: Address of the sums [M, H, F] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    M, Hk, queries_per_kv, F, T = shape
    weights = pe.read("act", p, M, Hk, queries_per_kv, T)
    values = pe.read("act", v, capacity, Hk, F)[slots_of(ctl, pe.row, T, capacity)]
    total = np.zeros((M, Hk, queries_per_kv, F), np.float32)
    for t in range(T):
        total = pe.round_to("acc", total + weights[..., t, None] * values[t, :, None, :])
    pe.write("acc", out, total)
