"""Kernels that complete a softmax: attention sinks, maxima of all rows, division by the sums."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.codegen.elementary import exponential, power_of_two
from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.lanes import lane_values

ZERO = np.float32(0.0)
LOG2_E, LN_2 = np.float32(math.log2(math.e)), np.float32(math.log(2))
LEAST_EXPONENT = np.float32(-(2**22))  # up to this size, float32 represents integers and halves exactly
LEAST_NORMAL = np.float32(-126.0)  # exponent of the smallest normal float32


def sink_sums(block, wgt, f32, sums, maxima, sinks, M, H):
    """Add the attention sinks of all heads to the softmax sums.

    sums[M, H] += exp(sinks[H] - maxima[M, H]). An attention sink is a trained score that takes part
    in the softmax but has no value.

    Args:
        block: Index of the block (group of neighbouring PEs).
        wgt, f32: SRAM as arrays [block, address, PE of block] of different element types.
        sums: Address of the float32 sums [M, H], changed in place.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the attention sinks [H] in the weight type.
        M, H: Numbers of tokens and query heads.
    """
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, sums + mh, lane] += exponential(sink - f32[block, maxima + mh, lane])


def sink_weights(block, wgt, f32, maxima, sinks, out, M, H):
    """Compute the softmax weights of attention sinks: out[M, H] = exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score that takes part in the softmax but has no value.

    Args:
        block: Index of the block (group of neighbouring PEs).
        wgt, f32: SRAM as arrays [block, address, PE of block] of different element types.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the attention sinks [H] in the weight type.
        out: Address of the float32 results [M, H].
        M, H: Numbers of tokens and query heads.
    """
    lanes = f32.shape[2]
    for mh in range(M * H):
        at = sinks + mh % H
        for lane in range(lanes):
            sink = widen(wgt[block, at, lane])
            f32[block, out + mh, lane] = exponential(sink - f32[block, maxima + mh, lane])


def round_maxima(block, f32, x, n):
    """Round the softmax maxima x[n] to whole multiples of ln 2, but not below -2^22 ln 2.

    Rescaling by the difference between two such maxima is then an exact multiplication by a power
    of two. Maxima below -2.9e6 are raised to this limit.

    Args:
        block: Index of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        x: Address of the float32 maxima [n], changed in place.
        n: Number of maxima.
    """
    for i in range(x, x + n):
        for lane in range(f32.shape[2]):
            multiple = max(np.rint(f32[block, i, lane] * LOG2_E), LEAST_EXPONENT)
            f32[block, i, lane] = multiple * LN_2


def softmax_rescale(block, acc, f32, own, maxima, sums, x, M, H, F):
    """Rescale softmax sums and values from this row's own maxima to the maxima over all rows.

    sums[M, H] and x[M, H, F] are multiplied in place by exp(own[M, H] - maxima[M, H]). The maxima
    are whole multiples of ln 2, so this factor is a power of two. Factors below 2^-126 become 0.

    Args:
        block: Index of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        own: Address of the float32 maxima [M, H] over the cache entries of this row.
        maxima: Address of the float32 maxima [M, H] over all rows.
        sums: Address of the float32 sums [M, H], changed in place.
        x: Address of the values [M, H, F] in the accumulator type, changed in place.
        M, H, F: Numbers of tokens, query heads, and features per head.
    """
    lanes = f32.shape[2]
    factors = lane_values(lanes)
    for mh in range(M * H):
        for lane in range(lanes):
            exponent = np.rint((f32[block, own + mh, lane] - f32[block, maxima + mh, lane]) * LOG2_E)
            factors[lane] = power_of_two(exponent) if exponent >= LEAST_NORMAL else ZERO
            f32[block, sums + mh, lane] *= factors[lane]
        for f in range(F):
            for lane in range(lanes):
                value = acc[block, x + mh * F + f, lane]
                acc[block, x + mh * F + f, lane] = narrow(widen(value) * factors[lane], value)


def attention_finish(block, act, acc, f32, x, sums, out, M, H, F):
    """Divide attention outputs by the softmax sums: out[M, H, F] = x[M, H, F] / sums[M, H].

    The result is 0 where the sum is not positive, that is, where no entry was visible.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the outputs [M, H, F] in the accumulator type.
        sums: Address of the float32 sums [M, H].
        out: Address of the results [M, H, F] in the activation type.
        M, H, F: Numbers of tokens, query heads, and features per head.
    """
    lanes = act.shape[2]
    for mh in range(M * H):
        for f in range(F):
            for lane in range(lanes):
                element = act[block, out + mh * F + f, lane]
                total = f32[block, sums + mh, lane]
                value = widen(acc[block, x + mh * F + f, lane]) / total if total > 0.0 else np.float32(0.0)
                act[block, out + mh * F + f, lane] = narrow(value, element)
