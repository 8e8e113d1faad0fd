"""Oracles of RMS and L2 normalisation."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.layers import NormTensors, RowGroups
from wse_kernels.oracle.memory import ATTO, F32, owners


def sum_squares(pe, x, sums, M, K):
    """Sum the squares of the features that a PE stores: sums[M] = sum over K of x[M, K] ** 2.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M].
        M, K: Numbers of tokens and features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total += X[:, k] * X[:, k]
    pe.write("f32", sums, total)


def rms_scale(pe, at: NormTensors, M, K, size, eps_atto, offset):
    """Apply RMS normalisation with a gain, given the sums of squares over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)). This NumPy reference
    for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], float32 sums[M], gain[K] and results out[M, K].
            The sums are replaced by the factors 1 / sqrt(...).
        M, K: Numbers of tokens and features per PE.
        size: Number of features in the whole vector.
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
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], sums[M] in the accumulator type, gain[K] and
            results out[M, K].
        M, K: Numbers of tokens and features per PE.
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

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        sums: Address of the sums [M], overwritten.
        M: Number of sums.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    pe.write("f32", sums, _rms_factor(pe.read("f32", sums, M), size, eps_atto))


def scale_heads(pe, x, factors, M, N):
    """Multiply each row of accumulators by its factor in place: x[M, N] *= factors[M].

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, N] in the accumulator type.
        factors: Address of the float32 factors [M].
        M: Number of rows, one per token or head.
        N: Number of elements per row.
    """
    pe.write("acc", x, pe.read("acc", x, M, N) * pe.read("f32", factors, M)[:, None])


def rms_scale_sums(pe, x, sums, M, N, size, eps_atto):
    """Apply RMS normalisation without a gain: x[M, N] /= sqrt(sums[M] / size + eps).

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, N], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M, N: Numbers of tokens and features per PE.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    pe.write("acc", x, pe.read("acc", x, M, N) * factor[:, None])


def rms_scale_share(pe, x, sums, M, n, parts, size, eps_atto, division: RowGroups):
    """Apply RMS normalisation without a gain to the features that this PE scales for its group.

    The PEs of a column form groups of neighbours, and each PE of a group scales a slice of the
    features, as `rms_scale_sums` does. All other features keep their values. This NumPy reference
    for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the values [M, parts, n], scaled in place.
        sums: Address of the sums of squares [M] over all PEs, in the accumulator type.
        M: Number of tokens.
        n, parts: Number of features in each part, and number of parts. Every part is divided among
            the PEs in the same way.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
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

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K], scaled in place.
        sums: Address of the float32 sums of squares [M] over all PEs. They are replaced by the
            factors 1 / sqrt(...).
        M, K: Numbers of tokens and features per PE.
        size: Number of features in each sum.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    pe.write("act", x, pe.read("act", x, M, K) * factor[:, None])
    pe.write("f32", sums, factor)
