"""Compute kernels of attention over the KV cache entries that a PE stores.

M is the number of tokens, Hk that of KV heads, and H that of query heads, a multiple of Hk. A PE
stores T cache entries of its row, with F features of each head of its column.

Caches are ``[slot, Hk, F]``. The T entries of a row are read from the oldest entry on (``ctl`` word
7), wrapping around the end of the cache.

An entry is visible to a token if all of the following hold:

1. Its position is not later than the token's.
2. It is at most ``window`` - 1 positions before the token's. A window of 0 means no limit.
3. It is in the same chunk of ``chunk`` positions as the token. A chunk of 0 means no chunks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wse_kernels.codegen.elementary import exponential, power_of_two
from wse_kernels.codegen.elements import clear_rows, copy_elements, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._online_softmax import FoldedEntries, VisibleEntries, fold_entries
from wse_kernels.compute._slices import group_of_column, slice_of_place
from wse_kernels.operands.attention import (
    CacheAppend,
    HeadShape,
    RingStep,
    RunningSoftmax,
    ScoreShape,
    SharedSoftmaxTensors,
    SoftmaxColumns,
    SoftmaxTensors,
    Window,
)
from wse_kernels.operands.group import Place
from wse_kernels.products.chunk_product import multiply_chunk
from wse_kernels.products.tiles import ProductRows, Tile

OLDEST, SLOTS = 7, 8  # words of ctl: the oldest entry's slot, the first slot's position
LOWEST = np.float32(-3.0e38)
UNSEEN = np.float32(-np.inf)  # score of an entry that is not visible; its exponential is 0
ZERO = np.float32(0.0)
LOG2_E, LN_2 = np.float32(math.log2(math.e)), np.float32(math.log(2))
LEAST_EXPONENT = np.float32(-(2**22))  # up to this size, float32 represents integers and halves exactly
LEAST_NORMAL = np.float32(-126.0)  # exponent of the smallest normal float32
BY_COLUMN = -1  # in place of a capacity: columns have the entries of different rows


class _Slots(NamedTuple):
    """Location of a row's KV-cache entries among the slots of its cache.

    A slot stores the key and value of one token. Entries are stored from the oldest one on and wrap
    around the end of the cache.

    Attributes:
        oldest: Slot of the oldest entry.
        capacity: Number of slots. BY_COLUMN means that column c has the entries of row c, from slot
            0 on.
    """

    oldest: int
    capacity: int


class _VisibleRange(NamedTuple):
    """First and last position in the sequence that a token attends to."""

    first: int
    last: int


def kv_append(place: Place, act, ctl, at: CacheAppend, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this mesh row into its KV cache.

    The counters ``ctl`` of the row say which of the new tokens it appends: the first token (word
    2), the number of tokens (word 3), and the slot for the first one (word 4). Slots wrap around
    the end of the cache.

    Args:
        place, act, ctl: Position of the block of PEs, activation view of their SRAM, and counters
            per row.
        at: Addresses of new keys and values, and of the caches.
        E, Ev: Elements of a key and of a value on this PE, over all heads.
        capacity: Slots of the cache.
        tokens: Unused here. Maximum number of tokens that a row appends, for the cycle model.
        stride: Distance between two tokens of the same row, in tokens.
    """
    block, row, _ = place
    for i in range(ctl[row, 3]):
        source, target = ctl[row, 2] + i * stride, (ctl[row, 4] + i) % capacity
        copy_elements(act, block, at.k_cache + target * E, at.k + source * E, E)
        copy_elements(act, block, at.v_cache + target * Ev, at.v + source * Ev, Ev)


def attention_scores(place: Place, act, acc, ctl, q, k, out, shape: HeadShape, capacity, add):
    """Compute the scores of queries with the cached keys of this PE.

    out[M, H, T] = q[M, H, F] . k[T, Hk, F], where the dot products are over the F features that
    this PE stores.

    Args:
        place, act, acc, ctl: Position of the block of PEs, views of their SRAM, and counters per
            row.
        q: Address of the queries [M, H, F].
        k: Address of the key cache [capacity, Hk, F].
        out: Address of the scores [M, H, T] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Slots of the cache, in which the T entries wrap around.
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


@helper_function
def _rows_of_product(i, M, Hk, queries_per_kv):
    """Return the query rows that matrix product ``i`` multiplies by the cache of one KV head.

    Queries [M, H] have one row per token and query head. A product contains all tokens of one query
    head, or all query heads of one token and KV head, whichever gives more rows.

    Args:
        i: Index of the product.
        M, Hk, queries_per_kv: Tokens; KV heads; query heads per KV head.

    Returns:
        First row, index of the KV head, and distance from one row to the next.
    """
    if queries_per_kv > M:
        return i * queries_per_kv, i % Hk, 1
    return i, i // queries_per_kv, Hk * queries_per_kv


def attention_max(place: Place, acc, f32, ctl, scores, out, shape: ScoreShape, limits: Window, capacity):
    """Compute the maximum visible score of each token and query head: out[M, H].

    The scores of the T cache entries of this row are first multiplied by the scale. The result is
    -3e38 if the token attends to none of these entries.

    Args:
        place, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters per
            row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    slots = _Slots(ctl[place.row, OLDEST], capacity)
    _max(place, acc, f32, ctl, scores, out, shape, limits, slots)


def attention_exp(place: Place, act, acc, f32, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window, capacity):
    """Compute unnormalised softmax weights, and their sum for each token and query head.

    out[M, H, T] = exp(scale * scores[M, H, T] - maxima[M, H]), or 0 for entries that the token does
    not attend to. sums[M, H] is the float32 sum of the rounded weights.

    Args:
        place, act, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters
            per row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    slots = _Slots(ctl[place.row, OLDEST], capacity)
    _exp(place, act, acc, f32, ctl, at, shape, limits, slots)


def attention_exp_share(
    place: Place,
    act,
    acc,
    f32,
    ctl,
    at: SharedSoftmaxTensors,
    shape: ScoreShape,
    limits: Window,
    capacity,
    division: SoftmaxColumns,
):
    """Compute the softmax weights that are assigned to this PE, and set the other weights to 0.

    `attention_exp` defines the weights. Neighbouring columns have the same scores, so sets of
    columns divide the M * H * T weights evenly among them. Columns outside the division compute no
    weights.

    Args:
        place, act, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters
            per row.
        at: Addresses of scores[M, H, T], maxima[M, H], and weights out[M, H, T].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
        division: Columns that divide the weights.
    """
    block, slots = place.block, _Slots(ctl[place.row, OLDEST], capacity)
    M, H, T, scale_pico = shape
    scale, lanes = np.float32(scale_pico * 1e-12), act.shape[2]
    firsts, lasts, values = lane_values(lanes), lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        firsts[lane], lasts[lane] = _slice_of_column(place.col + lane - division.first_col, division, M * H * T)
    for mht in range(M * H * T):
        mh, t = mht // T, mht % T
        visible_range, weight_place = _visible_range(ctl[place.row, 0] + mh // H, limits), np.float32(mht)
        _scale_scores(place, acc, ctl, values, at.scores + mht, t, scale, visible_range, slots)
        for lane in range(lanes):
            weight = exponential(values[lane] - f32[block, at.maxima + mh, lane])
            values[lane] = weight if firsts[lane] <= weight_place and lasts[lane] > weight_place else ZERO
        for lane in range(lanes):
            act[block, at.out + mht, lane] = narrow(values[lane], act[block, at.out, lane])


@helper_function
def _slice_of_column(col, division, count):
    """Return the range of elements that a column computes, or (0, 0) if it computes none.

    Args:
        col: Index of the column, counted from the first column that computes.
        division: Columns that divide the elements among them.
        count: Number of elements.

    Returns:
        First element, and the index after the last element.
    """
    if col < 0 or col >= division.columns:
        return 0, 0
    _, start, width = group_of_column(col, division.columns, division.groups)
    return slice_of_place(col - start, width, max(1, width // division.sharers), count)


def softmax_sums(block, act, f32, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    Args:
        block, act, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the weights [M, H, T] in the activation type.
        sums: Address of the float32 sums [M, H].
        M, H, T: Tokens; query heads; cache entries.
    """
    lanes = act.shape[2]
    for mh in range(M * H):
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            for lane in range(lanes):
                f32[block, sums + mh, lane] += widen(act[block, x + mh * T + t, lane])


def attention_max_by_column(place: Place, acc, f32, ctl, scores, out, shape: ScoreShape, limits: Window):
    """Compute the maximum visible score of each token and query head, with one cache per column.

    This is `attention_max` for a square of PEs in which column c has the scores of the cache
    entries of row c, from slot 0 on.

    Args:
        place, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters per
            row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _max(place, acc, f32, ctl, scores, out, shape, limits, _Slots(0, BY_COLUMN))


def attention_exp_by_column(place: Place, act, acc, f32, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window):
    """Compute unnormalised softmax weights and their sums, with one cache per column.

    This is `attention_exp` for a square of PEs in which column c has the scores of the cache
    entries of row c, from slot 0 on.

    Args:
        place, act, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters
            per row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _exp(place, act, acc, f32, ctl, at, shape, limits, _Slots(0, BY_COLUMN))


@helper_function
def _max(place, acc, f32, ctl, scores, out, shape, limits, slots):
    """Compute the maximum scaled score of each token and query head over the visible entries.

    Args:
        place, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters per
            row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        slots: Location of the entries in the cache.
    """
    block, (M, H, T, scale_pico) = place.block, shape
    scale, lanes = np.float32(scale_pico * 1e-12), acc.shape[2]
    values = lane_values(lanes)
    for mh in range(M * H):
        visible_range = _visible_range(ctl[place.row, 0] + mh // H, limits)
        for lane in range(lanes):
            f32[block, out + mh, lane] = LOWEST
        for t in range(T):
            _scale_scores(place, acc, ctl, values, scores + mh * T + t, t, scale, visible_range, slots)
            for lane in range(lanes):
                top = f32[block, out + mh, lane]
                f32[block, out + mh, lane] = values[lane] if values[lane] > top else top


@helper_function
def _exp(place, act, acc, f32, ctl, at, shape, limits, slots):
    """Compute unnormalised softmax weights, and their sums over the entries of this PE.

    Entries that the token does not attend to have weight 0.

    Args:
        place, act, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters
            per row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        slots: Location of the entries in the cache.
    """
    block, (M, H, T, scale_pico) = place.block, shape
    scale, lanes = np.float32(scale_pico * 1e-12), act.shape[2]
    scores, maxima, out, sums = at
    values = lane_values(lanes)
    for mh in range(M * H):
        visible_range = _visible_range(ctl[place.row, 0] + mh // H, limits)
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            e = mh * T + t
            is_visible = _scale_scores(place, acc, ctl, values, scores + e, t, scale, visible_range, slots)
            for lane in range(lanes if is_visible else 0):
                values[lane] = exponential(values[lane] - f32[block, maxima + mh, lane])
            for lane in range(0 if is_visible else lanes):
                values[lane] = ZERO
            for lane in range(lanes):
                element = narrow(values[lane], act[block, out, lane])
                act[block, out + e, lane] = element
                values[lane] = widen(element)
            for lane in range(lanes):
                f32[block, sums + mh, lane] += values[lane]


@helper_function
def _scale_scores(place, acc, ctl, values, e, t, scale, visible_range, slots):
    """Set ``values`` to the scaled scores of cache entry ``t``, or to -inf if it is not visible.

    Args:
        place, acc, ctl: Position of the block of PEs, accumulator view of SRAM, and counters per
            row.
        values: float32 array with an element per lane (PE of the block), overwritten.
        e, t: Address of the score; index of the cache entry.
        scale: Factor of the scores.
        visible_range: Range of positions that the token attends to.
        slots: Location of the entries in the cache.

    Returns:
        Whether the entry may be visible in any lane. If not, the caller skips the exponential,
        which is 0.
    """
    block, lanes, is_visible = place.block, len(values), True
    first, last = visible_range
    if slots.capacity == BY_COLUMN:
        columns = min(lanes, len(ctl) - place.col)
        for lane in range(columns):
            position = ctl[place.col + lane, SLOTS + t]
            score = widen(acc[block, e, lane]) * scale
            values[lane] = score if position >= first and position <= last else UNSEEN
        for lane in range(columns, lanes):
            values[lane] = UNSEEN
    else:
        position = ctl[place.row, SLOTS + (slots.oldest + t) % slots.capacity]
        is_visible = position >= first and position <= last
        for lane in range(lanes if is_visible else 0):
            values[lane] = widen(acc[block, e, lane]) * scale
        for lane in range(0 if is_visible else lanes):
            values[lane] = UNSEEN
    return is_visible


@helper_function
def _visible_range(position, limits):
    """Return the first and last position that a token at ``position`` attends to.

    ``limits`` contains the lengths of the sliding window and of attention chunks, 0 for none.
    """
    window, chunk = limits
    first = max(position - window + 1 if window > 0 else 0, position // chunk * chunk if chunk > 0 else 0)
    return _VisibleRange(first, position)


def attention_values(place: Place, act, acc, ctl, p, v, out, shape: HeadShape, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    The sum is over the T entries that this row stores.

    Args:
        place, act, acc, ctl: Position of the block of PEs, views of their SRAM, and counters per
            row.
        p: Address of the softmax weights [M, H, T].
        v: Address of the value cache [capacity, Hk, F].
        out: Address of the sums [M, H, F] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Slots of the cache, in which the T entries wrap around.
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


def attention_online(
    place: Place,
    act,
    acc,
    f32,
    ctl,
    at: RunningSoftmax,
    shape: HeadShape,
    scale_pico,
    limits: Window,
    step: RingStep,
):
    """Update a running softmax with the scores and values of another row's KV cache.

    This is a step of ring attention, in which caches pass around a ring of PE rows. In step
    ``round``, this row has the cache of the row ``round`` places before it on the ring. The entries
    begin at slot 0.

    1. Find the row whose cache is processed.
    2. In round 0, reset the running values.
    3. Find the range of entries that the token attends to. If there are none, the running values do
       not change.
    4. Add these entries to the running values (`fold_entries`).

    Args:
        place, act, acc, f32, ctl: Position of the block of PEs, views of their SRAM, and counters
            per row.
        at: Addresses of scores[M, H, T], values v[T, Hk, F], and the running maxima[M, H],
            sums[M, H] and out[M, H, F].
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        scale_pico: Factor of the scores in units of 1e-12.
        limits: Sliding window and attention chunk, which limit the visible entries.
        step: Index of the step, and number of rows in the ring.
    """
    block, row, _ = place
    M, Hk, queries_per_kv, F, T = shape
    H, scale = Hk * queries_per_kv, np.float32(scale_pico * 1e-12)
    origin = _ring_row(row, step)  # 1
    for mh in range(M * H):
        if step.round == 0:  # 2
            for lane in range(act.shape[2]):
                f32[block, at.maxima + mh, lane] = LOWEST
                f32[block, at.sums + mh, lane] = np.float32(0.0)
            clear_rows(acc, block, at.out + mh * F, F)
        if mh // H >= ctl[row, 1]:
            continue
        first, last = _visible_range(np.int64(ctl[row, 0]) + mh // H, limits)
        begin, end = T, 0  # 3
        for t in range(T):
            if ctl[origin, SLOTS + t] >= first and ctl[origin, SLOTS + t] <= last:
                begin, end = min(begin, t), t + 1
        if begin < end:  # 4
            value = at.v + (begin * Hk + mh % H // queries_per_kv) * F
            entries = FoldedEntries(
                at.scores + mh * T + begin, value, at.maxima + mh, at.sums + mh, at.out + mh * F,
                end - begin, F, Hk * F,
            )  # fmt: skip
            visible_range = VisibleEntries(origin, SLOTS + begin, first, last)
            fold_entries((acc, act, f32), block, entries, ctl, visible_range, scale)


@helper_function
def _ring_row(row, step):
    """Return the row whose KV cache a given row has in a step of ring attention.

    The ring visits rows 0, 2, 4 and so on down to the last row, and returns over the odd rows.
    """
    place = row // 2 if row % 2 == 0 else step.ring - (row + 1) // 2
    place = (place - step.round) % step.ring
    return 2 * place if 2 * place < step.ring else 2 * (step.ring - place) - 1


def sink_sums(block, wgt, f32, sums, maxima, sinks, M, H):
    """Add the attention sinks of all heads to the softmax sums.

    sums[M, H] += exp(sinks[H] - maxima[M, H]). An attention sink is a trained score that takes part
    in the softmax but has no value.

    Args:
        block, wgt, f32: Index of the block of PEs, and views of their SRAM.
        sums: Address of the float32 sums [M, H], changed in place.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the sinks [H] in the weight type.
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
        block, wgt, f32: Index of the block of PEs, and views of their SRAM.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the sinks [H] in the weight type.
        out: Address of the float32 results [M, H].
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

    Rescaling by the difference of two such maxima is then an exact multiplication by a power of
    two. Maxima below -2.9e6 are raised to this limit.

    Args:
        block, f32: Index of the block of PEs, and the float32 view of their SRAM.
        x: Address of the float32 maxima [n], changed in place.
        n: Number of maxima.
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
        block, acc, f32: Index of the block of PEs, and views of their SRAM.
        own: Address of the float32 maxima [M, H] over the cache entries of this row.
        maxima: Address of the float32 maxima [M, H] over all rows.
        sums: Address of the float32 sums [M, H], changed in place.
        x: Address of the values [M, H, F] in the accumulator type, changed in place.
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
        block, act, acc, f32: Index of the block of PEs, and views of their SRAM.
        x: Address of the outputs [M, H, F] in the accumulator type.
        sums: Address of the float32 sums [M, H].
        out: Address of the results [M, H, F] in the activation type.
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
