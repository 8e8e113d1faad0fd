"""Compute kernels of a router of experts: gather its outputs, score them and select experts.

There are E experts, and A of them are selected for each of M tokens. Every PE makes the same
selection. Expert ids are stored as float32 values. Among equal scores, the one with the lower id is
selected.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import exponential
from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.operands.experts import ChoiceTensors
from wse_kernels.operands.group import Place

LOWEST = np.float32(-3.0e38)
ZERO, ONE = np.float32(0.0), np.float32(1.0)
SOFTMAX = 0
SUM_EPSILON = np.float32(1e-20)  # as in DeepSeek-V3's released inference code; avoids a division by zero


def router_place(place: Place, acc, x, out, M, n, E, first, columns, zeros):
    """Copy the router outputs of this column to their positions among the outputs of all experts.

    The mesh columns form segments of ``columns`` columns. In each segment, column ``first`` + c
    computes n outputs, starting with output c * n. A later sum over the columns gives every PE all
    outputs.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        x: Address of this column's outputs [M, n].
        out: Address of all outputs [M, E].
        M, n, E: Numbers of tokens, outputs per column, and experts.
        first: Index, within each segment, of the first column that computes outputs.
        columns: Number of mesh columns per segment.
        zeros: 1 to set the outputs of other columns to 0, 0 to keep their values.
    """
    block, lanes = place.block, acc.shape[2]
    for m in range(M):
        for e in range(E):
            for lane in range(lanes):
                local = e - ((place.col + lane) % columns - first) * n
                element = acc[block, out + m * E + e, lane]
                if local >= 0 and local < n:
                    acc[block, out + m * E + e, lane] = acc[block, x + m * n + local, lane]
                elif zeros == 1:
                    acc[block, out + m * E + e, lane] = narrow(np.float32(0.0), element)


def router_scores(block, acc, f32, x, out, M, E, sigmoid):
    """Compute the scores of all experts from router outputs, using softmax or a sigmoid.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the router outputs [M, E] in the accumulator type.
        out: Address of the float32 scores [M, E].
        M, E: Numbers of tokens and experts.
        sigmoid: 1 for a sigmoid, 0 for a softmax over the experts.
    """
    lanes = acc.shape[2]
    max_logits, totals = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            max_logits[lane] = LOWEST
            totals[lane] = ZERO if sigmoid == SOFTMAX else ONE
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                max_logits[lane] = max(max_logits[lane], widen(acc[block, x + e, lane]))
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                logit = widen(acc[block, x + e, lane])
                power = exponential(logit - max_logits[lane] if sigmoid == SOFTMAX else -logit)
                f32[block, out + e, lane] = power if sigmoid == SOFTMAX else ONE / (ONE + power)
                totals[lane] += power if sigmoid == SOFTMAX else ZERO
        for e in range(m * E, m * E + E):
            for lane in range(lanes):
                f32[block, out + e, lane] /= totals[lane]


def router_correct(block, f32, x, correction, out, M, E):
    """Add a correction bias to the score of each expert: out[M, E] = x[M, E] + correction[E].

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        x: Address of the scores [M, E].
        correction: Address of the biases [E].
        out: Address of the results [M, E].
        M, E: Numbers of tokens and experts.
    """
    lanes = f32.shape[2]
    for m in range(M):
        for e in range(E):
            for lane in range(lanes):
                f32[block, out + m * E + e, lane] = f32[block, x + m * E + e, lane] + f32[block, correction + e, lane]


def router_limit(block, f32, x, out, M, E, groups, chosen_groups, group_scores):
    """Restrict the selection of experts to the best groups of each token.

    The E experts form ``groups`` equal groups of neighbours. The score of a group is the sum of its
    two best values, or its only value. The groups with the highest scores are kept (on a tie, the
    earlier group). In the other groups all values become -3e38.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        x: Address of the scores [M, E].
        out: Address of the restricted scores [M, E].
        M, E: Numbers of tokens and experts.
        groups: Number of groups.
        chosen_groups: Number of groups to keep.
        group_scores: Address of a scratch vector [groups], which receives the groups' scores.
    """
    size = E // groups
    lanes = f32.shape[2]
    for m in range(M):
        for lane in range(lanes):
            for g in range(groups):
                best_value, next_value = LOWEST, LOWEST
                for e in range(m * E + g * size, m * E + (g + 1) * size):
                    value = f32[block, x + e, lane]
                    if value > best_value:
                        best_value, next_value = value, best_value
                    elif value > next_value:
                        next_value = value
                f32[block, group_scores + g, lane] = best_value + next_value if size > 1 else best_value
            for g in range(groups):
                score = f32[block, group_scores + g, lane]
                better_groups = 0
                for other_group in range(groups):
                    value = f32[block, group_scores + other_group, lane]
                    if value > score or (value == score and other_group < g):
                        better_groups += 1
                for e in range(m * E + g * size, m * E + (g + 1) * size):
                    value = f32[block, x + e, lane]
                    f32[block, out + e, lane] = value if better_groups < chosen_groups else LOWEST


def router_mix(block, acc, f32, x, out, M, E, A, tolerance_pico):
    """Compute the routing weights of the A best experts of each token with a sparse mixer.

    The experts are selected one after another, in descending order of their outputs x. The weight
    of a selected expert with output b is its softmax over the experts that are not selected yet and
    whose outputs are close to b: b - x <= 2 * tolerance * max(|x|, b). The result out[M, E] is 0
    for experts that are not selected. Source: arXiv 2409.12136.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the router outputs [M, E] in the accumulator type.
        out: Address of the float32 weights [M, E].
        M, E, A: Numbers of tokens, experts, and selected experts per token.
        tolerance_pico: Tolerance in units of 1e-12.
    """
    width = np.float32(2e-12 * tolerance_pico)
    for m in range(M):
        for lane in range(acc.shape[2]):
            for e in range(E):
                f32[block, out + m * E + e, lane] = ZERO
            for _ in range(min(A, E)):
                best, best_id = np.float32(-np.inf), np.int64(-1)
                for e in range(E):
                    value = widen(acc[block, x + m * E + e, lane])
                    if f32[block, out + m * E + e, lane] == ZERO and (best_id < 0 or value > best):
                        best, best_id = value, np.int64(e)
                total = ZERO
                for e in range(E):
                    value = widen(acc[block, x + m * E + e, lane])
                    is_near = best - value <= width * max(abs(value), best)
                    if f32[block, out + m * E + e, lane] == ZERO and is_near:
                        total += exponential(value - best)
                f32[block, out + m * E + best_id, lane] = ONE / total


def router_choose(block, f32, at: ChoiceTensors, M, E, A, normalised, scale_pico):
    """Select the A best experts of each token, and compute their routing weights.

    ids[M, A] are the indices of the largest values of choice[M, E], largest first. weights[M, A]
    are the values of scores[M, E] at these indices, normalised if requested and times the scale. If
    fewer than A values are numbers, the remaining ids are -1 with weight 0.

    1. Divide the E values into about sqrt(E) blocks, and store in ``maxima`` the index of the
       largest value of each block, or -1 if the block has none.
    2. Select the largest of these values A times. Each time, the next largest value of its block
       replaces it.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        at: Addresses of choice[M, E], scores[M, E], ids[M, A], weights[M, A] and the scratch vector
            maxima.
        M, E, A: Numbers of tokens, experts, and selected experts per token.
        normalised: 1 to divide the weights of a token by their sum, else 0.
        scale_pico: Factor applied to the weights, in units of 1e-12.
    """
    choice, scores, ids, weights, maxima = at
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
            divisor = total + SUM_EPSILON if normalised == 1 else np.float32(1.0)
            for i in range(A):
                f32[block, weights + m * A + i, lane] = f32[block, weights + m * A + i, lane] / divisor * scale


@helper_function
def _best(f32, block, first, begin, end, lane, last, last_id):
    """Find the next value in descending order, and return its index, or -1 if there is none.

    This is the largest value that is smaller than the last selected value, or equal to it with a
    higher index. Only indices from ``begin`` to ``end`` - 1 are searched.

    Args:
        f32, block, lane: float32 view of SRAM, index of the block of PEs, and lane (PE) in the
            block.
        first: Address of the values.
        begin, end: Range of indices.
        last, last_id: Last selected value, and its index.
    """
    best, best_id = np.float32(-np.inf), -1
    for e in range(begin, end):
        value = f32[block, first + e, lane]
        fresh = value < last or (value == last and e > last_id)
        if fresh and (value > best or best_id < 0):
            best, best_id = value, e
    return np.float32(best_id)


def chosen_softmax(block, f32, ids, weights, M, A, scale_pico):
    """Replace the scores of the selected experts by their softmax, multiplied by a scale.

    weights[M, A] = scale * softmax over A of weights[M, A]. The first score of a token must be the
    largest. Missing experts, whose ids are -1, get weight 0.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ids: Address of the float32 ids [M, A].
        weights: Address of the float32 scores [M, A], which are replaced by the routing weights.
        M, A: Numbers of tokens and selected experts per token.
        scale_pico: Scale in units of 1e-12.
    """
    scale = np.float32(scale_pico * 1e-12)
    lanes = f32.shape[2]
    max_weights, totals = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            max_weights[lane], totals[lane] = f32[block, weights + m * A, lane], ZERO
        for i in range(m * A, m * A + A):
            for lane in range(lanes):
                weight = exponential(f32[block, weights + i, lane] - max_weights[lane])
                weight = weight if f32[block, ids + i, lane] >= 0.0 else ZERO
                f32[block, weights + i, lane] = weight
                totals[lane] += weight
        for i in range(m * A, m * A + A):
            for lane in range(lanes):
                f32[block, weights + i, lane] = f32[block, weights + i, lane] / (totals[lane] + SUM_EPSILON) * scale


def scale_choice(block, f32, ids, weights, scales, M, E, A):
    """Multiply the weights of selected experts by numbers of the experts.

    weights[M, A] *= scales[ids[M, A]]. Missing experts, whose ids are -1, keep their weights.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ids: Address of the float32 ids [M, A].
        weights: Address of the float32 weights [M, A].
        scales: Address of the numbers [E].
        M, E, A: Numbers of tokens, experts, and selected experts per token.
    """
    for i in range(M * A):
        for lane in range(f32.shape[2]):
            expert = np.int64(f32[block, ids + i, lane])
            if expert >= 0 and expert < E:
                f32[block, weights + i, lane] *= f32[block, scales + expert, lane]
