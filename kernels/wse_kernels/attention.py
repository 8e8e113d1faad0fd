"""Attention over the cache slots that a PE stores: T slots of its row, F features of its column's heads.

Caches are ``[slot, Hk, F]``, queries ``[M, H, F]`` with H = Hk times the queries that share a kv head.
The T entries of a row are taken from the oldest on, ``ctl`` word 7, around the end of the cache. An entry is visible
to a token when its position is not later than the token's, nor earlier than ``window`` - 1 tokens before it, nor than
the start of its stretch of ``chunk`` tokens; a window or a chunk of 0 leaves that condition out.
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
from wse_kernels._shares import group_of_column, share_of_place

OLDEST, SLOTS = 7, 8  # words of ctl: the oldest entry's slot, the first slot's position
LOWEST = np.float32(-3.0e38)
UNSEEN = np.float32(-np.inf)  # score with an entry that is not visible, whose exponential is 0
ZERO = np.float32(0.0)
LOG2_E, LN_2 = np.float32(math.log2(math.e)), np.float32(math.log(2))
LEAST_EXPONENT = np.float32(-(2**22))  # float32 has whole numbers and halves as far as that
LEAST_NORMAL = np.float32(-126.0)  # exponent of the smallest normal float32
BY_COLUMN = -1  # instead of a capacity: columns have entries of different rows


def kv_append(block, block_row, act, ctl, k, v, k_cache, v_cache, E, Ev, capacity, tokens, stride):
    """Copy the row's share of new keys k[M, E] and values v[M, Ev] into its cache slots, around the end of the cache.

    Of the new tokens it is every one that is a multiple of ``stride`` behind the first. ``tokens``, the most that a row
    appends, is for the cycle model alone.
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
    """out[M, H, T] (+)= q[M, H, F] . k[T, Hk, F], over the local features; adds where ``add`` is not 0."""
    _over_slots(block, block_row, act, acc, ctl, q, k, out, M, Hk, queries_per_kv, F, T, capacity, 1, add)


def attention_max(
    block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, capacity
):
    """out[M, H] = the largest visible one of scores[M, H, T], times the scale; -3e38 where the row stores none."""
    oldest = ctl[block_row, OLDEST]
    _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, oldest, capacity)


def attention_exp(
    block, block_row, block_col, act, acc, f32, ctl,
    scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, capacity,
):  # fmt: skip
    """out[M, H, T] = exp(scale * scores[M, H, T] - maxima[M, H]), 0 where not visible; sums[M, H] = its local sum."""
    oldest = ctl[block_row, OLDEST]
    _exp(
        block, block_row, block_col, act, acc, f32, ctl,
        scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, oldest, capacity,
    )  # fmt: skip


def attention_exp_share(
    block, block_row, block_col, act, acc, f32, ctl,
    scores, maxima, out, M, H, T, scale_pico, window, chunk, capacity, first_col, columns, groups, sharers,
):  # fmt: skip
    """The weights of `attention_exp` that are the PE's own share, and 0 for those of its neighbours.

    The ``columns`` from ``first_col`` on are cut into ``groups``, the larger ones first, and a group of c columns into
    c // sharers sets, set i from its column i c // (c // sharers) on; column s of a set of z has the weights from
    s n // z on, of n in all. Other columns have none.
    """
    scale, oldest = np.float32(scale_pico * 1e-12), ctl[block_row, OLDEST]
    lanes = act.shape[2]
    firsts, lasts, values = lane_values(lanes), lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        firsts[lane], lasts[lane] = _share(block_col + lane - first_col, columns, groups, sharers, M * H * T)
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
def _share(col, columns, groups, sharers, count):
    """The first of ``count`` elements that one of ``columns`` works on, and one past the last; none of another."""
    if col < 0 or col >= columns:
        return 0, 0
    _, start, width = group_of_column(col, columns, groups)
    return share_of_place(col - start, width, max(1, width // sharers), count)


def softmax_sums(block, act, f32, x, sums, M, H, T):
    """sums[M, H] = the sum over T of x[M, H, T], in float32."""
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
    """`attention_max` of a square whose column c has the scores with the entries that row c caches, from slot 0 on."""
    _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, 0, BY_COLUMN)


def attention_exp_by_column(
    block, block_row, block_col, act, acc, f32, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk
):
    """`attention_exp` of a square whose column c has the scores with the entries that row c caches, from slot 0 on."""
    _exp(
        block, block_row, block_col, act, acc, f32, ctl,
        scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, 0, BY_COLUMN,
    )  # fmt: skip


@helper_function
def _max(block, block_row, block_col, acc, f32, ctl, scores, out, M, H, T, scale_pico, window, chunk, oldest, capacity):
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
            seen = _scale_scores(
                block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity
            )
            for lane in range(lanes if seen else 0):
                values[lane] = exponential(values[lane] - f32[block, maxima + mh, lane])
            for lane in range(0 if seen else lanes):
                values[lane] = ZERO
            for lane in range(lanes):
                stored = narrow(values[lane], act[block, out, lane])
                act[block, out + mh * T + t, lane] = stored
                values[lane] = widen(stored)
            for lane in range(lanes):
                f32[block, sums + mh, lane] += values[lane]


@helper_function
def _scale_scores(block, block_row, block_col, acc, ctl, values, e, t, scale, first, last, oldest, capacity):
    """values = the scores with entry t, ``acc[e]``, times the scale; -inf where it is not visible.

    Returns whether any lane may see it: exponentials of -inf, which are as slow as any, are 0 beforehand.
    """
    lanes = len(values)
    seen = True
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
        seen = position >= first and position <= last
        for lane in range(lanes if seen else 0):
            values[lane] = widen(acc[block, e, lane]) * scale
        for lane in range(0 if seen else lanes):
            values[lane] = UNSEEN
    return seen


@helper_function
def _first_visible(last, window, chunk):
    """The first position that a token at position ``last`` sees."""
    return max(last - window + 1 if window > 0 else 0, last // chunk * chunk if chunk > 0 else 0)


def attention_values(block, block_row, act, acc, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity):
    """out[M, H, F] = p[M, H, T] @ v[T, Hk, F], over the local slots."""
    if T == 0:
        clear_rows(acc, block, out, M * Hk * queries_per_kv * F)
    _over_slots(block, block_row, act, acc, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity, 0, 0)


@helper_function
def _over_slots(block, block_row, act, acc, ctl, x, cache, out, M, Hk, queries_per_kv, F, T, capacity, scores, add):
    """out[M, H, T] = x[M, H, F] . cache[T, Hk, F] where ``scores`` is 1, out[M, H, F] = x[M, H, T] @ cache if 0.

    It is added to what there is where ``add`` is not 0. Rows of one product have the same head of the cache: all tokens
    of a head, or all heads of a token that share one.
    """
    H, E, oldest = Hk * queries_per_kv, Hk * F, np.int64(ctl[block_row, OLDEST])
    product_rows = queries_per_kv if queries_per_kv > M else M
    for product in range(M * H // product_rows):
        if queries_per_kv > M:
            row, kv_head, step = product * queries_per_kv, product % Hk, 1
        else:
            row, kv_head, step = product, product // queries_per_kv, H
        start, slot = 0, oldest
        while start < T:  # as far as the end of the cache, then from its start
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
    """Fold one block of the ring, scores[M, H, T] and values v[T, Hk, F], into running maxima, sums and outputs.

    The block is the cache of the row that stands ``round`` places behind on the interleaved ring of ``ring`` rows; its
    entries lie from slot 0 on. Running are maxima[M, H], sums[M, H] and out[M, H, F]; those of a token that sees none
    of the entries stay as they are.
    """
    H = Hk * queries_per_kv
    scale = np.float32(scale_pico * 1e-12)
    lanes = act.shape[2]
    place = block_row // 2 if block_row % 2 == 0 else ring - (block_row + 1) // 2
    place = (place - round) % ring
    origin = 2 * place if 2 * place < ring else 2 * (ring - place) - 1
    for mh in range(M * H):
        if round == 0:
            for lane in range(lanes):
                f32[block, maxima + mh, lane] = LOWEST
                f32[block, sums + mh, lane] = np.float32(0.0)
                for f in range(F):
                    acc[block, out + mh * F + f, lane] = narrow(np.float32(0.0), acc[block, out, lane])
        if mh // H >= ctl[block_row, 1]:
            continue
        last = ctl[block_row, 0] + mh // H
        first = _first_visible(last, window, chunk)
        begin, end = T, 0  # of what the token sees
        for t in range(T):
            if ctl[origin, SLOTS + t] >= first and ctl[origin, SLOTS + t] <= last:
                begin, end = min(begin, t), t + 1
        if begin < end:
            value = v + (begin * Hk + mh % H // queries_per_kv) * F
            fold_entries(
                acc, act, f32, ctl, block, scores + mh * T + begin, value, maxima + mh, sums + mh, out + mh * F,
                end - begin, F, Hk * F, origin, SLOTS + begin, first, last, scale,
            )  # fmt: skip


def sink_sums(block, wgt, f32, sums, maxima, sinks, M, H):
    """sums[M, H] += exp(sinks[H] - maxima[M, H]): each head's trained score joins the softmax, without a value."""
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, sums + mh, lane] += exponential(sink - f32[block, maxima + mh, lane])


def sink_weights(block, wgt, f32, maxima, sinks, out, M, H):
    """out[M, H] = exp(sinks[H] - maxima[M, H])."""
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, out + mh, lane] = exponential(sink - f32[block, maxima + mh, lane])


def round_maxima(block, f32, x, n):
    """x[n] = the nearest whole multiple of ln 2, -2^22 ln 2 at least: scores below -2.9e6 count as none."""
    for i in range(x, x + n):
        for lane in range(f32.shape[2]):
            multiple = max(np.rint(f32[block, i, lane] * LOG2_E), LEAST_EXPONENT)
            f32[block, i, lane] = multiple * LN_2


def softmax_rescale(block, acc, f32, own, maxima, sums, x, M, H, F):
    """sums[M, H] and x[M, H, F] *= exp(own[M, H] - maxima[M, H]), both whole multiples of ln 2: a power of two.

    It is 0 where it is below the normal numbers of float32.
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
    """out[M, H, F] = x[M, H, F] / sums[M, H]; 0 where the sum is not positive."""
    lanes = act.shape[2]
    for mh in range(M * H):
        for f in range(F):
            for lane in range(lanes):
                like = act[block, out + mh * F + f, lane]
                total = f32[block, sums + mh, lane]
                value = widen(acc[block, x + mh * F + f, lane]) / total if total > 0.0 else np.float32(0.0)
                act[block, out + mh * F + f, lane] = narrow(value, like)
