"""The oracles of the router of experts, and of the lists of pairs that come of it."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.oracle.memory import I64

PICO = 1e-12
LOWEST = np.float32(-3.0e38)
LEAST_SUM = np.float32(1e-20)


def router_place(pe, x, out, M, n, E, first, columns, zeros):
    """acc[M, E] = acc[M, n] where this column's n outputs stand, 0 or as it was elsewhere."""
    placed = np.zeros((M, E), np.float32) if zeros else pe.read("acc", out, M, E).copy()
    own, outputs = pe.read("acc", x, M, n), (pe.col % columns - first) * n + np.arange(n)
    held = (outputs >= 0) & (outputs < E)
    placed[:, outputs[held]] = own[:, held]
    pe.write("acc", out, placed)


def router_scores(pe, x, out, M, E, sigmoid):
    """f32[M, E] = softmax over E, or sigmoid, of acc[M, E]."""
    logits = pe.read("acc", x, M, E)
    if sigmoid:
        scores = np.float32(1.0) / (np.float32(1.0) + np.exp(-logits))
    else:
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = scores / scores.sum(axis=1, keepdims=True, dtype=np.float32)
    pe.write("f32", out, scores)


def router_correct(pe, x, correction, out, M, E):
    """f32[M, E] = scores[M, E] + correction[E]."""
    pe.write("f32", out, pe.read("f32", x, M, E) + pe.read("f32", correction, E))


def router_limit(pe, x, out, M, E, groups, chosen_groups, group_scores):
    """f32[M, E] = f32[M, E] in the best groups, elsewhere the lowest value."""
    for m in range(M):
        values = pe.read("f32", x + m * E, E).copy()
        grouped = values.reshape(groups, -1)
        top = np.take_along_axis(grouped, np.argsort(-grouped, axis=1, kind="stable")[:, :2], axis=1)
        counts = top[:, 0] if E // groups == 1 else top[:, 0] + top[:, 1]
        pe.write("f32", group_scores, counts)
        grouped[np.argsort(-counts, kind="stable")[chosen_groups:]] = LOWEST
        pe.write("f32", out + m * E, values)


def router_choose(pe, choice, scores, ids, weights, maxima, M, E, A, normalised, scale_pico):
    """Ids of the largest values, the largest and of equal ones the lowest first, and their weights.

    ``maxima`` is left with the best of each block of the last token that was not chosen.
    """
    scale = np.float32(scale_pico * PICO)
    order = np.argsort(-pe.read("f32", choice, M, E), axis=1, kind="stable")[:, :A]
    chosen_scores = np.take_along_axis(pe.read("f32", scores, M, E), order, axis=1)
    chosen, weighted = np.full((M, A), -1, np.float32), np.zeros((M, A), np.float32)
    chosen[:, : order.shape[1]], weighted[:, : order.shape[1]] = order, chosen_scores
    total = np.zeros(M, np.float32)
    for column in weighted.T:
        total += column
    if normalised:
        weighted = weighted / (total + LEAST_SUM)[:, None]
    pe.write("f32", ids, chosen)
    pe.write("f32", weights, weighted * scale)
    blocks = math.isqrt(E)
    size, values = -(-E // blocks), pe.read("f32", choice, M, E)[-1].copy()
    values[order[-1]] = -np.inf
    of_blocks = [values[b * size : (b + 1) * size] for b in range(blocks)]
    best = [b * size + int(v.argmax()) if v.size and v.max() > -np.inf else -1 for b, v in enumerate(of_blocks)]
    pe.write("f32", maxima, np.array(best, np.float32))


def chosen_softmax(pe, ids, weights, M, A, scale_pico):
    """f32[M, A] = scale * softmax over A, whose first is the largest; 0 where there is no expert."""
    values = pe.read("f32", weights, M, A)
    exps = np.where(pe.read("f32", ids, M, A) >= 0, np.exp(values - values[:, :1]), np.float32(0.0))
    total = np.zeros(M, np.float32)
    for column in exps.T:
        total += column
    pe.write("f32", weights, exps / (total + LEAST_SUM)[:, None] * np.float32(scale_pico * PICO))


def expert_pairs(pe, ids, weights, pairs, M, A, P, experts, groups, columns, stretches):
    """The list of the pairs whose expert the PE's column stores."""
    stretch, col = divmod(pe.col, int(columns // stretches))
    group = int(np.searchsorted(_starts(columns // stretches, groups), col, side="right")) - 1
    before, after = _starts(experts, stretches)[stretch : stretch + 2]
    first, end = before + _starts(after - before, groups)[group : group + 2]
    chosen, weight = pe.read("f32", ids, M * A), pe.read("f32", weights, M * A)
    in_column = [p for p in range(M * A) if first <= int(chosen[p]) < end][:P]
    pe.write("f32", pairs, np.array([len(in_column)], np.float32))
    for i, p in enumerate(in_column):
        pe.write("f32", pairs + 1 + 3 * i, np.array([p // A, chosen[p] - first, weight[p]], np.float32))


def _starts(total: int, parts: int) -> I64:
    """Return the starts of the parts, the larger ones first, and the end of the last one."""
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    return np.concatenate([[0], np.cumsum(sizes)])
