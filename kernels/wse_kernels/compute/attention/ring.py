"""Kernel of ring attention, in which KV caches pass around a ring of PE rows."""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import clear_rows
from wse_kernels.codegen.jit import helper_function
from wse_kernels.compute.attention._online_softmax import fold_entries
from wse_kernels.compute.attention._visible_entries import LOWEST, SLOTS, visible_range_of
from wse_kernels.operands.attention import HeadShape, RingStep, RunningSoftmax, Window
from wse_kernels.operands.cache_entries import FoldedEntries, VisibleEntries
from wse_kernels.operands.group import Place


def attention_online(
    place: Place, act, acc, f32, ctl, at: RunningSoftmax, shape: HeadShape, scale_pico, limits: Window, step: RingStep
):
    """Update a running softmax with the scores and values of another row's KV cache.

    This is a step of ring attention, in which caches pass around a ring of PE rows. In step
    ``round``, this row has received the cache of the row ``round`` places before it on the ring.
    The entries begin at slot 0.

    1. Find the row whose cache is processed.
    2. In round 0, reset the running values.
    3. Find the range of entries that the token attends to. If there are none, the running values do
       not change.
    4. Add these entries to the running values (`fold_entries`).

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], values v[T, Hk, F], and the running maxima[M, H],
            sums[M, H] and out[M, H, F].
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        scale_pico: Factor applied to the scores, in units of 1e-12.
        limits: Sliding window and attention chunk, which limit the visible entries.
        step: Index of the step, and number of rows in the ring.
    """
    block, row, _ = place
    M, Hk, queries_per_kv, F, T = shape
    H, scale = Hk * queries_per_kv, np.float32(scale_pico * 1e-12)
    origin = _ring_row(row, step)  # 1
    for mh in range(M * H):
        if step.round == 0:  # 2
            for lane in range(act.shape[2]):
                f32[block, at.maxima + mh, lane] = LOWEST
                f32[block, at.sums + mh, lane] = np.float32(0.0)
            clear_rows(acc, block, at.out + mh * F, F)
        if mh // H >= ctl[row, 1]:
            continue
        first, last = visible_range_of(np.int64(ctl[row, 0]) + mh // H, limits)
        begin, end = T, 0  # 3
        for t in range(T):
            if ctl[origin, SLOTS + t] >= first and ctl[origin, SLOTS + t] <= last:
                begin, end = min(begin, t), t + 1
        if begin < end:  # 4
            value = at.v + (begin * Hk + mh % H // queries_per_kv) * F
            entries = FoldedEntries(
                at.scores + mh * T + begin, value, at.maxima + mh, at.sums + mh, at.out + mh * F,
                end - begin, F, Hk * F,
            )  # fmt: skip
            visible_range = VisibleEntries(origin, SLOTS + begin, first, last)
            fold_entries((acc, act, f32), block, entries, ctl, visible_range, scale)


@helper_function
def _ring_row(row, step):
    """Return the row of PEs whose KV cache has arrived at a given row in a step of ring attention.

    The ring visits rows 0, 2, 4 and so on to the last row, and returns along the odd rows.
    """
    place = row // 2 if row % 2 == 0 else step.ring - (row + 1) // 2
    place = (place - step.round) % step.ring
    return 2 * place if 2 * place < step.ring else 2 * (step.ring - place) - 1
