"""Positions in queries and keys: rotation out of the projection's accumulators or in place, and scaling."""

from __future__ import annotations

import numpy as np

from wse_kernels._elementary import logarithm_plus_one, sine_and_cosine
from wse_kernels._elements import narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values


def rope(block, block_row, act, acc, f32, ctl, x, frequency, q, k, v, M, Hq, Hk, F, R, multiplier_pico, turned):
    """Rotate q and k out of the projection's accumulators, and round q, k and v to the element type.

    ``x`` is ``[M, (Hq + 2 Hk) F]``: queries, keys, values. Of a head's F local features the first R / 2 are first
    members of rotary pairs and the next R / 2 their partners; the others are only rounded. The angle of pair p of token
    m is (position of m) * frequency[p]; cos and sin are multiplied with the multiplier. Where ``turned`` is 1 these are
    there, ``[M, R / 2, 2]`` instead of frequencies, as `rotary_turns` leaves them.
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
                    like = act[block, out, lane]
                    first, second = widen(acc[block, source, lane]), widen(acc[block, source + half, lane])
                    act[block, out, lane] = narrow(first * cosines[lane] - second * sines[lane], like)
                    act[block, out + half, lane] = narrow(second * cosines[lane] + first * sines[lane], like)
        for h in range(Hq + Hk):
            for e in range(R, F):
                out = q + (m * Hq + h) * F + e if h < Hq else k + (m * Hk + h - Hq) * F + e
                for lane in range(lanes):
                    value = widen(acc[block, x + m * width + h * F + e, lane])
                    act[block, out, lane] = narrow(value, act[block, out, lane])
        for e in range(Hk * F):
            for lane in range(lanes):
                like = act[block, v + m * Hk * F + e, lane]
                value = widen(acc[block, x + m * width + (Hq + Hk) * F + e, lane])
                act[block, v + m * Hk * F + e, lane] = narrow(value, like)


def rotate(block, block_row, act, f32, ctl, x, frequency, M, H, F, R, multiplier_pico, turned):
    """Rotate the pairs of every head of x[M, H, F] in place, as `rope` does."""
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
                    like = act[block, at, lane]
                    first, second = widen(like), widen(act[block, at + half, lane])
                    act[block, at, lane] = narrow(first * cosines[lane] - second * sines[lane], like)
                    act[block, at + half, lane] = narrow(second * cosines[lane] + first * sines[lane], like)


def rotary_turns(block, block_row, f32, ctl, frequency, out, M, R, multiplier_pico):
    """out[M, R / 2, 2] = cos and sin of (position of m) * frequency[p], times the multiplier, as `rope` takes them."""
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
    """The cosines and sines that stand at an address, in all lanes."""
    for lane in range(len(cosines)):
        cosines[lane], sines[lane] = f32[block, at, lane], f32[block, at + 1, lane]


@helper_function
def _turns(block, f32, frequency, position, multiplier, cosines, sines):
    """Cosines and sines of position * frequency in all lanes, times the multiplier."""
    for lane in range(len(cosines)):
        sine, cosine = sine_and_cosine(position * f32[block, frequency, lane])
        cosines[lane], sines[lane] = cosine * multiplier, sine * multiplier


def split_heads(block, act, acc, x, q, k, v, M, Hq, Hk, F):
    """Round q[M, Hq, F], k[M, Hk, F] and v[M, Hk, F] out of the projection's accumulators, without rotation.

    ``x`` is ``[M, (Hq + 2 Hk) F]``: queries, keys, values.
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
    """x[M, n] *= 1 + coefficient * ln(1 + floor((position of m + 1) / tokens))."""
    coefficient = np.float32(coefficient_pico * 1e-12)
    lanes = act.shape[2]
    for m in range(M):
        far = np.float32((ctl[block_row, 0] + m + 1) // tokens)
        factor = logarithm_plus_one(far) * coefficient + np.float32(1.0)
        for e in range(x + m * n, x + m * n + n):
            for lane in range(lanes):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * factor, value)
