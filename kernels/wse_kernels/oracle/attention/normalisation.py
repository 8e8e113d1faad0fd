"""Oracles that complete a softmax: attention sinks, maxima of all rows, division by the sums."""

from __future__ import annotations

import numpy as np


def sink_sums(pe, sums, maxima, sinks, M, H):
    """Add the attention sinks to softmax sums: sums[M, H] += exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score without a value. This NumPy reference for one PE is used to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        sums: Address of the float32 sums [M, H], changed in place.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the attention sinks [H] in the weight type.
        M, H: Numbers of tokens and query heads.
    """
    weight = np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H))
    pe.write("f32", sums, pe.read("f32", sums, M, H) + weight)


def sink_weights(pe, maxima, sinks, out, M, H):
    """Compute the softmax weights of attention sinks: out[M, H] = exp(sinks[H] - maxima[M, H]).

    An attention sink is a trained score without a value. This NumPy reference for one PE is used to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        maxima: Address of the float32 maxima [M, H].
        sinks: Address of the attention sinks [H] in the weight type.
        out: Address of the float32 results [M, H].
        M, H: Numbers of tokens and query heads.
    """
    pe.write("f32", out, np.exp(pe.read("wgt", sinks, H) - pe.read("f32", maxima, M, H)))


def round_maxima(pe, x, n):
    """Round the softmax maxima x[n] to whole multiples of ln 2, but not below -2^22 ln 2.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the float32 maxima [n], changed in place.
        n: Number of maxima.
    """
    doublings = np.rint(pe.read("f32", x, n) * np.float32(np.log2(np.e)))
    pe.write("f32", x, np.maximum(doublings, np.float32(-(2**22))) * np.float32(np.log(2)))


def softmax_rescale(pe, own, maxima, sums, x, M, H, F):
    """Rescale softmax sums and values from a row's own maxima to the maxima over all rows.

    sums[M, H] and x[M, H, F] are multiplied by exp(own[M, H] - maxima[M, H]), which is a power of
    two. Factors below 2^-126 become 0. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        own: Address of the float32 maxima [M, H] over the cache entries of this row.
        maxima: Address of the float32 maxima [M, H] over all rows.
        sums: Address of the float32 sums [M, H], changed in place.
        x: Address of the values [M, H, F] in the accumulator type, changed in place.
        M, H, F: Numbers of tokens, query heads, and features per head.
    """
    doublings = np.rint((pe.read("f32", own, M, H) - pe.read("f32", maxima, M, H)) * np.float32(np.log2(np.e)))
    factor = np.where(doublings < -126, 0, np.exp2(np.maximum(doublings, -126))).astype(np.float32)
    pe.write("acc", x, pe.read("acc", x, M, H, F) * factor[:, :, None])
    pe.write("f32", sums, pe.read("f32", sums, M, H) * factor)


def attention_finish(pe, x, sums, out, M, H, F):
    """Divide attention outputs by the softmax sums: out[M, H, F] = x[M, H, F] / sums[M, H].

    The result is 0 where the sum is not positive. This NumPy reference for one PE is used to test
    the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the outputs [M, H, F] in the accumulator type.
        sums: Address of the float32 sums [M, H].
        out: Address of the results [M, H, F] in the activation type.
        M, H, F: Numbers of tokens, query heads, and features per head.
    """
    total = pe.read("f32", sums, M, H, 1)
    quotient = pe.read("acc", x, M, H, F) / np.where(total > 0, total, np.float32(1.0))
    pe.write("act", out, np.where(total > 0, quotient, np.float32(0.0)))
