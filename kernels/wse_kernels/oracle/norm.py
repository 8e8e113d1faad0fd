"""Oracles of RMS, L2 and layer normalisation."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.layers import LayerNormTensors, LayerSumsTensors, NormTensors, RowGroups
from wse_kernels.oracle.memory import ATTO, F32, owners


def sum_squares(pe, x, sums, M, K):
    """Sum the squares of the features that a PE stores: sums[M] = sum over K of x[M, K] ** 2.

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M].
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total += X[:, k] * X[:, k]
    pe.write("f32", sums, total)


def rms_scale(pe, at: NormTensors, M, K, size, eps_atto, offset):
    """Apply RMS normalisation with a gain, given the sums of squares over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)). This NumPy reference
    for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], float32 sums[M], gain[K] and results out[M, K]. The
            sums are replaced by the factors 1 / sqrt(...).
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain, usually 0 or 1.
    """
    x, sums, gain, out = at
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    scaled = pe.read("act", x, M, K) * factor[:, None]
    scaled = scaled if offset else pe.round_to("act", scaled)
    pe.write("f32", sums, factor)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * scaled)


def gain_sum_squares(pe, at: NormTensors, M, K, offset):
    """Sum the squares of a PE's features, and multiply the features by the gain.

    sums[M] = sum over K of x[M, K] ** 2, and out[M, K] = (gain[K] + offset) * x[M, K]. This NumPy
    reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], sums[M] in the accumulator type, gain[K] and results
            out[M, K].
        M, K: Tokens; features per PE.
        offset: Integer added to the gain.
    """
    x, sums, gain, out = at
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total = pe.round_to("acc", total + X[:, k] * X[:, k])
    pe.write("acc", sums, total)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * X)


def rms_factors(pe, sums, M, size, eps_atto):
    """Replace sums of squares by RMS factors: sums[M] = 1 / sqrt(sums[M] / size + eps).

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        sums: Address of the sums [M], overwritten.
        M, size: Number of sums; number of features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    pe.write("f32", sums, _rms_factor(pe.read("f32", sums, M), size, eps_atto))


def scale_heads(pe, x, factors, M, N):
    """Multiply each row of accumulators by its factor in place: x[M, N] *= factors[M].

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, N] in the accumulator type.
        factors: Address of the float32 factors [M].
        M, N: Rows, one per token or head; elements per row.
    """
    pe.write("acc", x, pe.read("acc", x, M, N) * pe.read("f32", factors, M)[:, None])


def rms_scale_sums(pe, x, sums, M, N, size, eps_atto):
    """Apply RMS normalisation without a gain: x[M, N] /= sqrt(sums[M] / size + eps).

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, N], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, N: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    pe.write("acc", x, pe.read("acc", x, M, N) * factor[:, None])


def rms_scale_share(pe, x, sums, M, n, parts, size, eps_atto, division: RowGroups):
    """Apply `rms_scale_sums` to the slice of features that this PE computes for its group.

    PEs of a column form groups of neighbours, which divide the features among them. The other
    features keep their values. This NumPy reference for one PE serves to test the compiled kernel
    of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, parts, n], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, n, parts: Tokens; features per part; parts, each of which is divided in the same way.
        size, eps_atto: Features that each sum is over; epsilon in units of 1e-18.
        division: Groups of PEs that divide the features.
    """
    values = pe.read("acc", x, M, parts, n)
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    is_own = owners(pe.row, n, division.length, division.groups) == pe.row
    pe.write("acc", x, np.where(is_own, values * factor[:, None, None], values))


def _rms_factor(squares: F32, size: np.int64, eps_atto: np.int64) -> F32:
    """Return 1 / sqrt(squares / size + eps) in float32, where eps is eps_atto * 1e-18."""
    factor: F32 = np.float32(1.0) / np.sqrt(squares / np.float32(size) + np.float32(eps_atto * ATTO))
    return factor


def l2_scale(pe, x, sums, M, K, size, eps_atto):
    """Apply L2 or RMS normalisation without a gain in place: x[M, K] /= sqrt(sums[M] / size + eps).

    This NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K], scaled in place.
        sums: Address of the float32 sums of squares [M] over all PEs. They are replaced by the
            factors 1 / sqrt(...).
        M, K: Tokens; features per PE.
        size: Features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    pe.write("act", x, pe.read("act", x, M, K) * factor[:, None])
    pe.write("f32", sums, factor)


def moments(pe, x, sums, M, K):
    """Sum each token's features and their squares in float32.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2. This NumPy
    reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M, 2].
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros((M, 2), np.float32)
    for k in range(K):
        total += np.stack([X[:, k], X[:, k] * X[:, k]], axis=1)
    pe.write("f32", sums, total)


def gain_moments(pe, x, sums, gain, out, M, K):
    """Sum a PE's features and their squares, and multiply the features by the gain.

    sums[M, 0] = sum over K of x[M, K], sums[M, 1] = sum over K of x[M, K] ** 2, and out[M, K] =
    gain[K] * x[M, K]. This NumPy reference for one PE serves to test the compiled kernel of the
    same name.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the activations [M, K], and of the results [M, K] in the same type.
        sums: Address of the sums [M, 2] in the accumulator type.
        gain: Address of the gain [K] in the weight type.
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    totals = np.zeros((M, 2), np.float32)
    for k in range(K):
        totals = pe.round_to("acc", totals + np.stack([X[:, k], X[:, k] * X[:, k]], axis=-1))
    pe.write("acc", sums, totals)
    pe.write("act", out, pe.read("wgt", gain, K) * X)


def layer_scale_sums(pe, at: LayerSumsTensors, M, N, size, eps_atto):
    """Complete a layer norm whose mean and scale are applied after the product with weights.

    x[M, N] = (x[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N]. This NumPy
    reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the sums of the product x[M, N], which are changed in place, of sums[M, 2],
            and of the float32 vectors of_gain[N] and of_bias[N].
        M, N: Tokens; output features.
        size: Features that mean and variance are over.
        eps_atto: Epsilon in units of 1e-18.
    """
    x, sums, of_gain, of_bias = at
    mean, square = (pe.read("acc", sums, M, 2) / np.float32(size)).T
    factor = _rms_factor(np.maximum(square - mean * mean, np.float32(0)), np.int64(1), eps_atto)
    centred = pe.read("acc", x, M, N) - mean[:, None] * pe.read("f32", of_gain, N)
    pe.write("acc", x, centred * factor[:, None] + pe.read("f32", of_bias, N))


def layer_scale(pe, at: LayerNormTensors, M, K, size, eps_atto, offset):
    """Apply layer normalisation with gain and bias, given the moments over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K]. This
    NumPy reference for one PE serves to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of activations x[M, K], float32 sums[M, 2], gain[K], bias[K] and results
            out[M, K]. The sums of values and squares are replaced by mean and scale factor.
        M, K: Tokens; features per PE.
        size: Features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        offset: Integer added to the gain.
    """
    x, sums, gain, bias, out = at
    mean, squares = (pe.read("f32", sums, M, 2) / np.float32(size)).T
    variance = np.maximum(squares - mean * mean, np.float32(0.0))
    factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
    scaled = (pe.read("act", x, M, K) - mean[:, None]) * factor[:, None]
    pe.write("f32", sums, np.stack([mean, factor], axis=1))
    gain_product = (pe.read("wgt", gain, K) + np.float32(offset)) * scaled
    pe.write("act", out, gain_product + pe.read("wgt", bias, K))
