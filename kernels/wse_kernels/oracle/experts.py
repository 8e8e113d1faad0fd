"""The oracles of the kernels that route tokens to experts and multiply with those chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import F32, I64, Pe, Sram, e4m3

I32 = npt.NDArray[np.int32]
PICO = 1e-12
LOWEST = np.float32(-3.0e38)
LEAST_SUM = np.float32(1e-20)


def router_place(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[M, E] = acc[M, n] where this column's n outputs stand, 0 elsewhere."""
    x, out, M, n, E = a[3:8]
    for pe in pes.pes(a):
        placed = np.zeros((M, max(E, (pe.col + 1) * n)), np.float32)
        placed[:, pe.col * n : (pe.col + 1) * n] = pe.read("acc", x, M, n)
        pe.write("acc", out, placed[:, :E])


def router_scores(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, E] = softmax over E, or sigmoid, of acc[M, E]."""
    x, out, M, E, sigmoid = a[3:8]
    for pe in pes.pes(a):
        logits = pe.read("acc", x, M, E)
        if sigmoid:
            scores = np.float32(1.0) / (np.float32(1.0) + np.exp(-logits))
        else:
            scores = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores = scores / scores.sum(axis=1, keepdims=True, dtype=np.float32)
        pe.write("f32", out, scores)


def router_correct(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, E] = scores[M, E] + correction[E]."""
    x, correction, out, M, E = a[3:8]
    for pe in pes.pes(a):
        pe.write("f32", out, pe.read("f32", x, M, E) + pe.read("f32", correction, E))


def router_limit(pes: Sram, ctl: I32, a: I64) -> None:
    """f32[M, E] = f32[M, E] in the best groups, elsewhere the lowest value."""
    x, out, M, E, groups, kept, best = a[3:10]
    for pe in pes.pes(a):
        for m in range(M):
            values = pe.read("f32", x + m * E, E)
            grouped = values.reshape(groups, -1)
            top = np.take_along_axis(grouped, np.argsort(-grouped, axis=1, kind="stable")[:, :2], axis=1)
            counts = top[:, 0] if E // groups == 1 else top[:, 0] + top[:, 1]
            pe.write("f32", best, counts)
            grouped[np.argsort(-counts, kind="stable")[kept:]] = LOWEST
            pe.write("f32", out + m * E, values)


def router_choose(pes: Sram, ctl: I32, a: I64) -> None:
    """Ids of the largest values, the largest and of equal ones the lowest first, and their weights."""
    choice, scores, ids, weights, M, E, A, divided, scale_pico = a[3:12]
    scale = np.float32(scale_pico * PICO)
    for pe in pes.pes(a):
        order = np.argsort(-pe.read("f32", choice, M, E), axis=1, kind="stable")[:, :A]
        found = np.take_along_axis(pe.read("f32", scores, M, E), order, axis=1)
        chosen, weighed = np.full((M, A), -1, np.float32), np.zeros((M, A), np.float32)
        chosen[:, : order.shape[1]], weighed[:, : order.shape[1]] = order, found
        total = np.zeros(M, np.float32)
        for column in weighed.T:
            total += column
        if divided:
            weighed = weighed / (total + LEAST_SUM)[:, None]
        pe.write("f32", ids, chosen)
        pe.write("f32", weights, weighed * scale)


def expert_pairs(pes: Sram, ctl: I32, a: I64) -> None:
    """The list of the pairs whose expert the PE's column holds."""
    ids, weights, pairs, M, A, P, experts, groups, columns, stretches = a[3:13]
    for pe in pes.pes(a):
        stretch, col = divmod(pe.col, int(columns // stretches))
        group = int(np.searchsorted(_starts(columns // stretches, groups), col, side="right")) - 1
        before, after = _starts(experts, stretches)[stretch : stretch + 2]
        first, end = before + _starts(after - before, groups)[group : group + 2]
        chosen, weight = pe.read("f32", ids, M * A), pe.read("f32", weights, M * A)
        mine = [p for p in range(M * A) if first <= int(chosen[p]) < end][:P]
        pe.write("f32", pairs, np.array([len(mine)], np.float32))
        for i, p in enumerate(mine):
            pe.write("f32", pairs + 1 + 3 * i, np.array([p // A, chosen[p] - first, weight[p]], np.float32))


def _starts(total: int, parts: int) -> I64:
    """Where each of the parts starts, the larger ones first, and where the last one ends."""
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    return np.concatenate([[0], np.cumsum(sizes)])


def expert_in(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[pair, N] = x[token, K] @ w[expert][K, N], weighed where asked for."""
    x, w, pairs, out, P, M, K, N, held, k_stride, out_stride, weighed = a[3:15]
    for pe in pes.pes(a):
        for i, (token, expert, weight) in enumerate(_listed(pe, pairs, P, M, held)):
            total = _product(pe, x + token * K, w + expert * N, k_stride, np.zeros(N, np.float32), K)
            if weighed:
                total = pe.rounded("acc", total * weight)
            pe.write("acc", out + i * out_stride, total)


def expert_out(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[token, N] = the sum over its pairs of x[pair, K] @ w[expert][K, N]; x is weighed in place where asked for."""
    x, w, pairs, out, P, M, K, N, held, weighed = a[3:13]
    for pe in pes.pes(a):
        pe.write("acc", out, np.zeros(M * N, np.float32))
        for i, (token, expert, weight) in enumerate(_listed(pe, pairs, P, M, held)):
            if weighed:
                pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
            before = pe.read("acc", out + token * N, N)
            pe.write("acc", out + token * N, _product(pe, x + i * K, w + expert * N, held * N, before, K))


def expert_bias(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[pair, N] += bias[expert, N], or acc[token, N] of it times the weight."""
    x, bias, pairs, P, M, N, held, stride, by_token, weighed = a[3:13]
    for pe in pes.pes(a):
        for i, (token, expert, weight) in enumerate(_listed(pe, pairs, P, M, held)):
            row = x + (token if by_token else i) * stride
            added = pe.read("wgt", bias + expert * N, N) * (weight if weighed else np.float32(1.0))
            pe.write("acc", row, pe.read("acc", row, N) + added)


def expert_in_quantised(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[pair, N] = x[token, K] @ (code x scale)[expert][K, N], weighed where asked for."""
    x, w, groups, scale, pairs, scratch, out, P, M, K, N, held, stride, out_stride, weighed = a[3:18]
    coding, G, rows = a[19:22]
    for pe in pes.pes(a):
        for i, (token, expert, weight) in enumerate(_listed(pe, pairs, P, M, held)):
            weights = _unpacked(pe, w + expert * N, groups, scale + expert * N, K, N, stride, coding, G)
            total = _sums(pe, x + token * K, weights, np.zeros(N, np.float32))
            _leave(pe, scratch, weights, rows)
            if weighed:
                total = pe.rounded("acc", total * weight)
            pe.write("acc", out + i * out_stride, total)


def expert_out_quantised(pes: Sram, ctl: I32, a: I64) -> None:
    """acc[token, N] = the sum over its pairs of x[pair, K] @ (code x scale)[expert][K, N]; x is weighed in place."""
    x, w, groups, scale, pairs, scratch, out, P, M, K, N, held, weighed = a[3:16]
    coding, G, rows = a[17:20]
    for pe in pes.pes(a):
        pe.write("acc", out, np.zeros(M * N, np.float32))
        for i, (token, expert, weight) in enumerate(_listed(pe, pairs, P, M, held)):
            if weighed:
                pe.write("act", x + i * K, pe.read("act", x + i * K, K) * weight)
            weights = _unpacked(pe, w + expert * N, groups, scale + expert * N, K, N, held * N, coding, G)
            pe.write("acc", out + token * N, _sums(pe, x + i * K, weights, pe.read("acc", out + token * N, N)))
            _leave(pe, scratch, weights, rows)


def _listed(pe: Pe, pairs: int, P: int, M: int, held: int) -> list[tuple[int, int, np.float32]]:
    """(token, expert, weight) of the pairs in the list, each index held to what there is."""
    count = min(int(pe.read("f32", pairs, 1)[0]), P)
    rows = pe.read("f32", pairs + 1, max(count, 0), 3)
    return [(min(max(int(t), 0), M - 1), min(max(int(e), 0), held - 1), weight) for t, e, weight in rows]


def _product(pe: Pe, x: int, w: int, k_stride: int, total: F32, K: int) -> F32:
    """total[N] += act[K] @ wgt[K, N], k by k."""
    return _sums(pe, x, np.stack([pe.read("wgt", w + k * k_stride, len(total)) for k in range(K)]), total)


def _unpacked(pe: Pe, w: int, groups: int, scale: int, K: int, N: int, stride: int, coding: int, G: int) -> F32:
    """The weights ``[K, N]`` that codes and scales stand for, rounded to activations."""
    halves = 2 if coding == 2 else 1
    codes = np.stack([pe.bytes(w + k // halves * stride, N) for k in range(K)])
    scales = np.stack([pe.read("wgt", scale + g * stride, N) for g in range(G)])
    of_row = np.zeros(K, np.int64)
    if coding == 0:
        values = codes.view(np.int8).astype(np.float32)
    elif coding == 1:
        values = e4m3(codes)
    else:
        of_row = pe.bytes(groups, K).astype(np.int64)
        nibbles = np.where(np.arange(K)[:, None] % 2, codes >> 4, codes & 0xF).astype(np.float32)
        values = np.where(nibbles > 7, nibbles - 16, nibbles)
    return pe.rounded("act", values * scales[of_row])


def _sums(pe: Pe, x: int, weights: F32, total: F32) -> F32:
    """total[N] += act[K] @ weights[K, N], k by k."""
    for value, row in zip(pe.read("act", x, len(weights)), weights, strict=True):
        total = pe.rounded("acc", total + value * row)
    return total


def _leave(pe: Pe, scratch: int, weights: F32, rows: int) -> None:
    """What unpacking leaves in the scratch rows: each holds the last row of weights that was put there."""
    for k, row in enumerate(weights):
        pe.write("act", scratch + k % rows * len(row), row)
