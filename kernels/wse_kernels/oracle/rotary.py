"""Oracles of rotary embeddings and of the scaling of queries by position."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.operands.attention import QueryKeyValue, RopeShape, RotaryFactors, RotatedShape
from wse_kernels.oracle.memory import F32, PICO, Pe

I32 = npt.NDArray[np.int32]


def rope(pe, ctl, x, frequency, at: QueryKeyValue, shape: RopeShape, factors: RotaryFactors):
    """Apply rotary embeddings to queries and keys, and round queries, keys and values.

    The pair of features (p, p + R / 2) of a head is rotated by position * frequency[p]. Results are
    rounded to the activation type. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        frequency: Address of the float32 frequencies [R / 2], or of the cosines and sines
            [M, R / 2, 2] if they are already computed.
        at: Addresses of the results q[M, Hq, F], k[M, Hk, F] and v[M, Hk, F].
        shape: M tokens, Hq query heads, Hk key heads, F features, R rotary dimensions.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
    """
    M, Hq, Hk, F, R = shape
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    rotated = _rotate_pairs(pe, ctl, heads, frequency, R, factors)
    pe.write("act", at.q, rotated[:, :Hq])
    pe.write("act", at.k, rotated[:, Hq : Hq + Hk])
    pe.write("act", at.v, heads[:, Hq + Hk :])


def rotate(pe, ctl, x, frequency, shape: RotatedShape, factors: RotaryFactors):
    """Apply rotary embeddings in place to every head of x[M, H, F].

    The pair of features (p, p + R / 2) of a head is rotated by position * frequency[p]. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        x: Address of the activations [M, H, F].
        frequency: Address of the float32 frequencies [R / 2], or of the cosines and sines
            [M, R / 2, 2] if they are already computed.
        shape: M tokens, H heads, F features, R rotary dimensions.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
    """
    M, H, F, R = shape
    pe.write("act", x, _rotate_pairs(pe, ctl, pe.read("act", x, M, H, F), frequency, R, factors))


def rotary_turns(pe, ctl, frequency, out, M, R, multiplier_pico):
    """Compute the scaled cosines and sines of the rotary angles position * frequency[p].

    The results are out[M, R / 2, 2]. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        frequency, out: Addresses of the float32 frequencies [R / 2] and the results.
        M, R: Numbers of tokens and rotary dimensions per head.
        multiplier_pico: Factor applied to the cosines and sines, in units of 1e-12.
    """
    pe.write("f32", out, _cosines_and_sines(pe, ctl, frequency, M, R, multiplier_pico))


def _cosines_and_sines(pe: Pe, ctl: I32, frequency: int, M: int, R: int, multiplier_pico: int) -> F32:
    """Return the scaled cosines and sines of all rotary angles, as [M, R / 2, 2].

    Args:
        pe: PE whose SRAM is read.
        ctl: Counters of each mesh row. The first one is the position of the row's first token.
        frequency: Address of the float32 frequencies [R / 2].
        M, R: Numbers of tokens and rotary dimensions per head.
        multiplier_pico: Factor applied to the cosines and sines, in units of 1e-12.
    """
    position = (ctl[pe.row, 0] + np.arange(M)).astype(np.float32)
    angle = position[:, None] * pe.read("f32", frequency, R // 2)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) * np.float32(multiplier_pico * PICO)


def _rotate_pairs(pe: Pe, ctl: I32, heads: F32, frequency: int, R: int, factors: RotaryFactors) -> F32:
    """Return heads [M, H, F] with the feature pairs (p, p + R / 2) of each head rotated.

    Args:
        pe: PE whose SRAM is read.
        ctl: Token and cache counters of each mesh row.
        heads: Heads before the rotation, [M, H, F].
        frequency: Address of the float32 frequencies [R / 2], or of the cosines and sines
            [M, R / 2, 2] if they are already computed.
        R: Number of rotary dimensions per head.
        factors: Whether the cosines and sines are already computed, and the factor applied to them.
    """
    half, M = R // 2, len(heads)
    angles = (
        pe.read("f32", frequency, M, half, 2)
        if factors.turned
        else _cosines_and_sines(pe, ctl, frequency, M, R, factors.multiplier_pico)
    )
    cosine, sine = angles[:, None, :, 0], angles[:, None, :, 1]
    first, second = heads[..., :half], heads[..., half:R]
    pairs = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*pairs, heads[..., R:]], axis=2)


def split_heads(pe, x, at: QueryKeyValue, M, Hq, Hk, F):
    """Convert queries, keys and values to the activation type, without rotary embeddings.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the projection's sums [M, (Hq + 2 Hk) F]: queries, keys, values.
        at: Addresses of the results q[M, Hq, F], k[M, Hk, F] and v[M, Hk, F].
        M, Hq, Hk, F: Numbers of tokens, query heads, key heads, and features per head.
    """
    heads = pe.read("acc", x, M, Hq + 2 * Hk, F)
    for out, first, count in ((at.q, 0, Hq), (at.k, Hq, Hk), (at.v, Hq + Hk, Hk)):
        pe.write("act", out, heads[:, first : first + count])


def scale_queries(pe, ctl, x, M, n, coefficient_pico, tokens, first):
    """Scale queries by a factor that grows with the token's position, as Llama 4 does.

    x[M, n] *= 1 + coefficient * ln(1 + floor((position + first) / tokens)). This NumPy reference
    for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        x: Address of the queries [M, n], scaled in place.
        M: Number of tokens.
        n: Number of features over all query heads on the PE.
        coefficient_pico: Coefficient in units of 1e-12.
        tokens: Number of positions after which the factor changes.
        first: Number added to the position, which is 0 for the first token.
    """
    intervals = np.floor((ctl[pe.row, 0] + np.arange(M) + first) / tokens).astype(np.float32)
    factor = np.log1p(intervals) * np.float32(coefficient_pico * PICO) + np.float32(1.0)
    pe.write("act", x, pe.read("act", x, M, n) * factor[:, None])
