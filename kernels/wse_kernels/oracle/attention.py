"""The oracles of attention: rotation, the cache, scores and values, and moves of a latent cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Pe

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

LOWEST = np.float32(-3.0e38)
PICO = 1e-12


def rope(pe, ctl, x, frequency, q, k, v, M, Hq, Hk, F, R, multiplier_pico, turned):
    """Rotate the pairs (p, p + R / 2) of every head of q and k by position * frequency[p]; pass the rest through."""
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    turned = _rotate_pairs(pe, ctl, heads, frequency, R, multiplier_pico, turned)
    pe.write("act", q, turned[:, :Hq])
    pe.write("act", k, turned[:, Hq : Hq + Hk])
    pe.write("act", v, heads[:, Hq + Hk :])


def rotate(pe, ctl, x, frequency, M, H, F, R, multiplier_pico, turned):
    """Rotate the pairs (p, p + R / 2) of every head in place."""
    turned = _rotate_pairs(pe, ctl, pe.read("act", x, M, H, F), frequency, R, multiplier_pico, turned)
    pe.write("act", x, turned)


def rotary_turns(pe, ctl, frequency, out, M, R, multiplier_pico):
    """f32[M, R / 2, 2] = cos and sin of position * frequency[p], times the multiplier."""
    pe.write("f32", out, _turns(pe, ctl, frequency, M, R, multiplier_pico))


def _turns(pe: Pe, ctl: I32, frequency: int, M: int, R: int, multiplier_pico: np.int64) -> F32:
    position = (ctl[pe.row, 0] + np.arange(M)).astype(np.float32)
    angle = position[:, None] * pe.read("f32", frequency, R // 2)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) * np.float32(multiplier_pico * PICO)


def _rotate_pairs(pe: Pe, ctl: I32, heads: F32, frequency: int, R: int, multiplier_pico: np.int64, turned: int) -> F32:
    half, M = R // 2, len(heads)
    turns = pe.read("f32", frequency, M, half, 2) if turned else _turns(pe, ctl, frequency, M, R, multiplier_pico)
    cosine, sine = turns[:, None, :, 0], turns[:, None, :, 1]
    first, second = heads[..., :half], heads[..., half:R]
    pairs = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*pairs, heads[..., R:]], axis=2)


def split_heads(pe, x, q, k, v, M, Hq, Hk, F):
    """The heads of q, k and v rounded to the element type."""
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    for out, first, count in ((q, 0, Hq), (k, Hq, Hk), (v, Hq + Hk, Hk)):
        pe.write("act", out, heads[:, first : first + count])


def scale_queries(pe, ctl, x, M, n, coefficient_pico, tokens):
    """act[M, n] *= 1 + coefficient * ln(1 + floor((position + 1) / tokens))."""
    far = np.floor((ctl[pe.row, 0] + np.arange(M) + 1) / tokens).astype(np.float32)
    factor = np.log1p(far) * np.float32(coefficient_pico * PICO) + np.float32(1.0)
    pe.write("act", x, pe.read("act", x, M, n) * factor[:, None])


def kv_append(pe, ctl, k, v, k_cache, v_cache, E, Ev, capacity, tokens, stride):
    """Copy the row's share of new keys and values, every ``stride``-th, into its slots, around the end of the cache."""
    first, count, slot = ctl[pe.row, 2:5]
    for i in range(count):
        for new, cache, n in ((k, k_cache, E), (v, v_cache, Ev)):
            pe.move("act", new + (first + i * stride) * n, cache + (slot + i) % capacity * n, n)


def attention_scores(pe, ctl, q, k, out, M, Hk, queries_per_kv, F, T, capacity, add):
    """acc[M, H, T] (+)= q[M, H, F] . k[T, Hk, F]."""
    Q = pe.read("act", q, M, Hk, queries_per_kv, 1, F)
    keys = pe.read("act", k, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)].transpose(1, 0, 2)
    total = pe.read("acc", out, M, Hk, queries_per_kv, T) if add else np.zeros((M, Hk, queries_per_kv, T), np.float32)
    for f in range(F):
        total = pe.round_to("acc", total + Q[..., f] * keys[:, None, :, f])
    pe.write("acc", out, total)


def attention_max(pe, ctl, scores, out, M, H, T, scale_pico, window, chunk, capacity):
    """f32[M, H] = the largest visible score, times the scale."""
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    _max(pe, scores, out, M, H, T, scale_pico, _visible(ctl, pe.row, M, positions, window, chunk))


def attention_max_by_column(pe, ctl, scores, out, M, H, T, scale_pico, window, chunk):
    """f32[M, H] = the largest visible score, of entries of the row that has the number of the PE's column."""
    _max(pe, scores, out, M, H, T, scale_pico, _visible(ctl, pe.row, M, ctl[pe.col, 8 : 8 + T], window, chunk))


def _max(pe, scores, out, M, H, T, scale_pico, visible):
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    candidates = np.where(visible[:, None, :], scaled, LOWEST)
    top = np.full((M, H), LOWEST)
    for t in range(T):
        top = np.where(candidates[..., t] > top, candidates[..., t], top)
    pe.write("f32", out, top)


def attention_exp(pe, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk, capacity):
    """act[M, H, T] = exp(scale * score - max) where visible, else 0; f32[M, H] = its sum."""
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    visible = _visible(ctl, pe.row, M, positions, window, chunk)
    _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, visible)


def attention_exp_share(
    pe, ctl, scores, maxima, out, M, H, T, scale_pico, window, chunk, capacity, first_col, columns, groups, sharers
):
    """act[M, H, T] = the weights of `attention_exp` that the PE's column has to compute, 0 elsewhere."""
    positions = ctl[pe.row, 8 + _slots(ctl, pe.row, T, capacity)]
    weights = _weights(pe, scores, maxima, M, H, T, scale_pico, _visible(ctl, pe.row, M, positions, window, chunk))
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
    """The start of the part that a place lies in, and its end."""
    part = int(np.searchsorted(starts, place, side="right")) - 1
    return starts[part], starts[part + 1]


def softmax_sums(pe, x, sums, M, H, T):
    """f32[M, H] = sum over T of act[M, H, T]."""
    weights, total = pe.read("act", x, M, H, T), np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("f32", sums, total)


def attention_exp_by_column(pe, ctl, scores, maxima, out, sums, M, H, T, scale_pico, window, chunk):
    """Weights and sums of `attention_exp` with the entries of the row that has the number of the PE's column."""
    visible = _visible(ctl, pe.row, M, ctl[pe.col, 8 : 8 + T], window, chunk)
    _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, visible)


def _exp(pe, scores, maxima, out, sums, M, H, T, scale_pico, visible):
    weights = _weights(pe, scores, maxima, M, H, T, scale_pico, visible)
    total = np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("act", out, weights)
    pe.write("f32", sums, total)


def _weights(pe, scores, maxima, M, H, T, scale_pico, visible):
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    visible = visible[:, None, :]
    exponent = np.where(visible, scaled - pe.read("f32", maxima, M, H, 1), np.float32(0.0))
    return pe.round_to("act", np.where(visible, np.exp(exponent), np.float32(0.0)))


def attention_values(pe, ctl, p, v, out, M, Hk, queries_per_kv, F, T, capacity):
    """acc[M, H, F] = p[M, H, T] @ v[T, Hk, F]."""
    weights = pe.read("act", p, M, Hk, queries_per_kv, T)
    values = pe.read("act", v, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)]
    total = np.zeros((M, Hk, queries_per_kv, F), np.float32)
    for t in range(T):
        total = pe.round_to("acc", total + weights[..., t, None] * values[t, :, None, :])
    pe.write("acc", out, total)


def attention_online(
    pe, ctl, scores, v, maxima, sums, out, M, Hk, queries_per_kv, F, T, scale_pico, window, chunk, round, ring
):
    """Fold the scores and values of one row's cache into running maxima, sums and outputs."""
    order = [*range(0, ring, 2), *reversed(range(1, ring, 2))]
    origin = order[(order.index(pe.row) - round) % ring]
    if round == 0:
        pe.write("f32", maxima, np.full(M * Hk * queries_per_kv, LOWEST))
        pe.write("f32", sums, np.zeros(M * Hk * queries_per_kv, np.float32))
        pe.write("acc", out, np.zeros(M * Hk * queries_per_kv * F, np.float32))
    scaled = pe.read("acc", scores, M, Hk, queries_per_kv, T) * np.float32(scale_pico * PICO)
    values = pe.read("act", v, T, Hk, 1, F)
    old_top, total = pe.read("f32", maxima, M, Hk, queries_per_kv), pe.read("f32", sums, M, Hk, queries_per_kv)
    mixed = pe.read("acc", out, M, Hk, queries_per_kv, F)
    visible = _visible(ctl, pe.row, M, ctl[origin, 8 : 8 + T], window, chunk)
    for m in range(min(M, ctl[pe.row, 1])):
        top = old_top[m]
        for t in np.flatnonzero(visible[m]):
            top = np.where(scaled[m, ..., t] > top, scaled[m, ..., t], top)
        shrink = np.exp(old_top[m] - top)
        total[m] *= shrink
        mixed[m] = pe.round_to("acc", mixed[m] * shrink[..., None])
        for t in np.flatnonzero(visible[m]):
            weight = np.exp(scaled[m, ..., t] - top)
            total[m] += weight
            mixed[m] = pe.round_to("acc", mixed[m] + weight[..., None] * values[t])
        old_top[m] = top
    pe.write("f32", maxima, old_top)
    pe.write("f32", sums, total)
    pe.write("acc", out, mixed)


def sink_sums(pe, sums, maxima, sinks, M, H):
    """f32[M, H] += exp(sink[H] - max[M, H])."""
    weight = np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H))
    pe.write("f32", sums, pe.read("f32", sums, M, H) + weight)


def sink_weights(pe, maxima, sinks, out, M, H):
    """f32[M, H] = exp(sink[H] - max[M, H])."""
    pe.write("f32", out, np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H)))


def round_maxima(pe, x, n):
    """f32[n] = the nearest multiple of ln 2 by a whole number, from -2^22 on."""
    doublings = np.rint(pe.read("f32", x, n) * np.float32(np.log2(np.e)))
    pe.write("f32", x, np.maximum(doublings, np.float32(-(2**22))) * np.float32(np.log(2)))


def softmax_rescale(pe, own, maxima, sums, x, M, H, F):
    """f32[M, H] and acc[M, H, F] *= 2 to the whole number of (own[M, H] - maxima[M, H]) / ln 2; 0 below -126."""
    doublings = np.rint((pe.read("f32", own, M, H) - pe.read("f32", maxima, M, H)) * np.float32(np.log2(np.e)))
    factor = np.where(doublings < -126, 0, np.exp2(np.maximum(doublings, -126))).astype(np.float32)
    pe.write("acc", x, pe.read("acc", x, M, H, F) * factor[:, :, None])
    pe.write("f32", sums, pe.read("f32", sums, M, H) * factor)


def attention_finish(pe, x, sums, out, M, H, F):
    """act[M, H, F] = acc[M, H, F] / f32[M, H]; 0 where the sum is not positive."""
    total = pe.read("f32", sums, M, H, 1)
    quotient = pe.read("acc", x, M, H, F) / np.where(total > 0, total, np.float32(1.0))
    pe.write("act", out, np.where(total > 0, quotient, np.float32(0.0)))


def _slots(ctl: I32, row: int, T: int, capacity: int) -> I64:
    """Return the slots of a row's T oldest entries."""
    slots: I64 = (ctl[row, 7] + np.arange(T)) % capacity
    return slots


def _visible(ctl: I32, row: int, M: int, positions: I32, window: int, chunk: int) -> Bools:
    """Return whether token m of the row sees the entry at ``positions[t]``, ``[M, T]``."""
    token = ctl[row, 0] + np.arange(M)[:, None]
    visible: Bools = (positions >= 0) & (positions <= token)
    if window:
        visible &= token - positions < window
    if chunk:
        visible &= token // chunk == positions // chunk
    return visible


def place_heads(pe, x, heads, out, M, H, Hl, n):
    """acc[M, H, n] = the row's heads acc[M, Hl, n] where they belong, zeros elsewhere."""
    placed = np.zeros((M, H + 1, n), np.float32)
    placed[:, pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("acc", x, M, Hl, n)
    pe.write("acc", out, placed[:, 1:])


def place_rotated(pe, x, heads, first, feature_ordinals, out, M, H, Hl, K, n, stride):
    """acc[M, H, n] = the row's features acc[M, Hl, K] that the column needs, zeros elsewhere."""
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    heads_of_row = np.stack([pe.read("acc", x + m * stride, Hl, K) for m in range(M)])
    placed = np.zeros((M, H + 1, n), np.float32)
    for i, head in enumerate(pe.read("f32", heads, Hl).astype(np.int64)):
        for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
            placed[:, head, j] = heads_of_row[:, i, k]
    pe.write("acc", out, placed[:, 1:])


def pick_rotated(pe, x, first, feature_ordinals, out, Hl, K, n):
    """acc[Hl, n] = the features of the row's heads acc[Hl, K] that the column needs, zeros for those of other rows."""
    start, columns = pe.read("f32", first, 1), pe.read("f32", feature_ordinals, n)
    own, picked = pe.read("acc", x, Hl, K), np.zeros((Hl, n), np.float32)
    for k, j in np.argwhere((start > 0) & (start + np.arange(K)[:, None] == columns)):
        picked[:, j] = own[:, k]
    pe.write("acc", out, picked)


def set_heads(pe, x, heads, out, H, Hl, n):
    """acc[H, n] = the row's heads act[Hl, n] where they belong, and what was there elsewhere."""
    padded = np.concatenate([np.zeros((1, n), np.float32), pe.read("acc", out, H, n)])
    padded[pe.read("f32", heads, Hl).astype(np.int64)] = pe.read("act", x, Hl, n)
    pe.write("acc", out, padded[1:])


def pick_heads(pe, x, heads, out, M, H, Hl, n):
    """act[Hl, M, n] = the row's heads of act[M, H, n], head by head; zeros for padding."""
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), pe.read("act", x, M, H, n)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def finish_heads(pe, x, sums, heads, out, M, H, Hl, n):
    """act[Hl, M, n] = the row's heads of acc[M, H, n] / f32[M, H], head by head; zeros for padding, or no sum."""
    total = pe.read("f32", sums, M, H, 1)
    quotient = np.where(total > 0, pe.read("acc", x, M, H, n) / np.where(total > 0, total, np.float32(1.0)), 0)
    padded = np.concatenate([np.zeros((M, 1, n), np.float32), quotient.astype(np.float32)], axis=1)
    pe.write("act", out, padded[:, pe.read("f32", heads, Hl).astype(np.int64)].swapaxes(0, 1))


def turn_block(pe, x, out, M, K, N, first_col, to_rows):
    """acc[M, N] = what a PE's block act[M, K] of a vector and its block on the other axis share, zeros elsewhere."""
    col = pe.col - first_col
    if col < 0:
        pe.write("acc", out, np.zeros((M, N), np.float32))
        return
    source, target = (col, pe.row) if to_rows else (pe.row, col)
    whole = np.zeros((M, (source + 1) * K + (target + 1) * N), np.float32)
    whole[:, source * K : (source + 1) * K] = pe.read("act", x, M, K)
    pe.write("acc", out, whole[:, target * N : (target + 1) * N])
