"""Attention over the cache slots that a PE holds: T slots of its row, F features of its column's heads.

Caches are ``[slot, Hk, F]``, queries ``[M, H, F]`` with H = Hk times the queries that share a kv head.
The T entries of a row are taken from the oldest on, ``ctl`` word 7, around the end of the cache. An entry is visible
to a token when its position is not later than the token's, nor earlier than ``window`` - 1 tokens before it, nor than
the start of its stretch of ``chunk`` tokens; a window or a chunk of 0 leaves that condition out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import narrow, prange, widen

OLDEST, SLOTS = 7, 8  # words of ctl: the oldest entry's slot, the first slot's position
LOWEST = np.float32(-3.0e38)
FAR = 1 << 40  # more tokens than there are: a window or chunk that hides nothing


def kv_append(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """Copy the row's share of new keys and values into its cache slots.

    Operands: 3 and 4 new k ``[M, E]`` and v ``[M, Ev]``, 5 and 6 the caches ``[slot, E]`` and ``[slot, Ev]``, 7 E,
    8 Ev, 9 slots of the cache, 10 most tokens that a row appends (for the cycle model).
    """
    E, Ev, capacity = a[7], a[8], a[9]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for i in range(ctl[row, 3]):
            source, target = ctl[row, 2] + i, (ctl[row, 4] + i) % capacity
            for e in range(E):
                for lane in range(lanes):
                    act[block, a[5] + target * E + e, lane] = act[block, a[3] + source * E + e, lane]
            for e in range(Ev):
                for lane in range(lanes):
                    act[block, a[6] + target * Ev + e, lane] = act[block, a[4] + source * Ev + e, lane]


def attention_scores(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, H, T] (+)= q[M, H, F] . k[T, Hk, F], over the local features.

    Operands: 3 q, 4 k, 5 acc, 6 M, 7 Hk, 8 queries per kv head, 9 F, 10 T, 11 slots of the cache, 12 is not 0 to add to
    what acc holds.
    """
    q, k, out, M, Hk, share, F, T = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        oldest = ctl[block // a[2], OLDEST]
        for mh in range(M * Hk * share):
            kv_head = (mh % (Hk * share)) // share
            for t in range(T):
                slot = (oldest + t) % a[11]
                e = out + mh * T + t
                if a[12] == 0:
                    for lane in range(lanes):
                        acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
                for f in range(F):
                    for lane in range(lanes):
                        old = acc[block, e, lane]
                        product = widen(act[block, q + mh * F + f, lane]) * widen(
                            act[block, k + (slot * Hk + kv_head) * F + f, lane]
                        )
                        acc[block, e, lane] = narrow(widen(old) + product, old)


def attention_max(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[M, H] = the largest visible score, times the scale; -3e38 where the row holds none.

    Operands: 3 acc scores ``[M, H, T]``, 4 f32, 5 M, 6 H, 7 T, 8 scale in units of 1e-12, 9 window, 10 chunk, 11 slots
    of the cache.
    """
    scores, out, M, H, T = a[3], a[4], a[5], a[6], a[7]
    window, chunk = a[9] if a[9] > 0 else FAR, a[10] if a[10] > 0 else FAR
    scale = np.float32(a[8] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for mh in range(M * H):
            last = ctl[row, 0] + mh // H
            first = max(last - window + 1, last // chunk * chunk)
            for lane in range(lanes):
                f32[block, out + mh, lane] = LOWEST
            for t in range(T):
                held = ctl[row, SLOTS + (ctl[row, OLDEST] + t) % a[11]]
                if held >= first and held <= last:
                    for lane in range(lanes):
                        score = widen(acc[block, scores + mh * T + t, lane]) * scale
                        f32[block, out + mh, lane] = max(f32[block, out + mh, lane], score)


def attention_exp(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, H, T] = exp(scale * score - max), 0 where not visible; f32[M, H] = its local sum.

    Operands: 3 acc scores, 4 f32 maxima, 5 act, 6 f32 sums, 7 M, 8 H, 9 T, 10 scale in units of 1e-12, 11 window,
    12 chunk, 13 slots of the cache.
    """
    scores, maxima, out, sums, M, H, T = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    window, chunk = a[11] if a[11] > 0 else FAR, a[12] if a[12] > 0 else FAR
    scale = np.float32(a[10] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        for mh in range(M * H):
            last = ctl[row, 0] + mh // H
            first = max(last - window + 1, last // chunk * chunk)
            for lane in range(lanes):
                f32[block, sums + mh, lane] = np.float32(0.0)
            for t in range(T):
                held = ctl[row, SLOTS + (ctl[row, OLDEST] + t) % a[13]]
                visible = held >= first and held <= last
                for lane in range(lanes):
                    like = act[block, out + mh * T + t, lane]
                    weight = np.float32(0.0)
                    if visible:
                        score = widen(acc[block, scores + mh * T + t, lane]) * scale
                        weight = np.exp(score - f32[block, maxima + mh, lane])
                    stored = narrow(weight, like)
                    act[block, out + mh * T + t, lane] = stored
                    f32[block, sums + mh, lane] += widen(stored)


def attention_max_by_column(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """``attention_max`` of a square whose column c has the scores with the entries that row c caches, from slot 0 on.

    Operands: 3 acc scores ``[M, H, T]``, 4 f32, 5 M, 6 H, 7 T, 8 scale in units of 1e-12, 9 window, 10 chunk.
    """
    scores, out, M, H, T = a[3], a[4], a[5], a[6], a[7]
    window, chunk = a[9] if a[9] > 0 else FAR, a[10] if a[10] > 0 else FAR
    scale = np.float32(a[8] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        col = block % a[2] * lanes
        for mh in range(M * H):
            last = ctl[block // a[2], 0] + mh // H
            first = max(last - window + 1, last // chunk * chunk)
            for lane in range(lanes):
                f32[block, out + mh, lane] = LOWEST
            for t in range(T):
                for lane in range(min(lanes, len(ctl) - col)):
                    held = ctl[col + lane, SLOTS + t]
                    if held >= first and held <= last:
                        score = widen(acc[block, scores + mh * T + t, lane]) * scale
                        f32[block, out + mh, lane] = max(f32[block, out + mh, lane], score)


def attention_exp_by_column(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """``attention_exp`` of a square whose column c has the scores with the entries that row c caches, from slot 0 on.

    Operands: 3 acc scores, 4 f32 maxima, 5 act, 6 f32 sums, 7 M, 8 H, 9 T, 10 scale in units of 1e-12, 11 window,
    12 chunk.
    """
    scores, maxima, out, sums, M, H, T = a[3], a[4], a[5], a[6], a[7], a[8], a[9]
    window, chunk = a[11] if a[11] > 0 else FAR, a[12] if a[12] > 0 else FAR
    scale = np.float32(a[10] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        col = block % a[2] * lanes
        for mh in range(M * H):
            last = ctl[block // a[2], 0] + mh // H
            first = max(last - window + 1, last // chunk * chunk)
            for lane in range(lanes):
                f32[block, sums + mh, lane] = np.float32(0.0)
            for t in range(T):
                for lane in range(min(lanes, len(ctl) - col)):
                    held = ctl[col + lane, SLOTS + t]
                    weight = np.float32(0.0)
                    if held >= first and held <= last:
                        score = widen(acc[block, scores + mh * T + t, lane]) * scale
                        weight = np.exp(score - f32[block, maxima + mh, lane])
                    stored = narrow(weight, act[block, out + mh * T + t, lane])
                    act[block, out + mh * T + t, lane] = stored
                    f32[block, sums + mh, lane] += widen(stored)


def attention_values(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[M, H, F] = p[M, H, T] @ v[T, Hk, F], over the local slots.

    Operands: 3 p, 4 v, 5 acc, 6 M, 7 Hk, 8 queries per kv head, 9 F, 10 T, 11 slots of the cache.
    """
    p, v, out, M, Hk, share, F, T = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        oldest = ctl[block // a[2], OLDEST]
        for mh in range(M * Hk * share):
            kv_head = (mh % (Hk * share)) // share
            for f in range(F):
                e = out + mh * F + f
                for lane in range(lanes):
                    acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
                for t in range(T):
                    slot = (oldest + t) % a[11]
                    for lane in range(lanes):
                        old = acc[block, e, lane]
                        product = widen(act[block, p + mh * T + t, lane]) * widen(
                            act[block, v + (slot * Hk + kv_head) * F + f, lane]
                        )
                        acc[block, e, lane] = narrow(widen(old) + product, old)


def attention_online(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """One block of the ring: fold its scores and values into running maxima, sums and outputs.

    The block is the cache of the row that stands ``round`` places behind on the interleaved ring.
    f32[M, H] maxima and sums, acc[M, H, F] outputs. Entries lie from slot 0 on. Operands: 3 acc scores ``[M, H, T]``,
    4 v ``[T, Hk, F]``, 5 maxima, 6 sums, 7 outputs, 8 M, 9 Hk, 10 queries per kv head, 11 F, 12 T, 13 scale in
    units of 1e-12, 14 window, 15 chunk, 16 round, 17 rows of the ring.
    """
    scores, v, maxima, sums, out = a[3], a[4], a[5], a[6], a[7]
    M, Hk, share, F, T, ring_round, ring = a[8], a[9], a[10], a[11], a[12], a[16], a[17]
    window, chunk = a[14] if a[14] > 0 else FAR, a[15] if a[15] > 0 else FAR
    H = Hk * share
    scale = np.float32(a[13] * 1e-12)
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        row = block // a[2]
        place = row // 2 if row % 2 == 0 else ring - (row + 1) // 2
        place = (place - ring_round) % ring
        origin = 2 * place if 2 * place < ring else 2 * (ring - place) - 1
        for mh in range(M * H):
            if ring_round == 0:
                for lane in range(lanes):
                    f32[block, maxima + mh, lane] = LOWEST
                    f32[block, sums + mh, lane] = np.float32(0.0)
                    for f in range(F):
                        acc[block, out + mh * F + f, lane] = narrow(np.float32(0.0), acc[block, out, lane])
            if mh // H >= ctl[row, 1]:
                continue
            kv_head = (mh % H) // share
            last = ctl[row, 0] + mh // H
            first = max(last - window + 1, last // chunk * chunk)
            for lane in range(lanes):
                top = f32[block, maxima + mh, lane]
                for t in range(T):
                    held = ctl[origin, SLOTS + t]
                    if held >= first and held <= last:
                        top = max(top, widen(acc[block, scores + mh * T + t, lane]) * scale)
                shrink = np.exp(f32[block, maxima + mh, lane] - top)
                f32[block, maxima + mh, lane] = top
                f32[block, sums + mh, lane] *= shrink
                for f in range(F):
                    old = acc[block, out + mh * F + f, lane]
                    acc[block, out + mh * F + f, lane] = narrow(widen(old) * shrink, old)
                for t in range(T):
                    held = ctl[origin, SLOTS + t]
                    if held >= first and held <= last:
                        weight = np.exp(widen(acc[block, scores + mh * T + t, lane]) * scale - top)
                        f32[block, sums + mh, lane] += weight
                        for f in range(F):
                            old = acc[block, out + mh * F + f, lane]
                            product = weight * widen(act[block, v + (t * Hk + kv_head) * F + f, lane])
                            acc[block, out + mh * F + f, lane] = narrow(widen(old) + product, old)


def sink_sums(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32 sums[M, H] += exp(sink[H] - max[M, H]): each head's trained score joins the softmax, without a value.

    Operands: 3 f32 sums, 4 f32 maxima, 5 sinks (in wgt), 6 M, 7 H.
    """
    sums, maxima, sinks, M, H = a[3], a[4], a[5], a[6], a[7]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for mh in range(M * H):
            for lane in range(lanes):
                sink = widen(wgt[block, sinks + mh % H, lane])
                f32[block, sums + mh, lane] += np.exp(sink - f32[block, maxima + mh, lane])


def attention_finish(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """act[M, H, F] = acc[M, H, F] / f32[M, H]. Operands: 3 acc, 4 f32 sums, 5 act, 6 M, 7 H, 8 F."""
    x, sums, out, M, H, F = a[3], a[4], a[5], a[6], a[7], a[8]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for mh in range(M * H):
            for f in range(F):
                for lane in range(lanes):
                    like = act[block, out + mh * F + f, lane]
                    total = f32[block, sums + mh, lane]
                    value = widen(acc[block, x + mh * F + f, lane]) / total if total > 0.0 else np.float32(0.0)
                    act[block, out + mh * F + f, lane] = narrow(value, like)
