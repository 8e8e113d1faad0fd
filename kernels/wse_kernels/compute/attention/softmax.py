"""Kernels of the softmax over the cache entries of a PE: maxima, weights and their sums."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import exponential
from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import group_of_column, slice_of_place
from wse_kernels.compute.attention._visible_entries import (
    BY_COLUMN,
    LOWEST,
    OLDEST,
    Slots,
    scale_scores,
    visible_range_of,
)
from wse_kernels.operands.attention import ScoreShape, SharedSoftmaxTensors, SoftmaxColumns, SoftmaxTensors, Window
from wse_kernels.operands.group import Place

ZERO = np.float32(0.0)


def attention_max(place: Place, acc, f32, ctl, scores, out, shape: ScoreShape, limits: Window, capacity):
    """Compute the maximum visible score of each token and query head: out[M, H].

    The scores of the T cache entries of this row are first multiplied by the scale. The result is
    -3e38 if the token attends to none of these entries.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    slots = Slots(ctl[place.row, OLDEST], capacity)
    _max(place, acc, f32, ctl, scores, out, shape, limits, slots)


def attention_exp(place: Place, act, acc, f32, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window, capacity):
    """Compute unnormalised softmax weights, and their sum for each token and query head.

    out[M, H, T] = exp(scale * scores[M, H, T] - maxima[M, H]), or 0 for entries that the token does
    not attend to. sums[M, H] is the float32 sum of the rounded weights.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
    """
    slots = Slots(ctl[place.row, OLDEST], capacity)
    _exp(place, act, acc, f32, ctl, at, shape, limits, slots)


def attention_exp_share(
    place: Place,
    act,
    acc,
    f32,
    ctl,
    at: SharedSoftmaxTensors,
    shape: ScoreShape,
    limits: Window,
    capacity,
    division: SoftmaxColumns,
):
    """Compute the softmax weights assigned to this PE, and set all other weights to 0.

    `attention_exp` defines the weights. Neighbouring columns store the same scores. They form sets,
    and the columns of a set divide the M * H * T weights evenly among themselves. Columns that
    belong to no set compute no weights.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], and weights out[M, H, T].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        capacity: Number of slots in the cache. The T entries wrap around its end.
        division: Sets of columns that divide the weights among themselves.
    """
    block, slots = place.block, Slots(ctl[place.row, OLDEST], capacity)
    M, H, T, scale_pico = shape
    scale, lanes = np.float32(scale_pico * 1e-12), act.shape[2]
    firsts, lasts, values = lane_values(lanes), lane_values(lanes), lane_values(lanes)
    for lane in range(lanes):
        firsts[lane], lasts[lane] = _slice_of_column(place.col + lane - division.first_col, division, M * H * T)
    for mht in range(M * H * T):
        mh, t = mht // T, mht % T
        visible_range, weight_place = visible_range_of(ctl[place.row, 0] + mh // H, limits), np.float32(mht)
        scale_scores(place, acc, ctl, values, at.scores + mht, t, scale, visible_range, slots)
        for lane in range(lanes):
            weight = exponential(values[lane] - f32[block, at.maxima + mh, lane])
            values[lane] = weight if firsts[lane] <= weight_place and lasts[lane] > weight_place else ZERO
        for lane in range(lanes):
            act[block, at.out + mht, lane] = narrow(values[lane], act[block, at.out, lane])


@helper_function
def _slice_of_column(col, division, count):
    """Return the range of elements that a column computes, or (0, 0) if it computes none.

    Args:
        col: Index of the column, counted from the first column that computes.
        division: Columns that divide the elements among themselves.
        count: Number of elements.

    Returns:
        Index of the first element, and the index after the last element.
    """
    if col < 0 or col >= division.columns:
        return 0, 0
    _, start, width = group_of_column(col, division.columns, division.groups)
    return slice_of_place(col - start, width, max(1, width // division.sharers), count)


def softmax_sums(block, act, f32, x, sums, M, H, T):
    """Sum the softmax weights of each token and head: sums[M, H] = sum over T of x[M, H, T].

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the weights [M, H, T] in the activation type.
        sums: Address of the float32 sums [M, H].
        M, H, T: Numbers of tokens, query heads, and cache entries.
    """
    lanes = act.shape[2]
    for mh in range(M * H):
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            for lane in range(lanes):
                f32[block, sums + mh, lane] += widen(act[block, x + mh * T + t, lane])


def attention_max_by_column(place: Place, acc, f32, ctl, scores, out, shape: ScoreShape, limits: Window):
    """Compute the maximum visible score per token and head for scores that are stored by column.

    The result is out[M, H]. In the kernel `attention_max`, a PE has the scores of the cache entries
    of its own mesh row. Here, the region is square, and the PEs of column c have the scores of the
    cache entries of row c, which start at slot 0.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _max(place, acc, f32, ctl, scores, out, shape, limits, Slots(0, BY_COLUMN))


def attention_exp_by_column(place: Place, act, acc, f32, ctl, at: SoftmaxTensors, shape: ScoreShape, limits: Window):
    """Compute unnormalised softmax weights and their sums for scores that are stored by column.

    In the kernel `attention_exp`, a PE has the scores of the cache entries of its own mesh row.
    Here, the region is square, and the PEs of column c have the scores of the cache entries of row
    c, which start at slot 0.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
    """
    _exp(place, act, acc, f32, ctl, at, shape, limits, Slots(0, BY_COLUMN))


@helper_function
def _max(place, acc, f32, ctl, scores, out, shape, limits, slots):
    """Compute the maximum scaled score of each token and query head over the visible entries.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        scores: Address of the scores [M, H, T] in the accumulator type.
        out: Address of the float32 maxima [M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        slots: Location of the entries in the cache.
    """
    block, (M, H, T, scale_pico) = place.block, shape
    scale, lanes = np.float32(scale_pico * 1e-12), acc.shape[2]
    values = lane_values(lanes)
    for mh in range(M * H):
        visible_range = visible_range_of(ctl[place.row, 0] + mh // H, limits)
        for lane in range(lanes):
            f32[block, out + mh, lane] = LOWEST
        for t in range(T):
            scale_scores(place, acc, ctl, values, scores + mh * T + t, t, scale, visible_range, slots)
            for lane in range(lanes):
                top = f32[block, out + mh, lane]
                f32[block, out + mh, lane] = values[lane] if values[lane] > top else top


@helper_function
def _exp(place, act, acc, f32, ctl, at, shape, limits, slots):
    """Compute unnormalised softmax weights, and their sums over the entries of this PE.

    Entries that the token does not attend to have weight 0.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], maxima[M, H], weights out[M, H, T], and sums[M, H].
        shape: M tokens, H query heads, T entries, and the scale of the scores.
        limits: Sliding window and attention chunk, which limit the visible entries.
        slots: Location of the entries in the cache.
    """
    block, (M, H, T, scale_pico) = place.block, shape
    scale, lanes = np.float32(scale_pico * 1e-12), act.shape[2]
    scores, maxima, out, sums = at
    values = lane_values(lanes)
    for mh in range(M * H):
        visible_range = visible_range_of(ctl[place.row, 0] + mh // H, limits)
        for lane in range(lanes):
            f32[block, sums + mh, lane] = np.float32(0.0)
        for t in range(T):
            e = mh * T + t
            is_visible = scale_scores(place, acc, ctl, values, scores + e, t, scale, visible_range, slots)
            for lane in range(lanes if is_visible else 0):
                values[lane] = exponential(values[lane] - f32[block, maxima + mh, lane])
            for lane in range(0 if is_visible else lanes):
                values[lane] = ZERO
            for lane in range(lanes):
                element = narrow(values[lane], act[block, out, lane])
                act[block, out + e, lane] = element
                values[lane] = widen(element)
            for lane in range(lanes):
                f32[block, sums + mh, lane] += values[lane]
