"""Oracles of the softmax over the cache entries of a PE."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.attention import ScoreShape, SharedSoftmaxTensors, SoftmaxColumns, SoftmaxTensors, Window
from wse_kernels.oracle.attention.visible_entries import entry_visibility, slots_of
from wse_kernels.oracle.memory import LOWEST, PICO


def attention_max(pe, ctl, scores, out, shape: ScoreShape, limits: Window, capacity):
    """Compute the maximum visible score of each token and head, multiplied by the scale: out[M, H].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    positions = ctl[pe.row, 8 + slots_of(ctl, pe.row, shape.T, capacity)]
    _max(pe, scores, out, shape, entry_visibility(ctl, pe.row, shape.M, positions, limits))


def attention_exp(pe, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window, capacity):
    """Compute unnormalised softmax weights out[M, H, T] and their sums [M, H] over T.

    out = exp(scale * scores - maxima), or 0 for entries that the token does not attend to. This
    NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    positions = ctl[pe.row, 8 + slots_of(ctl, pe.row, shape.T, capacity)]
    _exp(pe, at, shape, entry_visibility(ctl, pe.row, shape.M, positions, limits))


def attention_exp_share(
    pe, ctl, at: SharedSoftmaxTensors, shape: ScoreShape, limits: Window, capacity, division: SoftmaxColumns
):
    """Compute the unnormalised softmax weights that are assigned to this PE; set the others to 0.

    The weights are the same as in `attention_exp`. Neighbouring columns store the same scores and
    divide the computation of the weights among themselves. This NumPy reference for one PE is used
    to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], and weights out[M, H, T].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
        division: Columns that divide the weights among themselves.
    """
    first_col, columns, groups, sharers = division
    M, H, T, _ = shape
    positions = ctl[pe.row, 8 + slots_of(ctl, pe.row, T, capacity)]
    weights = _weights(pe, at.scores, at.maxima, shape, entry_visibility(ctl, pe.row, M, positions, limits))
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
    """Return the start and end of the range to which an index belongs.

    Args:
        place: The index.
        starts: Start of each range in ascending order, and the end of the last range.
    """
    part = int(np.searchsorted(starts, place, side="right")) - 1
    return starts[part], starts[part + 1]


def softmax_sums(pe, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the weights [M, H, T] in the activation type.
        sums: Address of the float32 sums [M, H].
        M, H, T: Numbers of tokens, query heads, and cache entries.
    """
    weights, total = pe.read("act", x, M, H, T), np.zeros((M, H), np.float32)
    for t in range(T):
        total += weights[..., t]
    pe.write("f32", sums, total)


def attention_max_by_column(pe, ctl, scores, out, shape: ScoreShape, limits: Window):
    """Compute the maximum visible score per token and head for scores that are stored by column.

    In `attention_max`, a PE has the scores of the cache entries of its own mesh row. Here, the
    region is square, and the PEs of column c have the scores of the cache entries of row c. This
    NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    positions = ctl[pe.col, 8 : 8 + shape.T]
    _max(pe, scores, out, shape, entry_visibility(ctl, pe.row, shape.M, positions, limits))


def attention_exp_by_column(pe, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window):
    """Compute unnormalised softmax weights and their sums for scores that are stored by column.

    In `attention_exp`, a PE has the scores of the cache entries of its own mesh row. Here, the
    region is square, and the PEs of column c have the scores of the cache entries of row c. This
    NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _exp(pe, at, shape, entry_visibility(ctl, pe.row, shape.M, ctl[pe.col, 8 : 8 + shape.T], limits))


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
        shape: M, H, T, and the scale of the scores.
        is_visible: Whether each token attends to each entry, [M, T]. The weights of all other
            entries are 0.
    """
    M, H, T, scale_pico = shape
    scaled = pe.read("acc", scores, M, H, T) * np.float32(scale_pico * PICO)
    is_visible = is_visible[:, None, :]
    exponent = np.where(is_visible, scaled - pe.read("f32", maxima, M, H, 1), np.float32(0.0))
    return pe.round_to("act", np.where(is_visible, np.exp(exponent), np.float32(0.0)))
