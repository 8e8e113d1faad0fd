"""A router of experts: its outputs from the columns to every PE, scores, and the choice, the same on every PE.

``E`` experts, ``A`` of them chosen for each of ``M`` tokens. Expert ids are held as float32 values. Equal scores: the
lower id is chosen.
"""

from __future__ import annotations

import numpy as np

from wse_kernels._elementary import exponential
from wse_kernels._elements import narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values

LOWEST = np.float32(-3.0e38)
ZERO, ONE = np.float32(0.0), np.float32(1.0)
SOFTMAX = 0
LEAST_SUM = np.float32(1e-20)  # as in DeepSeek-V3's released inference code: no sum of scores is divided by zero


def router_place(block, block_col, acc, x, out, M, n, E, first, columns, zeros):
    """out[M, E] = x[M, n] where this column's n outputs stand; elsewhere 0, or what was there where ``zeros`` is 0.

    Column ``first`` + c of each stretch of ``columns`` has outputs c n to c n + n - 1.
    """
    lanes = acc.shape[2]
    for m in range(M):
        for e in range(E):
            for lane in range(lanes):
                local = e - ((block_col + lane) % columns - first) * n
                like = acc[block, out + m * E + e, lane]
                if local >= 0 and local < n:
                    acc[block, out + m * E + e, lane] = acc[block, x + m * n + local, lane]
                elif zeros == 1:
                    acc[block, out + m * E + e, lane] = narrow(np.float32(0.0), like)


def router_scores(block, acc, f32, x, out, M, E, sigmoid):
    """out[M, E] = sigmoid of x[M, E], or where ``sigmoid`` is 0 its softmax over E."""
    lanes = acc.shape[2]
    largest, totals = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            largest[lane] = LOWEST
            totals[lane] = ZERO if sigmoid == SOFTMAX else ONE
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                largest[lane] = max(largest[lane], widen(acc[block, x + e, lane]))
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                logit = widen(acc[block, x + e, lane])
                power = exponential(logit - largest[lane] if sigmoid == SOFTMAX else -logit)
                f32[block, out + e, lane] = power if sigmoid == SOFTMAX else ONE / (ONE + power)
                totals[lane] += power if sigmoid == SOFTMAX else ZERO
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                f32[block, out + e, lane] /= totals[lane]


def router_correct(block, f32, x, correction, out, M, E):
    """out[M, E] = x[M, E] + correction[E]."""
    lanes = f32.shape[2]
    for m in range(M):
        for e in range(E):
            for lane in range(lanes):
                f32[block, out + m * E + e, lane] = f32[block, x + m * E + e, lane] + f32[block, correction + e, lane]


def router_limit(block, f32, x, out, M, E, groups, chosen_groups, group_scores):
    """out[M, E] = x[M, E] in ``chosen_groups`` of a token's ``groups`` equal stretches, the lowest value in the others.

    A group counts as the sum of its two best, which stands in group_scores[groups] then; the groups with the largest
    sums are chosen, on a tie the earlier one.
    """
    size = E // groups
    lanes = f32.shape[2]
    for m in range(M):
        for lane in range(lanes):
            for g in range(groups):
                first, second = LOWEST, LOWEST
                for e in range(m * E + g * size, m * E + (g + 1) * size):
                    value = f32[block, x + e, lane]
                    if value > first:
                        first, second = value, first
                    elif value > second:
                        second = value
                f32[block, group_scores + g, lane] = first + second if size > 1 else first
            for g in range(groups):
                score = f32[block, group_scores + g, lane]
                better = 0
                for other_group in range(groups):
                    value = f32[block, group_scores + other_group, lane]
                    if value > score or (value == score and other_group < g):
                        better += 1
                for e in range(m * E + g * size, m * E + (g + 1) * size):
                    value = f32[block, x + e, lane]
                    f32[block, out + e, lane] = value if better < chosen_groups else LOWEST


def router_choose(block, f32, choice, scores, ids, weights, maxima, M, E, A, normalised, scale_pico):
    """ids[M, A] = where choice[M, E] is largest, the largest first; weights[M, A] = scores[M, E] there.

    The weights are divided by their sum where ``normalised`` is 1, and multiplied by the scale in the end. Where fewer
    than A values compare as numbers, the rest of the ids are -1 with weight 0.

    1. The values are cut into as many blocks as the root of their number, and ``maxima`` has the first place of the
       largest value of each, -1 where a block has none that compares.
    2. Each choice is the best of these, which the next best of its block replaces.
    """
    scale = np.float32(scale_pico * 1e-12)
    blocks = np.int64(np.sqrt(E))
    size = (E + blocks - 1) // blocks
    lanes = f32.shape[2]
    for m in range(M):
        first = choice + m * E
        for lane in range(lanes):
            total = np.float32(0.0)
            last, last_id = np.float32(np.inf), np.int64(-1)
            for b in range(blocks):  # 1
                end = min(E, b * size + size)
                f32[block, maxima + b, lane] = _best(f32, block, first, b * size, end, lane, last, last_id)
            for i in range(A):  # 2
                best, best_id = np.float32(-np.inf), np.int64(-1)
                for b in range(blocks):
                    e = np.int64(f32[block, maxima + b, lane])
                    if e >= 0 and (best_id < 0 or f32[block, first + e, lane] > best):
                        best, best_id = f32[block, first + e, lane], e
                if best_id >= 0:
                    last, last_id = best, best_id
                    begin = best_id // size * size
                    end = min(E, begin + size)
                    f32[block, maxima + best_id // size, lane] = _best(
                        f32, block, first, begin, end, lane, last, last_id
                    )
                weight = np.float32(0.0)
                if best_id >= 0:
                    weight = f32[block, scores + m * E + best_id, lane]
                f32[block, ids + m * A + i, lane] = np.float32(best_id)
                f32[block, weights + m * A + i, lane] = weight
                total += weight
            divisor = total + LEAST_SUM if normalised == 1 else np.float32(1.0)
            for i in range(A):
                f32[block, weights + m * A + i, lane] = f32[block, weights + m * A + i, lane] / divisor * scale


@helper_function
def _best(f32, block, first, begin, end, lane, last, last_id):
    """The first place of the largest value from ``begin`` to ``end`` that comes after the last choice; -1 for none."""
    best, best_id = np.float32(-np.inf), -1
    for e in range(begin, end):
        value = f32[block, first + e, lane]
        fresh = value < last or (value == last and e > last_id)
        if fresh and (value > best or best_id < 0):
            best, best_id = value, e
    return np.float32(best_id)


def chosen_softmax(block, f32, ids, weights, M, A, scale_pico):
    """weights[M, A] = scale * softmax over A of weights[M, A], of which the first is largest; 0 where ids are -1."""
    scale = np.float32(scale_pico * 1e-12)
    lanes = f32.shape[2]
    largest, totals = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            largest[lane], totals[lane] = f32[block, weights + m * A, lane], ZERO
        for i in range(m * A, m * A + A):
            for lane in range(lanes):
                weight = exponential(f32[block, weights + i, lane] - largest[lane])
                weight = weight if f32[block, ids + i, lane] >= 0.0 else ZERO
                f32[block, weights + i, lane] = weight
                totals[lane] += weight
        for i in range(m * A, m * A + A):
            for lane in range(lanes):
                f32[block, weights + i, lane] = f32[block, weights + i, lane] / (totals[lane] + LEAST_SUM) * scale
