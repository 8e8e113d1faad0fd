"""The oracles of products, rotation, attention and the vocabulary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Pe, Sram

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

LOWEST = np.float32(-3.0e38)
PICO = 1e-12


def matmul(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] (+)= act[M, K] @ wgt[K, N]."""
    _product(pes, "wgt", a)


def matmul_act(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, N] (+)= act[M, K] @ act[K, N]."""
    _product(pes, "act", a)


def gemv(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[N] = act[K] @ wgt[K, N]."""
    x, w, out, K, N, k_stride, n_stride = a[3:10]
    whole = (*a[:3], x, w, out, 1, K, N, k_stride, n_stride, N, 0)
    _product(pes, "wgt", np.array(whole, np.int64))


def _product(pes: Sram, right: str, a: I64) -> None:
    x, w, out, M, K, N, k_stride, n_stride, out_stride, add = a[3:13]
    for pe in pes.pes(a):
        X = pe.read("act", x, M, K)
        rows = [out + m * out_stride for m in range(M)]
        total = np.array([pe.read("acc", row, N) if add else np.zeros(N, np.float32) for row in rows])
        for k in range(K):
            for n in range(N):
                product = X[:, k] * pe.read(right, w + k * k_stride + n * n_stride, 1)
                total[:, n] = pe.rounded("acc", total[:, n] + product)
        for row, sums in zip(rows, total, strict=True):
            pe.write("acc", row, sums)


def rope(pes: Sram, ctl: I32, a: I64) -> None:
    """Rotate the pairs (p, p + R / 2) of every head of q and k by position * frequency[p]; pass the rest through."""
    x, frequency, q, k, v, M, Hq, Hk, F, R, multiplier_pico = a[3:14]
    for pe in pes.pes(a):
        heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
        turned = _turned(pe, ctl, heads, frequency, R, multiplier_pico)
        pe.write("act", q, turned[:, :Hq])
        pe.write("act", k, turned[:, Hq : Hq + Hk])
        pe.write("act", v, heads[:, Hq + Hk :])


def rotate(pes: Sram, ctl: I32, a: I64) -> None:
    """Rotate the pairs (p, p + R / 2) of every head in place."""
    x, frequency, M, H, F, R, multiplier_pico = a[3:10]
    for pe in pes.pes(a):
        turned = _turned(pe, ctl, pe.read("act", x, M, H, F), frequency, R, multiplier_pico)
        pe.write("act", x, turned)


def _turned(pe: Pe, ctl: I32, heads: F32, frequency: int, R: int, multiplier_pico: np.int64) -> F32:
    half, multiplier = R // 2, np.float32(multiplier_pico * PICO)
    position = (ctl[pe.row, 0] + np.arange(len(heads))).astype(np.float32)
    angle = (position[:, None] * pe.read("f32", frequency, half))[:, None, :]
    cosine, sine = np.cos(angle) * multiplier, np.sin(angle) * multiplier
    first, second = heads[..., :half], heads[..., half:R]
    pairs = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*pairs, heads[..., R:]], axis=2)


def split_heads(pes: Sram, ctl: I32, a: I64) -> None:
    """The heads of q, k and v rounded to the element type."""
    x, q, k, v, M, Hq, Hk, F = a[3:11]
    for pe in pes.pes(a):
        heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
        for out, first, count in ((q, 0, Hq), (k, Hq, Hk), (v, Hq + Hk, Hk)):
            pe.write("act", out, heads[:, first : first + count])


def scale_queries(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, n] *= 1 + coefficient * ln(1 + floor((position + 1) / tokens))."""
    x, M, n, coefficient_pico, tokens = a[3:8]
    for pe in pes.pes(a):
        far = np.floor((ctl[pe.row, 0] + np.arange(M) + 1) / tokens).astype(np.float32)
        factor = np.log1p(far) * np.float32(coefficient_pico * PICO) + np.float32(1.0)
        pe.write("act", x, pe.read("act", x, M, n) * factor[:, None])


def kv_append(pes: Sram, ctl: I32, a: I64) -> None:
    """Copy the row's share of new keys and values into its cache slots, around the end of the cache."""
    k, v, k_cache, v_cache, E, Ev, capacity = a[3:10]
    for pe in pes.pes(a):
        first, count, slot = ctl[pe.row, 2:5]
        for i in range(count):
            for new, cache, n in ((k, k_cache, E), (v, v_cache, Ev)):
                pe.move("act", new + (first + i) * n, cache + (slot + i) % capacity * n, n)


def attention_scores(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, H, T] (+)= q[M, H, F] . k[T, Hk, F]."""
    q, k, out, M, Hk, share, F, T, capacity, add = a[3:13]
    for pe in pes.pes(a):
        Q = pe.read("act", q, M, Hk, share, 1, F)
        keys = pe.read("act", k, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)].transpose(1, 0, 2)
        total = pe.read("acc", out, M, Hk, share, T) if add else np.zeros((M, Hk, share, T), np.float32)
        for f in range(F):
            total = pe.rounded("acc", total + Q[..., f] * keys[:, None, :, f])
        pe.write("acc", out, total)


def attention_max(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, H] = the largest visible score, times the scale."""
    *places, scale_pico, window, chunk, capacity = a[3:12]
    for pe in pes.pes(a):
        held = ctl[pe.row, 8 + _slots(ctl, pe.row, a[7], capacity)]
        _max(pe, places, scale_pico, _visible(ctl, pe.row, a[5], held, window, chunk))


def attention_max_by_column(pes: Sram, ctl: I32, a: I64) -> None:
    """The same with the entries of the row that has the number of the PE's column."""
    *places, scale_pico, window, chunk = a[3:11]
    for pe in pes.pes(a):
        _max(pe, places, scale_pico, _visible(ctl, pe.row, a[5], ctl[pe.col, 8 : 8 + a[7]], window, chunk))


def _max(pe: Pe, places: list[np.int64], scale_pico: np.int64, visible: Bools) -> None:
    scores, out, M, H, T = map(int, places)
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    seen = np.where(visible[:, None, :], scaled, LOWEST)
    top = np.full((M, H), LOWEST)
    for t in range(T):
        top = np.where(seen[..., t] > top, seen[..., t], top)
    pe.write("f32", out, top)


def attention_exp(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, H, T] = exp(scale * score - max) where visible, else 0; f32[M, H] = its sum."""
    *places, scale_pico, window, chunk, capacity = a[3:14]
    for pe in pes.pes(a):
        held = ctl[pe.row, 8 + _slots(ctl, pe.row, a[9], capacity)]
        _exp(pe, places, scale_pico, _visible(ctl, pe.row, a[7], held, window, chunk))


def attention_exp_by_column(pes: Sram, ctl: I32, a: I64) -> None:
    """The same with the entries of the row that has the number of the PE's column."""
    *places, scale_pico, window, chunk = a[3:13]
    for pe in pes.pes(a):
        _exp(pe, places, scale_pico, _visible(ctl, pe.row, a[7], ctl[pe.col, 8 : 8 + a[9]], window, chunk))


def _exp(pe: Pe, places: list[np.int64], scale_pico: np.int64, seen: Bools) -> None:
    scores, maxima, out, sums, M, H, T = map(int, places)
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    visible = seen[:, None, :]
    exponent = np.where(visible, scaled - pe.read("f32", maxima, M, H, 1), np.float32(0.0))
    weights = pe.rounded("act", np.where(visible, np.exp(exponent), np.float32(0.0)))
    total = np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("act", out, weights)
    pe.write("f32", sums, total)


def attention_values(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, H, F] = p[M, H, T] @ v[T, Hk, F]."""
    p, v, out, M, Hk, share, F, T, capacity = a[3:12]
    for pe in pes.pes(a):
        weights = pe.read("act", p, M, Hk, share, T)
        values = pe.read("act", v, capacity, Hk, F)[_slots(ctl, pe.row, T, capacity)]
        total = np.zeros((M, Hk, share, F), np.float32)
        for t in range(T):
            total = pe.rounded("acc", total + weights[..., t, None] * values[t, :, None, :])
        pe.write("acc", out, total)


def attention_online(pes: Sram, ctl: I32, a: I64) -> None:
    """Fold the scores and values of one row's cache into running maxima, sums and outputs."""
    scores, v, maxima, sums, out, M, Hk, share, F, T, scale_pico, window, chunk, ring_round, ring = a[3:18]
    order = [*range(0, ring, 2), *reversed(range(1, ring, 2))]
    for pe in pes.pes(a):
        origin = order[(order.index(pe.row) - ring_round) % ring]
        if ring_round == 0:
            pe.write("f32", maxima, np.full(M * Hk * share, LOWEST))
            pe.write("f32", sums, np.zeros(M * Hk * share, np.float32))
            pe.write("acc", out, np.zeros(M * Hk * share * F, np.float32))
        scaled = pe.read("acc", scores, M, Hk, share, T) * np.float32(scale_pico * PICO)
        values = pe.read("act", v, T, Hk, 1, F)
        old_top, total = pe.read("f32", maxima, M, Hk, share), pe.read("f32", sums, M, Hk, share)
        mixed = pe.read("acc", out, M, Hk, share, F)
        visible = _visible(ctl, pe.row, M, ctl[origin, 8 : 8 + T], window, chunk)
        for m in range(min(M, ctl[pe.row, 1])):
            top = old_top[m]
            for t in np.flatnonzero(visible[m]):
                top = np.where(scaled[m, ..., t] > top, scaled[m, ..., t], top)
            shrink = np.exp(old_top[m] - top)
            total[m] *= shrink
            mixed[m] = pe.rounded("acc", mixed[m] * shrink[..., None])
            for t in np.flatnonzero(visible[m]):
                weight = np.exp(scaled[m, ..., t] - top)
                total[m] += weight
                mixed[m] = pe.rounded("acc", mixed[m] + weight[..., None] * values[t])
            old_top[m] = top
        pe.write("f32", maxima, old_top)
        pe.write("f32", sums, total)
        pe.write("acc", out, mixed)


def sink_sums(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, H] += exp(sink[H] - max[M, H])."""
    sums, maxima, sinks, M, H = a[3:8]
    for pe in pes.pes(a):
        weight = np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H))
        pe.write("f32", sums, pe.read("f32", sums, M, H) + weight)


def attention_finish(pes: Sram, ctl: I32, a: I64) -> None:
    """act[M, H, F] = acc[M, H, F] / f32[M, H]; 0 where the sum is not positive."""
    x, sums, out, M, H, F = a[3:9]
    for pe in pes.pes(a):
        total = pe.read("f32", sums, M, H, 1)
        quotient = pe.read("acc", x, M, H, F) / np.where(total > 0, total, np.float32(1.0))
        pe.write("act", out, np.where(total > 0, quotient, np.float32(0.0)))


def embedding_lookup(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, K] = wgt[id - column * V, K] where this column holds the id, else 0."""
    ids, table, out, M, K, V = a[3:9]
    for pe in pes.pes(a):
        found = np.zeros((M, K), np.float32)
        for m, token in enumerate(pe.read("f32", ids, M).astype(np.int64)):
            if pe.col * V <= token < (pe.col + 1) * V:
                found[m] = pe.read("wgt", table + (token - pe.col * V) * K, K)
        pe.write("acc", out, found)


def add_positions(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, K] += wgt[position - column * V, K] where this column holds the position."""
    x, table, M, K, V, row = a[3:9]
    for pe in pes.pes(a):
        sums = pe.read("acc", x, M, K)
        for m in range(M):
            local = ctl[row, 0] + m - pe.col * V
            if 0 <= local < V:
                sums[m] += pe.read("wgt", table + local * K, K)
        pe.write("acc", x, sums)


def argmax_fold(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[2] = (largest logit, its vocabulary index); the first of equals."""
    logits, pair, n, V, first, vocabulary, fold = a[3:10]
    for pe in pes.pes(a):
        best, index = pe.read("f32", pair, 2) if fold else (LOWEST, np.float32(-1.0))
        for e, logit in enumerate(pe.read("acc", logits, n)):
            candidate = pe.col * V + first + e
            if first + e < V and candidate < vocabulary and logit > best:
                best, index = logit, np.float32(candidate)
        pe.write("f32", pair, np.array([best, index], np.float32))


def pair_indices(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[n] = the second members of f32[n, 2] pairs."""
    pairs, out, n = a[3:6]
    for pe in pes.pes(a):
        pe.write("f32", out, pe.read("f32", pairs, n, 2)[:, 1])


def _slots(ctl: I32, row: int, T: int, capacity: int) -> I64:
    """The slots of a row's T oldest entries."""
    slots: I64 = (ctl[row, 7] + np.arange(T)) % capacity
    return slots


def _visible(ctl: I32, row: int, M: int, held: I32, window: int, chunk: int) -> Bools:
    """Whether token m of the row sees the entry at position ``held[t]``, ``[M, T]``."""
    token = ctl[row, 0] + np.arange(M)[:, None]
    visible: Bools = (held >= 0) & (held <= token)
    if window:
        visible &= token - held < window
    if chunk:
        visible &= token // chunk == held // chunk
    return visible
