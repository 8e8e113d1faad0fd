"""Oracles of attention: rotary embeddings, the KV cache, scores, values, and latent caches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Pe

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

LOWEST = np.float32(-3.0e38)
PICO = 1e-12


def rope(pe, ctl, x, frequency, q, k, v, M, Hq, Hk, F, R, multiplier_pico, turned):
    """Apply rotary embeddings to q and k, and round q, k and v to the activation type.

    Pair (p, p + R / 2) of a head is rotated by position * frequency[p]. Reference for the kernel of
    the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        x: Address of the projection's sums [M, Hq + 2 Hk, F]: queries, keys, values.
        frequency: Address of the frequencies [R / 2], or of cos and sin [M, R / 2, 2] if
            ``turned``.
        q, k, v: Addresses of the results.
        M, Hq, Hk, F, R: Tokens; query heads; key heads; features per head; rotated features.
        multiplier_pico, turned: Factor of cos and sin in 1e-12; whether cos and sin are given.
    """
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    turned = _rotate_pairs(pe, ctl, heads, frequency, R, multiplier_pico, turned)
    pe.write("act", q, turned[:, :Hq])
    pe.write("act", k, turned[:, Hq : Hq + Hk])
    pe.write("act", v, heads[:, Hq + Hk :])


def rotate(pe, ctl, x, frequency, M, H, F, R, multiplier_pico, turned):
    """Apply rotary embeddings in place to every head of x[M, H, F].

    Pair (p, p + R / 2) of a head is rotated by position * frequency[p]. Reference for the kernel of
    the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        x: Address of the activations.
        frequency: Address of the frequencies [R / 2], or of cos and sin [M, R / 2, 2] if
            ``turned``.
        M, H, F, R: Tokens; heads; features per head; rotated features.
        multiplier_pico, turned: Factor of cos and sin in 1e-12; whether cos and sin are given.
    """
    turned = _rotate_pairs(pe, ctl, pe.read("act", x, M, H, F), frequency, R, multiplier_pico, turned)
    pe.write("act", x, turned)


def rotary_turns(pe, ctl, frequency, out, M, R, multiplier_pico):
    """Compute cos and sin of position * frequency[p], times the multiplier, as out[M, R / 2, 2].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        frequency, out: Addresses of the float32 frequencies [R / 2], and of the results.
        M, R, multiplier_pico: Tokens; rotated features; multiplier in units of 1e-12.
    """
    pe.write("f32", out, _turns(pe, ctl, frequency, M, R, multiplier_pico))


def _turns(pe: Pe, ctl: I32, frequency: int, M: int, R: int, multiplier_pico: np.int64) -> F32:
    """Return cos and sin of all rotary angles, times the multiplier, as [M, R / 2, 2]."""
    position = (ctl[pe.row, 0] + np.arange(M)).astype(np.float32)
    angle = position[:, None] * pe.read("f32", frequency, R // 2)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) * np.float32(multiplier_pico * PICO)


def _rotate_pairs(
    pe: Pe, ctl: I32, heads: F32, frequency: int, R: int, multiplier_pico: np.int64, has_turns: int
) -> F32:
    """Return heads [M, H, F] in which the pairs (p, p + R / 2) of every head are rotated.

    ``has_turns`` says whether cos and sin are given at address ``frequency``. The other operands
    are those of `rope`.
    """
    half, M = R // 2, len(heads)
    turns = pe.read("f32", frequency, M, half, 2) if has_turns else _turns(pe, ctl, frequency, M, R, multiplier_pico)
    cosine, sine = turns[:, None, :, 0], turns[:, None, :, 1]
    first, second = heads[..., :half], heads[..., half:R]
    pairs = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*pairs, heads[..., R:]], axis=2)


def split_heads(pe, x, q, k, v, M, Hq, Hk, F):
    """Round queries, keys and values from accumulators to activations, without rotary embeddings.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the projection's sums [M, Hq + 2 Hk, F]: queries, keys, values.
        q, k, v: Addresses of the results.
        M, Hq, Hk, F: Tokens; query heads; key heads; features per head.
    """
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    for out, first, count in ((q, 0, Hq), (k, Hq, Hk), (v, Hq + Hk, Hk)):
        pe.write("act", out, heads[:, first : first + count])


def scale_queries(pe, ctl, x, M, n, coefficient_pico, tokens):
    """Scale queries by a factor that grows with the token's position, as Llama 4 does.

    x[M, n] *= 1 + coefficient * ln(1 + floor((position + 1) / tokens)). Reference for the kernel of
    the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        x, M, n: Address of the queries; tokens; features.
        coefficient_pico, tokens: Coefficient in units of 1e-12; positions after which it changes.
    """
    intervals = np.floor((ctl[pe.row, 0] + np.arange(M) + 1) / tokens).astype(np.float32)
    factor = np.log1p(intervals) * np.float32(coefficient_pico * PICO) + np.float32(1.0)
    pe.write("act", x, pe.read("act", x, M, n) * factor[:, None])


def kv_append(pe, ctl, k, v, k_cache, v_cache, E, Ev, capacity, tokens, stride):
    """Copy the new keys and values that belong to this row into its cache slots.

    Every ``stride``-th new token belongs to the row. Slots wrap around the end of the cache. This
    is the reference for the kernel of the same name, for one PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        k, v, k_cache, v_cache: Addresses of the new keys and values, and of the caches.
        E, Ev, capacity: Elements of a key; elements of a value; slots of the cache.
        tokens, stride: Unused maximum number of tokens; distance between two tokens of the row.
    """
    first, count, slot = ctl[pe.row, 2:5]
    for i in range(count):
        for new, cache, n in ((k, k_cache, E), (v, v_cache, Ev)):
            pe.move("act", new + (first + i * stride) * n, cache + (slot + i) % capacity * n, n)


def attention_scores(pe, ctl, q, k, out, M, Hk, queries_per_kv, F, T, capacity, add):
    """Compute local attention scores: out[M, H, T] = q[M, H, F] . k[T, Hk, F].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        q, k, out: Addresses of queries, of the key cache [capacity, Hk, F], and of the scores.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; entries.
        capacity, add: Slots of the cache; whether to add to ``out`` instead of overwriting it.
    """
    Q = pe.read("act", q, M, Hk, queries_per_kv, 1, F)
    keys = pe.read("act", k, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)].transpose(1, 0, 2)
    total = pe.read("acc", out, M, Hk, queries_per_kv, T) if add else np.zeros((M, Hk, queries_per_kv, T), np.float32)
    for f in range(F):
        total = pe.round_to("acc", total + Q[..., f] * keys[:, None, :, f])
    pe.write("acc", out, total)


def attention_max(pe, ctl, scores, out, M, H, T, scale_pico, window, chunk, capacity):
    """Compute the maximum visible score of each token and head, times the scale: out[M, H].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores, out: Addresses of scores [M, H, T] (accumulators), and of float32 maxima.
        M, H, T, capacity: Tokens; query heads; cache entries; slots of the cache.
        scale_pico, window, chunk: Scale in units of 1e-12; sliding window and chunk, 0 for none.
    """
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    _max(pe, scores, out, M, H, T, scale_pico, _entry_visibility(ctl, pe.row, M, positions, window, chunk))


def attention_max_by_column(pe, ctl, scores, out, M, H, T, scale_pico, window, chunk):
    """Compute `attention_max` where each column has the scores with another row's cache entries.

    Column c has those of row c. Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores, out, M, H, T, scale_pico, window, chunk: As in `attention_max`.
    """
    _max(pe, scores, out, M, H, T, scale_pico, _entry_visibility(ctl, pe.row, M, ctl[pe.col, 8 : 8 + T], window, chunk))


def _max(pe, scores, out, M, H, T, scale_pico, is_visible):
    """Store the maximum visible score of each token and head, times the scale, or -3e38 for none.

    ``is_visible`` [M, T] says which entries each token sees. The other operands are those of
    `attention_max`.
    """
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    candidates = np.where(is_visible[:, None, :], scaled, LOWEST)
    top = np.full((M, H), LOWEST)
    for t in range(T):
        top = np.where(candidates[..., t] > top, candidates[..., t], top)
    pe.write("f32", out, top)


def attention_exp(pe, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, capacity):
    """Compute unnormalised softmax weights out[M, H, T] and their local sums [M, H].

    out = exp(scale * scores - maxima), or 0 where an entry is not visible. Reference for the kernel
    of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores, maxima, out, sums: Addresses of accumulators, float32, activations and float32.
        M, H, T, capacity: Tokens; query heads; cache entries; slots of the cache.
        scale_pico, window, chunk: Scale in units of 1e-12; sliding window and chunk, 0 for none.
    """
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    is_visible = _entry_visibility(ctl, pe.row, M, positions, window, chunk)
    _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, is_visible)


def attention_exp_share(
    pe, ctl, scores, maxima, out, M, H, T, scale_pico, window, chunk, capacity, first_col, columns, groups, sharers
):
    """Compute the softmax weights of `attention_exp` that fall to this PE. Others become 0.

    Neighbouring columns have the same scores and divide the weights among them. Reference for the
    kernel of the same name, on a single PE.

    Args:
        pe, ctl, scores, maxima, out: As in `attention_exp`.
        M, H, T, scale_pico, window, chunk, capacity: As in `attention_exp`.
        first_col, columns: First column that computes weights, and number of these columns.
        groups, sharers: Groups of columns; columns of a group that divide the weights.
    """
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    weights = _weights(
        pe, scores, maxima, M, H, T, scale_pico, _entry_visibility(ctl, pe.row, M, positions, window, chunk)
    )
    col = pe.col - first_col
    if not 0 <= col < columns:
        pe.write("act", out, np.zeros((M, H, T), np.float32))
        return
    start, end = _part(col, np.cumsum([0, *[columns // groups + (g < columns % groups) for g in range(groups)]]))
    sets = max(1, int(end - start) // int(sharers))
    start, end = _part(col, start + np.arange(sets + 1) * (end - start) // sets)
    owners = np.repeat(np.arange(start, end), np.diff(np.arange(end - start + 1) * (M * H * T) // (end - start)))
    pe.write("act", out, np.where(owners.reshape(M, H, T) == col, weights, np.float32(0.0)))


def _part(place, starts):
    """Return start and end of the part that contains a place, given the starts of all parts."""
    part = int(np.searchsorted(starts, place, side="right")) - 1
    return starts[part], starts[part + 1]


def softmax_sums(pe, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of the weights (activations), and of the float32 sums.
        M, H, T: Tokens; query heads; cache entries.
    """
    weights, total = pe.read("act", x, M, H, T), np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("f32", sums, total)


def attention_exp_by_column(pe, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk):
    """Compute `attention_exp` where each column has the scores with another row's cache entries.

    Column c has those of row c. Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores, maxima, out, sums: Addresses, as in `attention_exp`.
        M, H, T, scale_pico, window, chunk: As in `attention_exp`.
    """
    is_visible = _entry_visibility(ctl, pe.row, M, ctl[pe.col, 8 : 8 + T], window, chunk)
    _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, is_visible)


def _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, is_visible):
    """Store softmax weights, and their float32 sums over the entries.

    ``is_visible`` [M, T] says which entries each token sees. The other operands are those of
    `attention_exp`.
    """
    weights = _weights(pe, scores, maxima, M, H, T, scale_pico, is_visible)
    total = np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("act", out, weights)
    pe.write("f32", sums, total)


def _weights(pe, scores, maxima, M, H, T, scale_pico, is_visible):
    """Return softmax weights [M, H, T], rounded to activations; 0 for invisible entries.

    ``is_visible`` [M, T] says which entries each token sees. The other operands are those of
    `attention_exp`.
    """
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    is_visible = is_visible[:, None, :]
    exponent = np.where(is_visible, scaled - pe.read("f32", maxima, M, H, 1), np.float32(0.0))
    return pe.round_to("act", np.where(is_visible, np.exp(exponent), np.float32(0.0)))


def attention_values(pe, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity):
    """Compute the weighted sum of cached values: out[M, H, F] = p[M, H, T] @ v[T, Hk, F].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        p, v, out: Addresses of softmax weights, of the value cache [capacity, Hk, F], and of the
            sums.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; entries.
        capacity: Slots of the cache.
    """
    weights = pe.read("act", p, M, Hk, queries_per_kv, T)
    values = pe.read("act", v, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)]
    total = np.zeros((M, Hk, queries_per_kv, F), np.float32)
    for t in range(T):
        total = pe.round_to("acc", total + weights[..., t, None] * values[t, :, None, :])
    pe.write("acc", out, total)


def attention_online(
    pe, ctl, scores, v, maxima, sums, out, M, Hk, queries_per_kv, F, T, scale_pico, window, chunk, round, ring
):
    """Fold the scores and values of one row's cache into running softmax maxima, sums and outputs.

    Round 0 resets the running values. Reference for the kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        scores, v: Addresses of the scores [M, H, T] and of the values [T, Hk, F].
        maxima, sums, out: Addresses of the running values.
        M, Hk, queries_per_kv, F, T: Tokens; KV heads; query heads per KV head; features; entries.
        scale_pico, window, chunk: Scale of scores in 1e-12; sliding window; chunk, 0 for none.
        round, ring: Places between this row and the row of the cache on the ring; rows of the ring.
    """
    order = [*range(0, ring, 2), *reversed(range(1, ring, 2))]
    origin = order[(order.index(pe.row) - round) % ring]
    if round == 0:
        pe.write("f32", maxima, np.full(M * Hk * queries_per_kv, LOWEST))
        pe.write("f32", sums, np.zeros(M * Hk * queries_per_kv, np.float32))
        pe.write("acc", out, np.zeros(M * Hk * queries_per_kv * F, np.float32))
    scaled = pe.read("acc", scores, M, Hk, queries_per_kv, T) * np.float32(scale_pico * PICO)
    values = pe.read("act", v, T, Hk, 1, F)
    old_top, total = pe.read("f32", maxima, M, Hk, queries_per_kv), pe.read("f32", sums, M, Hk, queries_per_kv)
    outputs = pe.read("acc", out, M, Hk, queries_per_kv, F)
    is_visible = _entry_visibility(ctl, pe.row, M, ctl[origin, 8 : 8 + T], window, chunk)
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

    An attention sink is a trained score without a value. Reference for the kernel of the same name,
    on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        sums, maxima, sinks: Addresses of float32 sums and maxima, and of weights.
        M, H: Tokens; query heads.
    """
    weight = np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H))
    pe.write("f32", sums, pe.read("f32", sums, M, H) + weight)


def sink_weights(pe, maxima, sinks, out, M, H):
    """Compute the softmax weights of attention sinks: out[M, H] = exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score without a value. Reference for the kernel of the same name,
    on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        maxima, sinks, out: Addresses of float32 maxima, of weights, and of float32 results.
        M, H: Tokens; query heads.
    """
    pe.write("f32", out, np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H)))


def round_maxima(pe, x, n):
    """Round the softmax maxima x[n] to whole multiples of ln 2, but not below -2^22 ln 2.

    Reference for the kernel of the same name, on a single PE. ``x`` is an address.
    """
    doublings = np.rint(pe.read("f32", x, n) * np.float32(np.log2(np.e)))
    pe.write("f32", x, np.maximum(doublings, np.float32(-(2**22))) * np.float32(np.log(2)))


def softmax_rescale(pe, own, maxima, sums, x, M, H, F):
    """Rescale softmax sums and values from a row's own maxima to the common maxima of all rows.

    Both are multiplied by exp(own[M, H] - maxima[M, H]), which is a power of two. Factors below
    2^-126 become 0. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        own, maxima, sums: Addresses of float32 [M, H]: own maxima, common maxima, sums.
        x: Address of the values [M, H, F] in the accumulator type.
        M, H, F: Tokens; query heads; features per head.
    """
    doublings = np.rint((pe.read("f32", own, M, H) - pe.read("f32", maxima, M, H)) * np.float32(np.log2(np.e)))
    factor = np.where(doublings < -126, 0, np.exp2(np.maximum(doublings, -126))).astype(np.float32)
    pe.write("acc", x, pe.read("acc", x, M, H, F) * factor[:, :, None])
    pe.write("f32", sums, pe.read("f32", sums, M, H) * factor)


def attention_finish(pe, x, sums, out, M, H, F):
    """Divide attention outputs by the softmax sums: out[M, H, F] = x[M, H, F] / sums[M, H].

    The result is 0 where the sum is not positive. Reference for the kernel of the same name, on a
    single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums, out: Addresses of accumulators, float32 sums and activations.
        M, H, F: Tokens; query heads; features per head.
    """
    total = pe.read("f32", sums, M, H, 1)
    quotient = pe.read("acc", x, M, H, F) / np.where(total > 0, total, np.float32(1.0))
    pe.write("act", out, np.where(total > 0, quotient, np.float32(0.0)))


def _slots(ctl: I32, row: int, T: int, capacity: int) -> I64:
    """Return the cache slots of the T oldest entries of a row.

    ``ctl`` has the counters of each row, and ``capacity`` is the number of slots of the cache.
    """
    slots: I64 = (ctl[row, 7] + np.arange(T)) % capacity
    return slots


def _entry_visibility(ctl: I32, row: int, M: int, positions: I32, window: int, chunk: int) -> Bools:
    """Return whether token m of a row sees the entry at position ``positions[t]``, as [M, T].

    Args:
        ctl, row, M: Counters of each row; index of the row; number of tokens.
        positions: Position of each entry, or -1 for an empty slot.
        window, chunk: Sliding window and attention chunk in tokens; 0 for none.
    """
    token = ctl[row, 0] + np.arange(M)[:, None]
    is_visible: Bools = (positions >= 0) & (positions <= token)
    if window:
        is_visible &= token - positions < window
    if chunk:
        is_visible &= token // chunk == positions // chunk
    return is_visible


def place_heads(pe, x, heads, out, M, H, Hl, n):
    """Copy the heads of this row to their positions among all heads. Other heads become zero.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the row's heads [M, Hl, n] and of all heads [M, H, n], accumulators.
        heads: Address of the ordinals [Hl] of the row's heads: 1 for the first, 0 for padding.
        M, H, Hl, n: Tokens; all heads; heads of the row; features per head.
    """
    all_heads = np.zeros((M, H + 1, n), np.float32)
    all_heads[:, pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("acc", x, M, Hl, n)
    pe.write("acc", out, all_heads[:, 1:])


def place_rotated(pe, x, heads, first, feature_ordinals, out, M, H, Hl, K, n, stride):
    """Copy the rotated features that this row has and this column needs to their positions.

    All other elements become zero. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the row's features [M, Hl, K], and of the column's [M, H, n].
        heads, first, feature_ordinals: Addresses of the ordinals of the row's heads, of its first
            feature, and of the column's features. They count from 1, and 0 is padding.
        M, H, Hl, K, n: Tokens; all heads; heads of the row; features of row and of column.
        stride: Elements from one token to the next in ``x``.
    """
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    heads_of_row = np.stack([pe.read("acc", x + m * stride, Hl, K) for m in range(M)])
    all_heads = np.zeros((M, H + 1, n), np.float32)
    for i, head in enumerate(pe.read("f32", heads, Hl).astype(np.int64)):
        for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
            all_heads[:, head, j] = heads_of_row[:, i, k]
    pe.write("acc", out, all_heads[:, 1:])


def pick_rotated(pe, x, first, feature_ordinals, out, Hl, K, n):
    """Copy the rotated features that this row has and this column needs: x[Hl, K] to out[Hl, n].

    Features of other rows become zero. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the row's features, and of the column's, both accumulators.
        first, feature_ordinals: Addresses of the ordinals of the row's first feature and of the
            column's features. They count from 1, and 0 is padding.
        Hl, K, n: Heads of the row; features of the row; features of the column.
    """
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    row_features, column_features = pe.read("acc", x, Hl, K), np.zeros((Hl, n), np.float32)
    for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
        column_features[:, j] = row_features[:, k]
    pe.write("acc", out, column_features)


def set_heads(pe, x, heads, out, H, Hl, n):
    """Overwrite this row's heads in out[H, n] by x[Hl, n]. Other heads stay as they are.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the row's heads (activations), and of all heads (accumulators).
        heads: Address of the ordinals [Hl] of the row's heads: 1 for the first, 0 for padding.
        H, Hl, n: All heads; heads of the row; features per head.
    """
    padded = np.concatenate([np.zeros((1, n), np.float32), pe.read("acc", out, H, n)])
    padded[pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("act", x, Hl, n)
    pe.write("acc", out, padded[1:])


def pick_heads(pe, x, heads, out, M, H, Hl, n):
    """Copy this row's heads from x[M, H, n] to out[Hl, M, n], head by head. Padding becomes zero.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of activations.
        heads: Address of the ordinals [Hl] of the row's heads: 1 for the first, 0 for padding.
        M, H, Hl, n: Tokens; all heads; heads of the row; features per head.
    """
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), pe.read("act", x, M, H, n)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def finish_heads(pe, x, sums, heads, out, M, H, Hl, n):
    """Divide attention outputs by softmax sums, for the heads of this row, head by head.

    out[Hl, M, n] = the row's heads of x[M, H, n] / sums[M, H]. Elements become zero for padding and
    where the sum is not positive. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums, out: Addresses of accumulators, float32 sums and activations.
        heads: Address of the ordinals [Hl] of the row's heads: 1 for the first, 0 for padding.
        M, H, Hl, n: Tokens; all heads; heads of the row; features per head.
    """
    total = pe.read("f32", sums, M, H, 1)
    quotient = np.where(total > 0, pe.read("acc", x, M, H, n) / np.where(total > 0, total, np.float32(1.0)), 0)
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), quotient.astype(np.float32)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def turn_block(pe, x, out, M, K, N, first_col, to_rows):
    """Keep the elements of a vector that belong both to this PE's row and to its column.

    One axis of the mesh stores the vector in blocks of K elements, the other in blocks of N. Other
    elements of the result become zero. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the activations [M, K], and of the result [M, N] (accumulators).
        M, K, N: Tokens; elements of the PE's block before; elements of its block after.
        first_col, to_rows: First column that has a block; whether the result is divided over rows.
    """
    col = pe.col - first_col
    if col < 0:
        pe.write("acc", out, np.zeros((M, N), np.float32))
        return
    source, target = (col, pe.row) if to_rows else (pe.row, col)
    vector = np.zeros((M, (source + 1) * K + (target + 1) * N), np.float32)
    vector[:, source * K : (source + 1) * K] = pe.read("act", x, M, K)
    pe.write("acc", out, vector[:, target * N : (target + 1) * N])
