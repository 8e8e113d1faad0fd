"""Oracles of attention over a KV cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
from wse_kernels.oracle.memory import I64, LOWEST, PICO

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


def kv_append(pe, ctl, at: CacheAppend, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this mesh row into its KV cache.

    Every ``stride``-th new token belongs to the row. Slots wrap around the end of the cache. This
    NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        at: Addresses of new keys and values, and of the caches.
        E, Ev: Elements of a key and of a value on this PE, over all heads.
        capacity: Slots of the cache.
        tokens: Unused here. Maximum number of tokens that a row appends, for the cycle model.
        stride: Distance between two tokens of the same row, in tokens.
    """
    first, count, slot = ctl[pe.row, 2:5]
    for i in range(count):
        for new, cache, n in ((at.k, at.k_cache, E), (at.v, at.v_cache, Ev)):
            pe.move("act", new + (first + i * stride) * n, cache + (slot + i) % capacity * n, n)


def attention_scores(pe, ctl, q, k, out, shape: HeadShape, capacity, add):
    """Compute the scores of queries with the cached keys of this PE.

    out[M, H, T] = q[M, H, F] . k[T, Hk, F], where the dot products are over the F features that
    this PE stores. This NumPy reference for one PE serves to test the compiled kernel of the same
    name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        q: Address of the queries [M, H, F].
        k: Address of the key cache [capacity, Hk, F].
        out: Address of the scores [M, H, T] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Slots of the cache, in which the T entries wrap around.
        add: 0 to overwrite ``out``; any other value to add to it.
    """
    M, Hk, queries_per_kv, F, T = shape
    Q = pe.read("act", q, M, Hk, queries_per_kv, 1, F)
    keys = pe.read("act", k, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)].transpose(1, 0, 2)
    total = pe.read("acc", out, M, Hk, queries_per_kv, T) if add else np.zeros((M, Hk, queries_per_kv, T), np.float32)
    for f in range(F):
        total = pe.round_to("acc", total + Q[..., f] * keys[:, None, :, f])
    pe.write("acc", out, total)


def attention_values(pe, ctl, p, v, out, shape: HeadShape, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        p: Address of the softmax weights [M, H, T].
        v: Address of the value cache [capacity, Hk, F].
        out: Address of the sums [M, H, F] in the accumulator type.
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    M, Hk, queries_per_kv, F, T = shape
    weights = pe.read("act", p, M, Hk, queries_per_kv, T)
    values = pe.read("act", v, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)]
    total = np.zeros((M, Hk, queries_per_kv, F), np.float32)
    for t in range(T):
        total = pe.round_to("acc", total + weights[..., t, None] * values[t, :, None, :])
    pe.write("acc", out, total)


def attention_max(pe, ctl, scores, out, shape: ScoreShape, limits: Window, capacity):
    """Compute the maximum visible score of each token and head, times the scale: out[M, H].

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, shape.T, capacity)]
    _max(pe, scores, out, shape, _entry_visibility(ctl, pe.row, shape.M, positions, limits))


def attention_exp(pe, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window, capacity):
    """Compute unnormalised softmax weights out[M, H, T] and their sums [M, H] over T.

    out = exp(scale * scores - maxima), or 0 for entries that the token does not attend to. This
    NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
    """
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, shape.T, capacity)]
    _exp(pe, at, shape, _entry_visibility(ctl, pe.row, shape.M, positions, limits))


def attention_exp_share(
    pe, ctl, at: SharedSoftmaxTensors, shape: ScoreShape, limits: Window, capacity, division: SoftmaxColumns
):
    """Compute the softmax weights that are assigned to this PE, and set the other weights to 0.

    `attention_exp` defines the weights. Neighbouring columns have the same scores and divide the
    computation of the weights among them. This NumPy reference for one PE serves to test the
    compiled kernel of the same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        at: Addresses of scores[M, H, T], maxima[M, H], and weights out[M, H, T].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Slots of the cache, in which the T entries wrap around.
        division: Columns that divide the weights.
    """
    first_col, columns, groups, sharers = division
    M, H, T, _ = shape
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    weights = _weights(pe, at.scores, at.maxima, shape, _entry_visibility(ctl, pe.row, M, positions, limits))
    col = pe.col - first_col
    if not 0 <= col < columns:
        pe.write("act", at.out, np.zeros((M, H, T), np.float32))
        return
    start, end = _part(col, np.cumsum([0, *[columns // groups + (g < columns % groups) for g in range(groups)]]))
    sets = max(1, int(end - start) // int(sharers))
    start, end = _part(col, start + np.arange(sets + 1) * (end - start) // sets)
    column_of_weight = np.repeat(
        np.arange(start, end), np.diff(np.arange(end - start + 1) * (M * H * T) // (end - start))
    )
    pe.write("act", at.out, np.where(column_of_weight.reshape(M, H, T) == col, weights, np.float32(0.0)))


def _part(place, starts):
    """Return the start and end of the range that contains an index.

    Args:
        place: The index.
        starts: Start of each range in ascending order, and the end of the last range.
    """
    part = int(np.searchsorted(starts, place, side="right")) - 1
    return starts[part], starts[part + 1]


def softmax_sums(pe, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the weights [M, H, T] in the activation type.
        sums: Address of the float32 sums [M, H].
        M, H, T: Tokens; query heads; cache entries.
    """
    weights, total = pe.read("act", x, M, H, T), np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("f32", sums, total)


def attention_max_by_column(pe, ctl, scores, out, shape: ScoreShape, limits: Window):
    """Compute the maximum visible score of each token and query head, with one cache per column.

    This is `attention_max` for a square of PEs in which column c has the scores of the cache
    entries of row c. This NumPy reference for one PE serves to test the compiled kernel of the same
    name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    positions = ctl[pe.col, 8 : 8 + shape.T]
    _max(pe, scores, out, shape, _entry_visibility(ctl, pe.row, shape.M, positions, limits))


def _max(pe, scores, out, shape, is_visible):
    """Store the maximum scaled score of each token and query head over the visible entries.

    The maximum is -3e38 if no entry is visible.

    Args:
        pe: PE whose SRAM is read and written.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        is_visible: Whether each token attends to each entry, [M, T].
    """
    M, H, T, scale_pico = shape
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    candidates = np.where(is_visible[:, None, :], scaled, LOWEST)
    top = np.full((M, H), LOWEST)
    for t in range(T):
        top = np.where(candidates[..., t] > top, candidates[..., t], top)
    pe.write("f32", out, top)


def attention_exp_by_column(pe, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window):
    """Compute unnormalised softmax weights and their sums, with one cache per column.

    This is `attention_exp` for a square of PEs in which column c has the scores of the cache
    entries of row c. This NumPy reference for one PE serves to test the compiled kernel of the same
    name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _exp(pe, at, shape, _entry_visibility(ctl, pe.row, shape.M, ctl[pe.col, 8 : 8 + shape.T], limits))


def _exp(pe, at, shape, is_visible):
    """Store unnormalised softmax weights, and their float32 sums over the cache entries.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        is_visible: Whether each token attends to each entry, [M, T].
    """
    weights = _weights(pe, at.scores, at.maxima, shape, is_visible)
    total = np.zeros((shape.M, shape.H), np.float32)
    for t in range(shape.T):
        total += weights[..., t]
    pe.write("act", at.out, weights)
    pe.write("f32", at.sums, total)


def _weights(pe, scores, maxima, shape, is_visible):
    """Return unnormalised softmax weights [M, H, T], rounded to the activation type.

    Args:
        pe: PE whose SRAM is read.
        scores, maxima: Addresses of the scores [M, H, T] and of the maxima [M, H].
        shape: M, H, T and the scale of the scores.
        is_visible: Whether each token attends to each entry, [M, T]. Other weights are 0.
    """
    M, H, T, scale_pico = shape
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    is_visible = is_visible[:, None, :]
    exponent = np.where(is_visible, scaled - pe.read("f32", maxima, M, H, 1), np.float32(0.0))
    return pe.round_to("act", np.where(is_visible, np.exp(exponent), np.float32(0.0)))


def attention_online(pe, ctl, at: RunningSoftmax, shape: HeadShape, scale_pico, limits: Window, step: RingStep):
    """Update a running softmax with the scores and values of another row's KV cache.

    This is a step of ring attention, in which caches pass around a ring of PE rows. Step 0 resets
    the running values. This NumPy reference for one PE serves to test the compiled kernel of the
    same name.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        at: Addresses of scores[M, H, T], values v[T, Hk, F], and the running maxima[M, H],
            sums[M, H] and out[M, H, F].
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        scale_pico: Factor of the scores in units of 1e-12.
        limits: Sliding window and attention chunk, which limit the visible entries.
        step: Index of the step, and number of rows in the ring.
    """
    scores, v, maxima, sums, out = at
    M, Hk, queries_per_kv, F, T = shape
    order = [*range(0, step.ring, 2), *reversed(range(1, step.ring, 2))]
    origin = order[(order.index(pe.row) - step.round) % step.ring]
    if step.round == 0:
        pe.write("f32", maxima, np.full(M * Hk * queries_per_kv, LOWEST))
        pe.write("f32", sums, np.zeros(M * Hk * queries_per_kv, np.float32))
        pe.write("acc", out, np.zeros(M * Hk * queries_per_kv * F, np.float32))
    scaled = pe.read("acc", scores, M, Hk, queries_per_kv, T) * np.float32(scale_pico * PICO)
    values = pe.read("act", v, T, Hk, 1, F)
    old_top, total = pe.read("f32", maxima, M, Hk, queries_per_kv), pe.read("f32", sums, M, Hk, queries_per_kv)
    outputs = pe.read("acc", out, M, Hk, queries_per_kv, F)
    is_visible = _entry_visibility(ctl, pe.row, M, ctl[origin, 8 : 8 + T], limits)
    for m in range(min(M, ctl[pe.row, 1])):
        top = old_top[m]
        for t in np.flatnonzero(is_visible[m]):
            top = np.where(scaled[m, ..., t] > top, scaled[m, ..., t], top)
        shrink = np.exp(old_top[m] - top)
        total[m] *= shrink
        outputs[m] = pe.round_to("acc", outputs[m] * shrink[..., None])
        for t in np.flatnonzero(is_visible[m]):
            weight = np.exp(scaled[m, ..., t] - top)
            total[m] += weight
            outputs[m] = pe.round_to("acc", outputs[m] + weight[..., None] * values[t])
        old_top[m] = top
    pe.write("f32", maxima, old_top)
    pe.write("f32", sums, total)
    pe.write("acc", out, outputs)


def sink_sums(pe, sums, maxima, sinks, M, H):
    """Add the attention sinks to softmax sums: sums[M, H] += exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score without a value. This NumPy reference for one PE serves to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        sums: Address of the float32 sums [M, H], changed in place.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the sinks [H] in the weight type.
        M, H: Tokens; query heads.
    """
    weight = np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H))
    pe.write("f32", sums, pe.read("f32", sums, M, H) + weight)


def sink_weights(pe, maxima, sinks, out, M, H):
    """Compute the softmax weights of attention sinks: out[M, H] = exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score without a value. This NumPy reference for one PE serves to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the sinks [H] in the weight type.
        out: Address of the float32 results [M, H].
        M, H: Tokens; query heads.
    """
    pe.write("f32", out, np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H)))


def round_maxima(pe, x, n):
    """Round the softmax maxima x[n] to whole multiples of ln 2, but not below -2^22 ln 2.

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the float32 maxima [n], changed in place.
        n: Number of maxima.
    """
    doublings = np.rint(pe.read("f32", x, n) * np.float32(np.log2(np.e)))
    pe.write("f32", x, np.maximum(doublings, np.float32(-(2**22))) * np.float32(np.log(2)))


def softmax_rescale(pe, own, maxima, sums, x, M, H, F):
    """Rescale softmax sums and values from a row's own maxima to the common maxima of all rows.

    sums[M, H] and x[M, H, F] are multiplied by exp(own[M, H] - maxima[M, H]), which is a power of
    two. Factors below 2^-126 become 0. This NumPy reference for one PE serves to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        own: Address of the float32 maxima [M, H] over the cache entries of this row.
        maxima: Address of the float32 maxima [M, H] over all rows.
        sums: Address of the float32 sums [M, H], changed in place.
        x: Address of the values [M, H, F] in the accumulator type, changed in place.
        M, H, F: Tokens; query heads; features per head.
    """
    doublings = np.rint((pe.read("f32", own, M, H) - pe.read("f32", maxima, M, H)) * np.float32(np.log2(np.e)))
    factor = np.where(doublings < -126, 0, np.exp2(np.maximum(doublings, -126))).astype(np.float32)
    pe.write("acc", x, pe.read("acc", x, M, H, F) * factor[:, :, None])
    pe.write("f32", sums, pe.read("f32", sums, M, H) * factor)


def attention_finish(pe, x, sums, out, M, H, F):
    """Divide attention outputs by the softmax sums: out[M, H, F] = x[M, H, F] / sums[M, H].

    The result is 0 where the sum is not positive. This NumPy reference for one PE serves to test
    the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the outputs [M, H, F] in the accumulator type.
        sums: Address of the float32 sums [M, H].
        out: Address of the results [M, H, F] in the activation type.
        M, H, F: Tokens; query heads; features per head.
    """
    total = pe.read("f32", sums, M, H, 1)
    quotient = pe.read("acc", x, M, H, F) / np.where(total > 0, total, np.float32(1.0))
    pe.write("act", out, np.where(total > 0, quotient, np.float32(0.0)))


def _slots(ctl: I32, row: int, T: int, capacity: int) -> I64:
    """Return the cache slots of the ``T`` oldest KV-cache entries of a mesh row.

    Args:
        ctl: Counters of each row. Word 7 is the slot of the oldest entry.
        row: Index of the row.
        T: Number of entries.
        capacity: Number of slots, after which entries wrap around.
    """
    slots: I64 = (ctl[row, 7] + np.arange(T)) % capacity
    return slots


def _entry_visibility(ctl: I32, row: int, M: int, positions: I32, limits: Window) -> Bools:
    """Return whether each token of a mesh row attends to each cache entry, as [M, T].

    Args:
        ctl, row, M: Counters of each row; index of the row; number of tokens.
        positions: Position of each of the T entries, or -1 for an empty slot.
        limits: Sliding window and attention chunk.
    """
    token = ctl[row, 0] + np.arange(M)[:, None]
    is_visible: Bools = (positions >= 0) & (positions <= token)
    if limits.window:
        is_visible &= token - positions < limits.window
    if limits.chunk:
        is_visible &= token // limits.chunk == positions // limits.chunk
    return is_visible
