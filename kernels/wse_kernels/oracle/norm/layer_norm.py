"""Oracles of layer normalisation."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.layers import GainAndBias, LayerNormTensors, LayerSumsTensors
from wse_kernels.oracle.memory import ATTO


def moments(pe, x, sums, M, K):
    """Sum each token's features and their squares in float32.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the activations [M, K].
        sums: Address of the float32 sums [M, 2].
        M, K: Numbers of tokens and features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros((M, 2), np.float32)
    for k in range(K):
        total += np.stack([X[:, k], X[:, k] * X[:, k]], axis=1)
    pe.write("f32", sums, total)


def gain_moments(pe, x, sums, gain, out, M, K):
    """Sum a PE's features and their squares, and multiply the features by the gain.

    sums[M, 0] = sum over K of x[M, K], sums[M, 1] = sum over K of x[M, K] ** 2, and out[M, K] =
    gain[K] * x[M, K]. This NumPy reference for one PE is used to test the compiled kernel of the
    same name.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of the activations [M, K] and the results [M, K], which have the same
            type.
        sums: Address of the sums [M, 2] in the accumulator type.
        gain: Address of the gain [K] in the weight type.
        M, K: Numbers of tokens and features per PE.
    """
    X = pe.read("act", x, M, K)
    totals = np.zeros((M, 2), np.float32)
    for k in range(K):
        totals = pe.round_to("acc", totals + np.stack([X[:, k], X[:, k] * X[:, k]], axis=-1))
    pe.write("acc", sums, totals)
    pe.write("act", out, pe.read("wgt", gain, K) * X)


def layer_scale_sums(pe, at: LayerSumsTensors, M, N, size, eps_atto, biased):
    """Complete a layer norm whose mean and scale are applied after the product with the weights.

    x[M, N] = (x[M, N] - mean[M] * gain_product[N]) / sqrt(variance[M] + eps) + bias_product[N],
    where bias_product is only added if biased. This NumPy reference for one PE is used to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of x[M, N], sums[M, 2], gain_product[N] and bias_product[N]. x is the product
            with the weights and is changed in place. ``sums`` contains, for each token, the sum of
            its features and the sum of their squares. gain_product and bias_product are the float32
            products of the norm's gain and bias with the weights.
        M, N: Numbers of tokens and output features.
        size: Number of features over which mean and variance are computed.
        eps_atto: Epsilon in units of 1e-18.
        biased: 1 if the norm has a bias, otherwise 0.
    """
    x, sums, gain_product, bias_product = at
    mean, squares = (pe.read("acc", sums, M, 2) / np.float32(size)).T
    variance = np.maximum(squares - mean * mean, np.float32(0.0))
    factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
    centred = pe.read("acc", x, M, N) - mean[:, None] * pe.read("f32", gain_product, N)
    bias_value = pe.read("f32", bias_product, N) if biased else np.float32(0.0)
    pe.write("acc", x, centred * factor[:, None] + bias_value)


def layer_scale(pe, at: LayerNormTensors, M, K, size, eps_atto, form: GainAndBias):
    """Apply layer normalisation with a gain, given the moments over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K], where
    bias is only added if biased. This NumPy reference for one PE is used to test the compiled
    kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the activations x[M, K], float32 sums[M, 2], gain[K], bias[K] and results
            out[M, K]. The sums of values and squares are replaced by the mean and the scale factor.
        M, K: Numbers of tokens and features per PE.
        size: Number of features in the whole vector.
        eps_atto: Epsilon in units of 1e-18.
        form: Number added to the gain, and whether the bias is added.
    """
    x, sums, gain, bias, out = at
    mean, squares = (pe.read("f32", sums, M, 2) / np.float32(size)).T
    variance = np.maximum(squares - mean * mean, np.float32(0.0))
    factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
    scaled = (pe.read("act", x, M, K) - mean[:, None]) * factor[:, None]
    pe.write("f32", sums, np.stack([mean, factor], axis=1))
    gain_product = (pe.read("wgt", gain, K) + np.float32(form.offset)) * scaled
    bias_value = pe.read("wgt", bias, K) if form.biased else np.float32(0.0)
    pe.write("act", out, gain_product + bias_value)
