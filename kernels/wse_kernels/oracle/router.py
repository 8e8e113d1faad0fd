"""Oracles of the router of experts."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.operands.experts import ChoiceTensors
from wse_kernels.oracle.memory import LOWEST, PICO

SUM_EPSILON = np.float32(1e-20)


def router_place(pe, x, out, M, n, E, first, columns, zeros):
    """Copy the router outputs of this column to their positions among the outputs of all experts.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of this column's outputs [M, n] in the accumulator type.
        out: Address of all outputs [M, E] in the accumulator type.
        M, n, E: Numbers of tokens, outputs per column, and experts.
        first: Index, within each segment of the mesh, of the first column that computes outputs.
        columns: Number of mesh columns per segment.
        zeros: 1 to set the outputs of other columns to 0, 0 to keep their values.
    """
    outputs_of_all = np.zeros((M, E), np.float32) if zeros else pe.read("acc", out, M, E).copy()
    own_outputs, positions = pe.read("acc", x, M, n), (pe.col % columns - first) * n + np.arange(n)
    is_valid = (positions >= 0) & (positions < E)
    outputs_of_all[:, positions[is_valid]] = own_outputs[:, is_valid]
    pe.write("acc", out, outputs_of_all)


def router_scores(pe, x, out, M, E, sigmoid):
    """Compute the scores of all experts from router outputs, using softmax or a sigmoid.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the router outputs [M, E] in the accumulator type.
        out: Address of the float32 scores [M, E].
        M, E: Numbers of tokens and experts.
        sigmoid: 1 for a sigmoid, 0 for a softmax over the experts.
    """
    logits = pe.read("acc", x, M, E)
    if sigmoid:
        scores = np.float32(1.0) / (np.float32(1.0) + np.exp(-logits))
    else:
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = scores / scores.sum(axis=1, keepdims=True, dtype=np.float32)
    pe.write("f32", out, scores)


def router_correct(pe, x, correction, out, M, E):
    """Add the correction bias of each expert to its score: out[M, E] = x[M, E] + correction[E].

    All values are float32. This NumPy reference for one PE is used to test the compiled kernel of
    the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the scores [M, E].
        correction: Address of the biases [E].
        out: Address of the results [M, E].
        M, E: Numbers of tokens and experts.
    """
    pe.write("f32", out, pe.read("f32", x, M, E) + pe.read("f32", correction, E))


def router_limit(pe, x, out, M, E, groups, chosen_groups, group_scores):
    """Keep the scores of the experts in the best groups, and set all other scores to -3e38.

    The experts form equal groups of neighbours. The score of a group is the sum of its two best
    values, or its only value. On a tie, the earlier group is kept. This NumPy reference for one PE
    is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the scores [M, E].
        out: Address of the restricted scores [M, E].
        M, E: Numbers of tokens and experts.
        groups: Number of groups.
        chosen_groups: Number of groups to keep.
        group_scores: Address of a scratch vector [groups], which receives the groups' scores.
    """
    for m in range(M):
        values = pe.read("f32", x + m * E, E).copy()
        grouped = values.reshape(groups, -1)
        top = np.take_along_axis(grouped, np.argsort(-grouped, axis=1, kind="stable")[:, :2], axis=1)
        counts = top[:, 0] if E // groups == 1 else top[:, 0] + top[:, 1]
        pe.write("f32", group_scores, counts)
        grouped[np.argsort(-counts, kind="stable")[chosen_groups:]] = LOWEST
        pe.write("f32", out + m * E, values)


def router_mix(pe, x, out, M, E, A, tolerance_pico):
    """Compute the routing weights of the A best experts of each token with a sparse mixer.

    The experts are selected one after another. The weight of the next expert is its softmax over
    the experts that have not been selected yet and whose outputs are close to its own. The result
    out[M, E] is 0 for all other experts. This NumPy reference for one PE is used to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the router outputs [M, E] in the accumulator type.
        out: Address of the float32 weights [M, E].
        M, E, A: Numbers of tokens, experts, and selected experts per token.
        tolerance_pico: Tolerance in units of 1e-12.
    """
    width, weights = np.float32(2 * tolerance_pico * PICO), np.zeros((M, E), np.float32)
    for token, outputs in enumerate(pe.read("acc", x, M, E)):
        order = np.argsort(-outputs, kind="stable")
        for position, expert in enumerate(order[:A]):
            other_outputs = outputs[order[position:]]
            best = outputs[expert]
            near = other_outputs[best - other_outputs <= width * np.maximum(np.abs(other_outputs), best)]
            weights[token, expert] = np.float32(1.0) / np.exp(near - best).sum(dtype=np.float32)
    pe.write("f32", out, weights)


def router_choose(pe, at: ChoiceTensors, M, E, A, normalised, scale_pico):
    """Select the A experts with the largest values, and compute their routing weights.

    Among equal values, the lowest id comes first. On return, ``maxima`` contains, for each block of
    experts, the best expert that was not selected for the last token. This NumPy reference for one
    PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of choice[M, E], scores[M, E], ids[M, A], weights[M, A] and the scratch vector
            maxima.
        M, E, A: Numbers of tokens, experts, and selected experts per token.
        normalised: 1 to divide the weights of a token by their sum, else 0.
        scale_pico: Factor applied to the weights, in units of 1e-12.
    """
    choice, scores, ids, weights, maxima = at
    scale = np.float32(scale_pico * PICO)
    order = np.argsort(-pe.read("f32", choice, M, E), axis=1, kind="stable")[:, :A]
    chosen_scores = np.take_along_axis(pe.read("f32", scores, M, E), order, axis=1)
    chosen_ids, weighted = np.full((M, A), -1, np.float32), np.zeros((M, A), np.float32)
    chosen_ids[:, : order.shape[1]], weighted[:, : order.shape[1]] = order, chosen_scores
    total = np.zeros(M, np.float32)
    for column in weighted.T:
        total += column
    if normalised:
        weighted = weighted / (total + SUM_EPSILON)[:, None]
    pe.write("f32", ids, chosen_ids)
    pe.write("f32", weights, weighted * scale)
    blocks = math.isqrt(E)
    size, values = -(-E // blocks), pe.read("f32", choice, M, E)[-1].copy()
    values[order[-1]] = -np.inf
    block_values = [values[b * size : (b + 1) * size] for b in range(blocks)]
    best = [b * size + int(v.argmax()) if v.size and v.max() > -np.inf else -1 for b, v in enumerate(block_values)]
    pe.write("f32", maxima, np.array(best, np.float32))


def chosen_softmax(pe, ids, weights, M, A, scale_pico):
    """Replace the scores of the selected experts by their softmax, multiplied by a scale.

    The first score of a token must be the largest. Missing experts, whose ids are -1, get weight 0.
    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ids: Address of the float32 ids [M, A].
        weights: Address of the float32 scores [M, A], which are replaced by the routing weights.
        M, A: Numbers of tokens and selected experts per token.
        scale_pico: Scale in units of 1e-12.
    """
    values = pe.read("f32", weights, M, A)
    exps = np.where(pe.read("f32", ids, M, A) >= 0, np.exp(values - values[:, :1]), np.float32(0.0))
    total = np.zeros(M, np.float32)
    for column in exps.T:
        total += column
    pe.write("f32", weights, exps / (total + SUM_EPSILON)[:, None] * np.float32(scale_pico * PICO))


def scale_choice(pe, ids, weights, scales, M, E, A):
    """Multiply the weights of selected experts by numbers of the experts.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ids: Address of the float32 ids [M, A]; -1 for missing experts, whose weights do not change.
        weights: Address of the float32 weights [M, A].
        scales: Address of the float32 numbers [E].
        M, E, A: Numbers of tokens, experts, and selected experts per token.
    """
    experts = pe.read("f32", ids, M * A).astype(np.int64)
    is_expert = (experts >= 0) & (experts < E)
    factors = np.where(is_expert, pe.read("f32", scales, E)[np.where(is_expert, experts, 0)], np.float32(1.0))
    pe.write("f32", weights, pe.read("f32", weights, M * A) * factors)
