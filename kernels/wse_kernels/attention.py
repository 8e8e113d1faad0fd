"""Compute kernels of attention over the KV cache entries that a PE stores.

A PE stores T slots of its row, with F features of the heads of its column.

Caches are ``[slot, Hk, F]``. Queries are ``[M, H, F]``, where H is Hk times the number of queries
that share a KV head. The T entries of a row are read from the oldest entry on (``ctl`` word 7),
wrapping around the end of the cache.

An entry is visible to a token if all of the following hold:

1. Its position is not later than the token's.
2. It is at most ``window`` - 1 positions before the token's. A window of 0 means no limit.
3. It is in the same chunk of ``chunk`` positions as the token. A chunk of 0 means no chunks.
"""

from __future__ import annotations

import math

import numpy as np

from wse_kernels._chunk_product import multiply_chunk
from wse_kernels._elementary import exponential, power_of_two
from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values
from wse_kernels._online_softmax import fold_entries
from wse_kernels._slices import group_of_column, slice_of_place

OLDEST, SLOTS = 7, 8  # words of ctl: the oldest entry's slot, the first slot's position
LOWEST = np.float32(-3.0e38)
UNSEEN = np.float32(-np.inf)  # score of an entry that is not visible; its exponential is 0
ZERO = np.float32(0.0)
LOG2_E, LN_2 = np.float32(math.log2(math.e)), np.float32(math.log(2))
LEAST_EXPONENT = np.float32(-(2**22))  # up to this size, float32 represents integers and halves exactly
LEAST_NORMAL = np.float32(-126.0)  # exponent of the smallest normal float32
BY_COLUMN = -1  # in place of a capacity: columns have the entries of different rows


def kv_append(block, block_row, act, ctl, k, v, k_cache, v_cache, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this row into its cache slots.

    The row takes every ``stride``-th of the new tokens, beginning with ``ctl`` word 2. Word 3 is
    the number of tokens, word 4 the first slot. Slots wrap around the end of the cache.

    Args:
        block, block_row, act, ctl: Block of PEs, its mesh row, activation view of SRAM, and
            counters per row.
        k, v: Addresses of the new keys [M, E] and values [M, Ev].
        k_cache, v_cache: Addresses of the caches [capacity, E] and [capacity, Ev].
        E, Ev: Elements of a key and of a value on this PE, over all heads.
        capacity: Slots of the cache.
        tokens: Unused here. Maximum number of tokens that a row appends, for the cycle model.
        stride: Distance between two tokens of the same row, in tokens.
    """
    lanes = act.shape[2]
    for i in range(ctl[block_row, 3]):
        source, target = ctl[block_row, 2] + i * stride, (ctl[block_row, 4] + i) % capacity
        for e in range(E):
            for lane in range(lanes):
                act[block, k_cache + target * E + e, lane] = act[block, k + source * E + e, lane]
        for e in range(Ev):
            for lane in range(lanes):
                act[block, v_cache + target * Ev + e, lane] = act[block, v + source * Ev + e, lane]


def attention_scores(block, block_row, act, acc, ctl, q, k, out, M, Hk, queries_per_kv, F, T, capacity, add):
    """Compute local attention scores: out[M, H, T] = q[M, H, F] . k[T, Hk, F].

    The dot products are over the features that this PE stores. H is Hk * queries_per_kv.

    Args:
        block, block_row, act, acc, ctl: Block of PEs, its mesh row, views of SRAM, and counters per
            row.
        q, k: Addresses of the queries, and of the key cache [capacity, Hk, F].
        out: Address of the scores in the accumulator type.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; cache
            entries.
        capacity: Slots of the cache, in which the T entries wrap around.
        add: 0 to overwrite ``out``; any other value to add to it.
    """
    _over_slots(block, block_row, act, acc, ctl, q, k, out, M, Hk, queries_per_kv, F, T, capacity, 1, add)


def attention_max(
    block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, capacity
):
    """Compute the maximum visible score of each token and head: out[M, H], in float32.

    The maximum is over this row's T entries, times the scale. The result is -3e38 if no entry is
    visible.

    Args:
        block, block_row, block_col, acc, f32, ctl: Block of PEs, mesh row and column of its first
            PE, views of SRAM, and counters per row.
        scores, out: Addresses of the scores [M, H, T] in the accumulator type, and of the maxima.
        M, H, T: Tokens; query heads; cache entries.
        scale_pico: Scale of scores in units of 1e-12.
        window, chunk: Sliding window and attention chunk in tokens; 0 for none.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    oldest = ctl[block_row, OLDEST]
    _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, oldest, capacity)


def attention_exp(
    block, block_row, block_col, act, acc, f32, ctl,
    scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, capacity,
):  # fmt: skip
    """Compute unnormalised softmax weights out[M, H, T] and their local sums.

    out = exp(scale * scores - maxima), or 0 where an entry is not visible. sums[M, H] is the
    float32 sum of the rounded weights.

    Args:
        block, block_row, block_col, act, acc, f32, ctl: Block of PEs, mesh row and column of its
            first PE, views of SRAM, and counters per row.
        scores, maxima: Addresses of the scores [M, H, T] (accumulator type), and of float32 maxima
            [M, H].
        out, sums: Addresses of the weights in the activation type, and of the sums.
        M, H, T: Tokens; query heads; cache entries.
        scale_pico: Scale of scores in units of 1e-12.
        window, chunk: Sliding window and attention chunk in tokens; 0 for none.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    oldest = ctl[block_row, OLDEST]
    _exp(
        block, block_row, block_col, act, acc, f32, ctl,
        scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, oldest, capacity,
    )  # fmt: skip


def attention_exp_share(
    block, block_row, block_col, act, acc, f32, ctl,
    scores, maxima, out, M, H, T, scale_pico, window, chunk, capacity, first_col, columns, groups, sharers,
):  # fmt: skip
    """Compute the softmax weights of `attention_exp` that fall to this PE. Others become 0.

    Neighbouring columns have the same scores and divide the M * H * T weights among them. The
    ``columns`` columns from ``first_col`` on form ``groups`` groups, the larger ones first. A group
    of c columns is cut into c // sharers sets of columns, and each set divides all weights evenly.
    Columns outside of these compute none.

    Args:
        block, block_row, block_col, act, acc, f32, ctl: Block of PEs, mesh row and column of its
            first PE, views of SRAM, and counters per row.
        scores, maxima, out: Addresses, as in `attention_exp`.
        M, H, T, scale_pico, window, chunk, capacity: As in `attention_exp`.
        first_col, columns, groups, sharers: Division of the columns, as above.
    """
    scale, oldest = np.float32(scale_pico * 1e-12), ctl[block_row, OLDEST]
    lanes = act.shape[2]
    firsts, lasts, values = lane_values(lanes), lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        firsts[lane], lasts[lane] = _slice_of_column(block_col + lane - first_col, columns, groups, sharers, M * H * T)
    for mht in range(M * H * T):
        mh, t = mht // T, mht % T
        last = ctl[block_row, 0] + mh // H
        first = _first_visible(last, window, chunk)
        e, place = scores + mht, np.float32(mht)
        _scale_scores(block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity)
        for lane in range(lanes):
            weight = exponential(values[lane] - f32[block, maxima + mh, lane])
            values[lane] = weight if firsts[lane] <= place and lasts[lane] > place else ZERO
        for lane in range(lanes):
            act[block, out + mht, lane] = narrow(values[lane], act[block, out, lane])


@helper_function
def _slice_of_column(col, columns, groups, sharers, count):
    """Return the range of the ``count`` elements that a column computes, or (0, 0) for none.

    Args:
        col, columns: Index of the column; number of columns that compute.
        groups, sharers: Number of groups of columns; columns of a group that divide the elements.
        count: Number of elements.
    """
    if col < 0 or col >= columns:
        return 0, 0
    _, start, width = group_of_column(col, columns, groups)
    return slice_of_place(col - start, width, max(1, width // sharers), count)


def softmax_sums(block, act, f32, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    Args:
        block, act, f32: Block of up to 128 PEs, and views of their SRAM.
        x, sums: Addresses of the weights (activations), and of the float32 sums.
        M, H, T: Tokens; query heads; cache entries.
    """
    lanes = act.shape[2]
    for mh in range(M * H):
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            for lane in range(lanes):
                f32[block, sums + mh, lane] += widen(act[block, x + mh * T + t, lane])


def attention_max_by_column(
    block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk
):
    """Compute `attention_max` where each column has the scores with another row's entries.

    The PEs form a square. Column c has the scores with the entries that row c caches, from slot 0
    on.

    Args:
        block, block_row, block_col, acc, f32, ctl: Block of PEs, mesh row and column of its first
            PE, views of SRAM, and counters per row.
        scores, out: Addresses of the scores [M, H, T] (accumulators), and of float32 maxima [M, H].
        M, H, T, scale_pico, window, chunk: As in `attention_max`.
    """
    _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, 0, BY_COLUMN)


def attention_exp_by_column(
    block, block_row, block_col, act, acc, f32, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk
):
    """Compute `attention_exp` where each column has the scores with another row's entries.

    The PEs form a square. Column c has the scores with the entries that row c caches, from slot 0
    on.

    Args:
        block, block_row, block_col, act, acc, f32, ctl: Block of PEs, mesh row and column of its
            first PE, views of SRAM, and counters per row.
        scores, maxima, out, sums: Addresses of scores, maxima, weights and their sums.
        M, H, T, scale_pico, window, chunk: As in `attention_exp`.
    """
    _exp(
        block, block_row, block_col, act, acc, f32, ctl,
        scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, 0, BY_COLUMN,
    )  # fmt: skip


@helper_function
def _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, oldest, capacity):
    """Compute the maximum visible score of each token and head, times the scale.

    ``capacity`` is BY_COLUMN if the columns have the entries of different rows. ``oldest`` is the
    slot of the oldest entry. The other operands are those of `attention_max`.
    """
    scale = np.float32(scale_pico * 1e-12)
    lanes = acc.shape[2]
    values = lane_values(lanes)
    for mh in range(M * H):
        last = ctl[block_row, 0] + mh // H
        first = _first_visible(last, window, chunk)
        for lane in range(lanes):
            f32[block, out + mh, lane] = LOWEST
        for t in range(T):
            e = scores + mh * T + t
            _scale_scores(block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity)
            for lane in range(lanes):
                top = f32[block, out + mh, lane]
                f32[block, out + mh, lane] = values[lane] if values[lane] > top else top


@helper_function
def _exp(
    block, block_row, block_col, act, acc, f32, ctl,
    scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, oldest, capacity,
):  # fmt: skip
    """Compute softmax weights, 0 for entries that are not visible, and their local sums.

    ``capacity`` is BY_COLUMN if the columns have the entries of different rows. ``oldest`` is the
    slot of the oldest entry. The other operands are those of `attention_exp`.
    """
    scale = np.float32(scale_pico * 1e-12)
    lanes = act.shape[2]
    values = lane_values(lanes)
    for mh in range(M * H):
        last = ctl[block_row, 0] + mh // H
        first = _first_visible(last, window, chunk)
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            e = scores + mh * T + t
            is_visible = _scale_scores(
                block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity
            )
            for lane in range(lanes if is_visible else 0):
                values[lane] = exponential(values[lane] - f32[block, maxima + mh, lane])
            for lane in range(0 if is_visible else lanes):
                values[lane] = ZERO
            for lane in range(lanes):
                element = narrow(values[lane], act[block, out, lane])
                act[block, out + mh * T + t, lane] = element
                values[lane] = widen(element)
            for lane in range(lanes):
                f32[block, sums + mh, lane] += values[lane]


@helper_function
def _scale_scores(block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity):
    """Set ``values`` to the scaled scores with cache entry t, or to -inf if it is not visible.

    Args:
        block, block_row, block_col, acc, ctl: Block of PEs, mesh row and column of its first PE,
            accumulator view, and counters per row.
        values: float32 array with an element per lane, overwritten.
        e, t: Address of the score; index of the cache entry.
        scale: Factor of the scores.
        first, last: First and last visible position.
        oldest, capacity: Slot of the oldest entry; slots of the cache, or BY_COLUMN.

    Returns:
        Whether the entry may be visible in any lane. If not, the caller skips the exponential,
            which is 0.
    """
    lanes = len(values)
    is_visible = True
    if capacity == BY_COLUMN:
        columns = min(lanes, len(ctl) - block_col)
        for lane in range(columns):
            position = ctl[block_col + lane, SLOTS + t]
            score = widen(acc[block, e, lane]) * scale
            values[lane] = score if position >= first and position <= last else UNSEEN
        for lane in range(columns, lanes):
            values[lane] = UNSEEN
    else:
        position = ctl[block_row, SLOTS + (oldest + t) % capacity]
        is_visible = position >= first and position <= last
        for lane in range(lanes if is_visible else 0):
            values[lane] = widen(acc[block, e, lane]) * scale
        for lane in range(0 if is_visible else lanes):
            values[lane] = UNSEEN
    return is_visible


@helper_function
def _first_visible(last, window, chunk):
    """Return the first position that a token at position ``last`` attends to."""
    return max(last - window + 1 if window > 0 else 0, last // chunk * chunk if chunk > 0 else 0)


def attention_values(block, block_row, act, acc, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    The sum is over the T entries that this row stores. H is Hk * queries_per_kv.

    Args:
        block, block_row, act, acc, ctl: Block of PEs, its mesh row, views of SRAM, and counters per
            row.
        p, v: Addresses of the softmax weights, and of the value cache [capacity, Hk, F].
        out: Address of the sums in the accumulator type.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; cache
            entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    if T == 0:
        clear_rows(acc, block, out, M * Hk * queries_per_kv * F)
    _over_slots(block, block_row, act, acc, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity, 0, 0)


@helper_function
def _over_slots(block, block_row, act, acc, ctl, x, cache, out, M, Hk, queries_per_kv, F, T, capacity, scores, add):
    """Multiply queries by cached keys, or softmax weights by cached values.

    If ``scores`` is 1: out[M, H, T] = x[M, H, F] . cache[T, Hk, F]. If it is 0: out[M, H, F] =
    x[M, H, T] @ cache[T, Hk, F].

    Each tile product has the rows that share a KV head: all tokens of one head, or all heads of one
    token, whichever gives more rows. A product stops at the end of the cache and continues at its
    start.

    Args:
        block, block_row, act, acc, ctl: Block of PEs, its mesh row, views of SRAM, and counters per
            row.
        x, cache, out: Addresses of the operands.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; cache
            entries.
        capacity: Slots of the cache.
        scores: 1 or 0, as above.
        add: 0 to overwrite ``out``; any other value to add to it.
    """
    H, E, oldest = Hk * queries_per_kv, Hk * F, np.int64(ctl[block_row, OLDEST])
    product_rows = queries_per_kv if queries_per_kv > M else M
    for product in range(M * H // product_rows):
        if queries_per_kv > M:
            row, kv_head, step = product * queries_per_kv, product % Hk, 1
        else:
            row, kv_head, step = product, product // queries_per_kv, H
        start, slot = 0, oldest
        while start < T:  # up to the end of the cache, then from its start
            count = min(T - start, capacity - slot)
            at = cache + slot * E + kv_head * F
            if scores == 1:
                K, N, k_stride, n_stride = F, count, 1, E
                x_row, out_row, x_at, out_at = F, T, x + row * F, out + row * T + start
            else:
                K, N, k_stride, n_stride = count, F, E, 1
                x_row, out_row, x_at, out_at = T, F, x + row * T + start, out + row * F
            adds = 1 if add != 0 or (scores == 0 and start > 0) else 0
            multiply_chunk(
                acc, act, act, block, out_at, x_at, at, product_rows, K, N, step * x_row, k_stride, n_stride,
                step * out_row, adds,
            )  # fmt: skip
            start, slot = start + count, np.int64(0)


def attention_online(
    block, block_row, act, acc, f32, ctl,
    scores, v, maxima, sums, out, M, Hk, queries_per_kv, F, T, scale_pico, window, chunk, round, ring,
):  # fmt: skip
    """Fold the scores and values of one cache block into running softmax maxima, sums and outputs.

    This is a step of ring attention. The block is the cache of the row ``round`` places behind on
    the interleaved ring of ``ring`` rows, and its entries begin at slot 0.

    1. Find the row whose cache is processed.
    2. In round 0, reset the running values.
    3. Find the range of entries that the token sees. A token that sees none keeps its values.
    4. Fold these entries into the running values (`fold_entries`).

    Args:
        block, block_row, act, acc, f32, ctl: Block of PEs, its mesh row, views of SRAM, and
            counters per row.
        scores, v: Addresses of the scores [M, H, T] and of the values [T, Hk, F].
        maxima, sums, out: Addresses of the running values: float32 [M, H] twice, accumulators
            [M, H, F].
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; cache
            entries.
        scale_pico, window, chunk: Scale of scores in 1e-12; sliding window and chunk, 0 for none.
        round, ring: Index of the step; rows of the ring.
    """
    H = Hk * queries_per_kv
    scale = np.float32(scale_pico * 1e-12)
    lanes = act.shape[2]
    # 1. The row whose cache is processed.
    place = block_row // 2 if block_row % 2 == 0 else ring - (block_row + 1) // 2
    place = (place - round) % ring
    origin = 2 * place if 2 * place < ring else 2 * (ring - place) - 1
    for mh in range(M * H):
        if round == 0:  # 2
            for lane in range(lanes):
                f32[block, maxima + mh, lane] = LOWEST
                f32[block, sums + mh, lane] = np.float32(0.0)
                for f in range(F):
                    acc[block, out + mh * F + f, lane] = narrow(np.float32(0.0), acc[block, out, lane])
        if mh // H >= ctl[block_row, 1]:
            continue
        last = ctl[block_row, 0] + mh // H
        first = _first_visible(last, window, chunk)
        begin, end = T, 0  # 3
        for t in range(T):
            if ctl[origin, SLOTS + t] >= first and ctl[origin, SLOTS + t] <= last:
                begin, end = min(begin, t), t + 1
        if begin < end:  # 4
            value = v + (begin * Hk + mh % H // queries_per_kv) * F
            fold_entries(
                acc, act, f32, ctl, block, scores + mh * T + begin, value, maxima + mh, sums + mh, out + mh * F,
                end - begin, F, Hk * F, origin, SLOTS + begin, first, last, scale,
            )  # fmt: skip


def sink_sums(block, wgt, f32, sums, maxima, sinks, M, H):
    """Add the heads' attention sinks to softmax sums: sums[M, H] += exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score that takes part in the softmax but has no value.

    Args:
        block, wgt, f32: Block of up to 128 PEs, and views of their SRAM.
        sums, maxima, sinks: Addresses of float32 sums and maxima [M, H], and of weights [H].
        M, H: Tokens; query heads.
    """
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, sums + mh, lane] += exponential(sink - f32[block, maxima + mh, lane])


def sink_weights(block, wgt, f32, maxima, sinks, out, M, H):
    """Compute the softmax weights of attention sinks: out[M, H] = exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score that takes part in the softmax but has no value.

    Args:
        block, wgt, f32: Block of up to 128 PEs, and views of their SRAM.
        maxima, sinks, out: Addresses of float32 maxima, of weights [H], and of float32 results.
        M, H: Tokens; query heads.
    """
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, out + mh, lane] = exponential(sink - f32[block, maxima + mh, lane])


def round_maxima(block, f32, x, n):
    """Round the softmax maxima x[n] to whole multiples of ln 2, but not below -2^22 ln 2.

    Rescaling by the difference of two such maxima is an exact multiplication by a power of two.
    Scores below -2.9e6 therefore count as none.

    Args:
        block, f32: Block of up to 128 PEs, and the float32 view of their SRAM.
        x, n: Address of the maxima; their number.
    """
    for i in range(x, x + n):
        for lane in range(f32.shape[2]):
            multiple = max(np.rint(f32[block, i, lane] * LOG2_E), LEAST_EXPONENT)
            f32[block, i, lane] = multiple * LN_2


def softmax_rescale(block, acc, f32, own, maxima, sums, x, M, H, F):
    """Rescale softmax sums and values from this row's own maxima to the common maxima of all rows.

    sums[M, H] and x[M, H, F] are multiplied in place by exp(own[M, H] - maxima[M, H]). The maxima
    are whole multiples of ln 2, so this factor is a power of two. Factors below 2^-126 become 0.

    Args:
        block, acc, f32: Block of up to 128 PEs, and views of their SRAM. The next four arguments
            are addresses in it.
        own, maxima: float32 maxima [M, H] of this row, and of all rows.
        sums: float32 [M, H].
        x: Values [M, H, F] in the accumulator type.
        M, H, F: Tokens; query heads; features per head.
    """
    lanes = f32.shape[2]
    factors = lane_values(lanes)
    for mh in range(M * H):
        for lane in range(lanes):
            exponent = np.rint((f32[block, own + mh, lane] - f32[block, maxima + mh, lane]) * LOG2_E)
            factors[lane] = power_of_two(exponent) if exponent >= LEAST_NORMAL else ZERO
            f32[block, sums + mh, lane] *= factors[lane]
        for f in range(F):
            for lane in range(lanes):
                value = acc[block, x + mh * F + f, lane]
                acc[block, x + mh * F + f, lane] = narrow(widen(value) * factors[lane], value)


def attention_finish(block, act, acc, f32, x, sums, out, M, H, F):
    """Divide attention outputs by the softmax sums: out[M, H, F] = x[M, H, F] / sums[M, H].

    The result is 0 where the sum is not positive, that is, if no entry was visible.

    Args:
        block, act, acc, f32: Block of up to 128 PEs, and views of their SRAM.
        x, sums, out: Addresses of the outputs (accumulators), float32 sums, and results
            (activations).
        M, H, F: Tokens; query heads; features per head.
    """
    lanes = act.shape[2]
    for mh in range(M * H):
        for f in range(F):
            for lane in range(lanes):
                element = act[block, out + mh * F + f, lane]
                total = f32[block, sums + mh, lane]
                value = widen(acc[block, x + mh * F + f, lane]) / total if total > 0.0 else np.float32(0.0)
                act[block, out + mh * F + f, lane] = narrow(value, element)
