"""Compute kernels that put positions into queries and keys: rotary embeddings and scaling."""

from __future__ import annotations

import numpy as np

from wse_kernels._elementary import logarithm_plus_one, sine_and_cosine
from wse_kernels._elements import narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values


def rope(block, block_row, act, acc, f32, ctl, x, frequency, q, k, v, M, Hq, Hk, F, R, multiplier_pico, turned):
    """Apply rotary embeddings to q and k, and round q, k and v to the activation type.

    Each head has F local features. The first R / 2 of them are paired with the next R / 2, and pair
    p of token m is rotated by (position of m) * frequency[p]. The remaining F - R features are only
    rounded.

    Args:
        block, block_row, act, acc, f32, ctl: Block of PEs, its mesh row, views of SRAM, and
            counters per row.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        frequency: Address of the float32 frequencies [R / 2]; with ``turned``, of cos and sin
            [M, R / 2, 2].
        q, k, v: Addresses of the results [M, Hq, F], [M, Hk, F] and [M, Hk, F].
        M, Hq, Hk, F, R: Tokens; query heads; key heads; features per head; rotated features.
        multiplier_pico: Factor of cos and sin in units of 1e-12. Not used with ``turned``.
        turned: 1 if cos and sin were computed before by `rotary_turns`, else 0.
    """
    half = R // 2
    multiplier = np.float32(multiplier_pico * 1e-12)
    width = (Hq + 2 * Hk) * F
    lanes = act.shape[2]
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        position = np.float32(ctl[block_row, 0] + m)
        for p in range(half):
            if turned == 1:
                _known_turns(block, f32, frequency + 2 * (m * half + p), cosines, sines)
            else:
                _turns(block, f32, frequency + p, position, multiplier, cosines, sines)
            for h in range(Hq + Hk):
                source = x + m * width + h * F + p
                out = q + (m * Hq + h) * F + p if h < Hq else k + (m * Hk + h - Hq) * F + p
                for lane in range(lanes):
                    element = act[block, out, lane]
                    first, second = widen(acc[block, source, lane]), widen(acc[block, source + half, lane])
                    act[block, out, lane] = narrow(first * cosines[lane] - second * sines[lane], element)
                    act[block, out + half, lane] = narrow(second * cosines[lane] + first * sines[lane], element)
        for h in range(Hq + Hk):
            for e in range(R, F):
                out = q + (m * Hq + h) * F + e if h < Hq else k + (m * Hk + h - Hq) * F + e
                for lane in range(lanes):
                    value = widen(acc[block, x + m * width + h * F + e, lane])
                    act[block, out, lane] = narrow(value, act[block, out, lane])
        for e in range(Hk * F):
            for lane in range(lanes):
                element = act[block, v + m * Hk * F + e, lane]
                value = widen(acc[block, x + m * width + (Hq + Hk) * F + e, lane])
                act[block, v + m * Hk * F + e, lane] = narrow(value, element)


def rotate(block, block_row, act, f32, ctl, x, frequency, M, H, F, R, multiplier_pico, turned):
    """Apply rotary embeddings in place to every head of x[M, H, F].

    The first R / 2 features of a head are paired with the next R / 2, as in `rope`.

    Args:
        block, block_row, act, f32, ctl: Block of PEs, its mesh row, views of SRAM, and counters per
            row.
        x: Address of the activations [M, H, F].
        frequency: Address of the float32 frequencies [R / 2]; with ``turned``, of cos and sin
            [M, R / 2, 2].
        M, H, F, R: Tokens; heads; features per head; rotated features.
        multiplier_pico: Factor of cos and sin in units of 1e-12. Not used with ``turned``.
        turned: 1 if cos and sin were computed before by `rotary_turns`, else 0.
    """
    half = R // 2
    multiplier = np.float32(multiplier_pico * 1e-12)
    lanes = act.shape[2]
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        position = np.float32(ctl[block_row, 0] + m)
        for p in range(half):
            if turned == 1:
                _known_turns(block, f32, frequency + 2 * (m * half + p), cosines, sines)
            else:
                _turns(block, f32, frequency + p, position, multiplier, cosines, sines)
            for h in range(H):
                at = x + (m * H + h) * F + p
                for lane in range(lanes):
                    old_first = act[block, at, lane]
                    first, second = widen(old_first), widen(act[block, at + half, lane])
                    act[block, at, lane] = narrow(first * cosines[lane] - second * sines[lane], old_first)
                    act[block, at + half, lane] = narrow(second * cosines[lane] + first * sines[lane], old_first)


def rotary_turns(block, block_row, f32, ctl, frequency, out, M, R, multiplier_pico):
    """Compute cos and sin of all rotary angles once, so that `rope` and `rotate` can reuse them.

    out[M, R / 2, 2] = cos and sin of (position of m) * frequency[p], each times the multiplier.

    Args:
        block, block_row, f32, ctl: Block of PEs, its mesh row, float32 view of SRAM, and counters
            per row.
        frequency, out: Addresses of the float32 frequencies [R / 2], and of the results.
        M, R: Tokens; rotated features per head.
        multiplier_pico: Factor of cos and sin in units of 1e-12.
    """
    half = R // 2
    multiplier = np.float32(multiplier_pico * 1e-12)
    lanes = f32.shape[2]
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        position = np.float32(ctl[block_row, 0] + m)
        for p in range(half):
            _turns(block, f32, frequency + p, position, multiplier, cosines, sines)
            for lane in range(lanes):
                f32[block, out + 2 * (m * half + p), lane] = cosines[lane]
                f32[block, out + 2 * (m * half + p) + 1, lane] = sines[lane]


@helper_function
def _known_turns(block, f32, at, cosines, sines):
    """Load precomputed cos and sin from address ``at`` into ``cosines`` and ``sines``, per lane."""
    for lane in range(len(cosines)):
        cosines[lane], sines[lane] = f32[block, at, lane], f32[block, at + 1, lane]


@helper_function
def _turns(block, f32, frequency, position, multiplier, cosines, sines):
    """Compute cos and sin of position * frequency in every lane, times the multiplier.

    Args:
        block, f32, frequency: Block of PEs, float32 view of SRAM, and address of the frequency.
        position, multiplier: Position of the token; factor of the results.
        cosines, sines: Arrays with an element per lane, overwritten.
    """
    for lane in range(len(cosines)):
        sine, cosine = sine_and_cosine(position * f32[block, frequency, lane])
        cosines[lane], sines[lane] = cosine * multiplier, sine * multiplier


def split_heads(block, act, acc, x, q, k, v, M, Hq, Hk, F):
    """Round queries, keys and values from accumulators to activations, without rotary embeddings.

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        q, k, v: Addresses of the results [M, Hq, F], [M, Hk, F] and [M, Hk, F].
        M, Hq, Hk, F: Tokens; query heads; key heads; features per head.
    """
    queries, keys = Hq * F, Hk * F
    lanes = act.shape[2]
    for m in range(M):
        for e in range(queries + 2 * keys):
            if e < queries:
                out = q + m * queries + e
            elif e < queries + keys:
                out = k + m * keys + e - queries
            else:
                out = v + m * keys + e - queries - keys
            for lane in range(lanes):
                value = widen(acc[block, x + m * (queries + 2 * keys) + e, lane])
                act[block, out, lane] = narrow(value, act[block, out, lane])


def scale_queries(block, block_row, act, ctl, x, M, n, coefficient_pico, tokens):
    """Scale queries by a factor that grows with the token's position, as Llama 4 does.

    x[M, n] *= 1 + coefficient * ln(1 + floor((position of m + 1) / tokens)).

    Args:
        block, block_row, act, ctl: Block of PEs, its mesh row, activation view of SRAM, and
            counters per row.
        x: Address of the queries [M, n], scaled in place.
        M, n: Tokens; features of all query heads on the PE.
        coefficient_pico: Coefficient in units of 1e-12.
        tokens: Number of positions after which the factor changes.
    """
    coefficient = np.float32(coefficient_pico * 1e-12)
    lanes = act.shape[2]
    for m in range(M):
        intervals = np.float32((ctl[block_row, 0] + m + 1) // tokens)
        factor = logarithm_plus_one(intervals) * coefficient + np.float32(1.0)
        for e in range(x + m * n, x + m * n + n):
            for lane in range(lanes):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * factor, value)
