"""Compute kernels that encode positions in queries and keys: rotary embeddings and scaling.

Rotary embeddings rotate pairs of features. R features of a head are rotated: pair p consists of
features p and p + R / 2, and its angle at a position is position * frequency[p].
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import logarithm_plus_one, sine_and_cosine
from wse_kernels.codegen.elements import convert_elements, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.operands.attention import QueryKeyValue, RopeShape, RotaryFactors, RotatedShape
from wse_kernels.operands.group import Place


def rope(place: Place, act, acc, f32, ctl, x, frequency, at: QueryKeyValue, shape: RopeShape, factors: RotaryFactors):
    """Apply rotary embeddings to queries and keys, and round queries, keys and values.

    The pair of features (p, p + R / 2) of a head is rotated by position * frequency[p]. The last F
    - R features of a head, and all values, are only rounded to the activation type.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        frequency: Address of the float32 frequencies [R / 2], or of the cosines and sines
            [M, R / 2, 2] if they are already computed.
        at: Addresses of the results q[M, Hq, F], k[M, Hk, F] and v[M, Hk, F].
        shape: M tokens, Hq query heads, Hk key heads, F features, R rotary dimensions.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
    """
    M, Hq, Hk, F, R = shape
    block, width, lanes = place.block, (Hq + 2 * Hk) * F, act.shape[2]
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for p in range(R // 2):
            _set_cosine_and_sine(place, f32, ctl, frequency, (m, p, R // 2), factors, cosines, sines)
            for h in range(Hq + Hk):
                out = at.q + (m * Hq + h) * F + p if h < Hq else at.k + (m * Hk + h - Hq) * F + p
                _rotate_pair(act, acc, block, out, x + m * width + h * F + p, R // 2, cosines, sines)
        for h in range(Hq + Hk):
            out = at.q + (m * Hq + h) * F if h < Hq else at.k + (m * Hk + h - Hq) * F
            convert_elements(act, acc, block, out + R, x + m * width + h * F + R, F - R)
        convert_elements(act, acc, block, at.v + m * Hk * F, x + m * width + (Hq + Hk) * F, Hk * F)


def rotate(place: Place, act, f32, ctl, x, frequency, shape: RotatedShape, factors: RotaryFactors):
    """Apply rotary embeddings in place to every head of x[M, H, F].

    The pair of features (p, p + R / 2) of a head is rotated by position * frequency[p].

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        x: Address of the activations [M, H, F].
        frequency: Address of the float32 frequencies [R / 2], or of the cosines and sines
            [M, R / 2, 2] if they are already computed.
        shape: M tokens, H heads, F features, R rotary dimensions.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
    """
    M, H, F, R = shape
    lanes = act.shape[2]
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for p in range(R // 2):
            _set_cosine_and_sine(place, f32, ctl, frequency, (m, p, R // 2), factors, cosines, sines)
            for h in range(H):
                pair = x + (m * H + h) * F + p
                _rotate_pair(act, act, place.block, pair, pair, R // 2, cosines, sines)


def rotary_turns(place: Place, f32, ctl, frequency, out, M, R, multiplier_pico):
    """Compute the cosines and sines of all rotary angles so that several kernels can reuse them.

    out[M, R / 2, 2] = cos and sin of (position of token m) * frequency[p], each scaled by the
    multiplier.

    Args:
        place: Position of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        frequency, out: Addresses of the float32 frequencies [R / 2] and the results.
        M, R: Numbers of tokens and rotary dimensions per head.
        multiplier_pico: Factor applied to the cosines and sines, in units of 1e-12.
    """
    block, lanes, half = place.block, f32.shape[2], R // 2
    cosines, sines = lane_values(lanes), lane_values(lanes)
    for m in range(M):
        for p in range(half):
            _set_cosine_and_sine(
                place, f32, ctl, frequency, (m, p, half), RotaryFactors(multiplier_pico, 0), cosines, sines
            )
            for lane in range(lanes):
                f32[block, out + 2 * (m * half + p), lane] = cosines[lane]
                f32[block, out + 2 * (m * half + p) + 1, lane] = sines[lane]


@helper_function
def _set_cosine_and_sine(place, f32, ctl, frequency, pair, factors, cosines, sines):
    """Compute or load the cosine and sine of one rotary angle, for every PE of a block.

    Args:
        place: Position of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        frequency: Address of the frequencies, or of the cosines and sines if they are already
            computed.
        pair: Index of the token, index of the feature pair, and number of pairs.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
        cosines, sines: Arrays with one element per PE, overwritten.
    """
    block, (m, p, pairs) = place.block, pair
    if factors.turned == 1:
        turn = frequency + 2 * (m * pairs + p)
        for lane in range(len(cosines)):
            cosines[lane], sines[lane] = f32[block, turn, lane], f32[block, turn + 1, lane]
    else:
        position, multiplier = np.float32(ctl[place.row, 0] + m), np.float32(factors.multiplier_pico * 1e-12)
        for lane in range(len(cosines)):
            sine, cosine = sine_and_cosine(position * f32[block, frequency + p, lane])
            cosines[lane], sines[lane] = cosine * multiplier, sine * multiplier


@helper_function
def _rotate_pair(act, view, block, out, x, half, cosines, sines):
    """Rotate a pair of features by an angle, and round the results to the activation type.

    Args:
        act, view: SRAM as arrays [block, address, PE of block]. ``act`` has the element type of
            the results, and ``view`` that of the features.
        block: Index of the block (group of neighbouring PEs).
        out, x: Addresses of the first result and of the first feature.
        half: Distance from the first feature of a pair to the second.
        cosines, sines: Cosine and sine of the angle for every PE of the block.
    """
    for lane in range(len(cosines)):
        element = act[block, out, lane]
        first, second = widen(view[block, x, lane]), widen(view[block, x + half, lane])
        act[block, out, lane] = narrow(first * cosines[lane] - second * sines[lane], element)
        act[block, out + half, lane] = narrow(second * cosines[lane] + first * sines[lane], element)


def split_heads(block, act, acc, x, at: QueryKeyValue, M, Hq, Hk, F):
    """Convert queries, keys and values to the activation type, without rotary embeddings.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        at: Addresses of the results q[M, Hq, F], k[M, Hk, F] and v[M, Hk, F].
        M, Hq, Hk, F: Numbers of tokens, query heads, key heads, and features per head.
    """
    queries, keys = Hq * F, Hk * F
    for m in range(M):
        source = x + m * (queries + 2 * keys)
        convert_elements(act, acc, block, at.q + m * queries, source, queries)
        convert_elements(act, acc, block, at.k + m * keys, source + queries, keys)
        convert_elements(act, acc, block, at.v + m * keys, source + queries + keys, keys)


def scale_queries(place: Place, act, ctl, x, M, n, coefficient_pico, tokens, first):
    """Scale queries by a factor that grows with the token's position, as Llama 4 does.

    x[M, n] *= 1 + coefficient * ln(1 + floor((position of m + first) / tokens)).

    Args:
        place: Position of the block (group of neighbouring PEs).
        act: SRAM as activation elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        x: Address of the queries [M, n], scaled in place.
        M: Number of tokens.
        n: Number of features over all query heads on the PE.
        coefficient_pico: Coefficient in units of 1e-12.
        tokens: Number of positions after which the factor changes.
        first: Number added to the position, which is 0 for the first token.
    """
    coefficient = np.float32(coefficient_pico * 1e-12)
    block, row, _ = place
    lanes = act.shape[2]
    for m in range(M):
        intervals = np.float32((ctl[row, 0] + m + first) // tokens)
        factor = logarithm_plus_one(intervals) * coefficient + np.float32(1.0)
        for e in range(x + m * n, x + m * n + n):
            for lane in range(lanes):
                value = act[block, e, lane]
                act[block, e, lane] = narrow(widen(value) * factor, value)
