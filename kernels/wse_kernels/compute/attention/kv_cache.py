"""Kernels that append to the KV cache of a PE, and that multiply by its keys and values."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import clear_rows, copy_elements
from wse_kernels.codegen.jit import helper_function
from wse_kernels.compute.attention._visible_entries import OLDEST
from wse_kernels.operands.attention import CacheAppend, HeadShape
from wse_kernels.operands.group import Place
from wse_kernels.products.chunk_product import multiply_chunk
from wse_kernels.products.tiles import ProductRows, Tile


def kv_append(place: Place, act, ctl, at: CacheAppend, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this mesh row into its KV cache.

    The row's counters ``ctl`` specify which of the new tokens it appends: the first token (word 2),
    the number of tokens (word 3), and the slot of the first token (word 4). Slots wrap around the
    end of the cache.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act: SRAM as activation elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        at: Addresses of the new keys and values, and of the caches.
        E, Ev: Number of elements of a key and of a value on this PE, over all heads.
        capacity: Number of slots in the cache.
        tokens: Unused here. Maximum number of tokens that a row appends, used by the cycle model.
        stride: The row appends every ``stride``-th of the new tokens, starting with its first
            token.
    """
    block, row, _ = place
    for i in range(ctl[row, 3]):
        source, target = ctl[row, 2] + i * stride, (ctl[row, 4] + i) % capacity
        copy_elements(act, block, at.k_cache + target * E, at.k + source * E, E)
        copy_elements(act, block, at.v_cache + target * Ev, at.v + source * Ev, Ev)


def attention_scores(place: Place, act, acc, ctl, q, k, out, shape: HeadShape, capacity, add):
    """Compute the dot products of queries and cached keys on every PE of a block.

    ``out[m, h, t] = sum over f of q[m, h, f] * k[t, h // queries_per_kv, f]``, where the sum is over
    the F features that a PE stores.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        q: Address of the queries [M, H, F].
        k: Address of the key cache [capacity, Hk, F].
        out: Address of the scores [M, H, T] in the accumulator type.
        shape: M tokens, Hk KV heads, H / Hk query heads per KV head, F features, T entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
        add: 0 to overwrite ``out``; any other value to add to it.
    """
    M, Hk, queries_per_kv, F, T = shape
    E, count = Hk * F, max(M, queries_per_kv)
    for i in range(M * Hk * queries_per_kv // count):
        row, kv_head, step = _rows_of_product(i, M, Hk, queries_per_kv)
        start, slot = 0, np.int64(ctl[place.row, OLDEST])
        while start < T:  # up to the end of the cache, then from its start
            entries = min(T - start, capacity - slot)
            rows = ProductRows(count, out + row * T + start, step * T, q + row * F, step * F)
            keys = Tile(k + slot * E + kv_head * F, F, entries, 1, E)
            multiply_chunk((acc, act, act), place.block, rows, keys, add)
            start, slot = start + entries, np.int64(0)


def attention_values(place: Place, act, acc, ctl, p, v, out, shape: HeadShape, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    The sum is over the T entries that this row stores.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        p: Address of the softmax weights [M, H, T].
        v: Address of the value cache [capacity, Hk, F].
        out: Address of the sums [M, H, F] in the accumulator type.
        shape: M tokens, Hk KV heads, H / Hk query heads per KV head, F features, T entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    M, Hk, queries_per_kv, F, T = shape
    E, count = Hk * F, max(M, queries_per_kv)
    if T == 0:
        clear_rows(acc, place.block, out, M * Hk * queries_per_kv * F)
    for i in range(M * Hk * queries_per_kv // count):
        row, kv_head, step = _rows_of_product(i, M, Hk, queries_per_kv)
        start, slot = 0, np.int64(ctl[place.row, OLDEST])
        while start < T:  # up to the end of the cache, then from its start
            entries = min(T - start, capacity - slot)
            rows = ProductRows(count, out + row * F, step * F, p + row * T + start, step * T)
            values = Tile(v + slot * E + kv_head * F, entries, F, E, 1)
            multiply_chunk((acc, act, act), place.block, rows, values, 1 if start > 0 else 0)
            start, slot = start + entries, np.int64(0)


@helper_function
def _rows_of_product(i, M, Hk, queries_per_kv):
    """Return the query rows that matrix product ``i`` multiplies by the cache of one KV head.

    Queries [M, H] have one row per token and query head. A product contains all tokens of one query
    head, or all query heads of one token and KV head, whichever yields more rows.

    Args:
        i: Index of the product.
        M, Hk, queries_per_kv: Numbers of tokens, KV heads, and query heads per KV head.

    Returns:
        Index of the first row, index of the KV head, and row stride.
    """
    if queries_per_kv > M:
        return i * queries_per_kv, i % Hk, 1
    return i, i // queries_per_kv, Hk * queries_per_kv
