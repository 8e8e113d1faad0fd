"""Oracle of ring attention."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.attention import HeadShape, RingStep, RunningSoftmax, Window
from wse_kernels.oracle.attention.visible_entries import entry_visibility
from wse_kernels.oracle.memory import LOWEST, PICO


def attention_online(pe, ctl, at: RunningSoftmax, shape: HeadShape, scale_pico, limits: Window, step: RingStep):
    """Update a running softmax with the scores and values of another row's KV cache.

    This is a step of ring attention, in which caches pass around a ring of PE rows. Step 0 resets
    the running values. This NumPy reference for one PE is used to test the compiled kernel of the
    same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of scores[M, H, T], values v[T, Hk, F], and the running maxima[M, H],
            sums[M, H] and out[M, H, F].
        shape: M tokens, Hk KV heads, query heads per KV head, F features, T entries.
        scale_pico: Factor applied to the scores, in units of 1e-12.
        limits: Sliding window and attention chunk, which limit the visible entries.
        step: Index of the step, and number of rows in the ring.
    """
    scores, v, maxima, sums, out = at
    M, Hk, queries_per_kv, F, T = shape
    order = [*range(0, step.ring, 2), *reversed(range(1, step.ring, 2))]
    origin = order[(order.index(pe.row) - step.round) % step.ring]
    if step.round == 0:
        pe.write("f32", maxima, np.full(M * Hk * queries_per_kv, LOWEST))
        pe.write("f32", sums, np.zeros(M * Hk * queries_per_kv, np.float32))
        pe.write("acc", out, np.zeros(M * Hk * queries_per_kv * F, np.float32))
    scaled = pe.read("acc", scores, M, Hk, queries_per_kv, T) * np.float32(scale_pico * PICO)
    values = pe.read("act", v, T, Hk, 1, F)
    old_top, total = pe.read("f32", maxima, M, Hk, queries_per_kv), pe.read("f32", sums, M, Hk, queries_per_kv)
    outputs = pe.read("acc", out, M, Hk, queries_per_kv, F)
    is_visible = entry_visibility(ctl, pe.row, M, ctl[origin, 8 : 8 + T], limits)
    for m in range(min(M, ctl[pe.row, 1])):
        top = old_top[m]
        for t in np.flatnonzero(is_visible[m]):
            top = np.where(scaled[m, ..., t] > top, scaled[m, ..., t], top)
        shrink = np.exp(old_top[m] - top)
        total[m] *= shrink
        outputs[m] = pe.round_to("acc", outputs[m] * shrink[..., None])
        for t in np.flatnonzero(is_visible[m]):
            weight = np.exp(scaled[m, ..., t] - top)
            total[m] += weight
            outputs[m] = pe.round_to("acc", outputs[m] + weight[..., None] * values[t])
        old_top[m] = top
    pe.write("f32", maxima, old_top)
    pe.write("f32", sums, total)
    pe.write("acc", out, outputs)
