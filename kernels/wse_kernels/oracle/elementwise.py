"""The oracles of local operations on a PE's own vectors: sums, activations, norms, and the two ends of a model."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.oracle.memory import F32

LOWEST = np.float32(-3.0e38)
PICO, ATTO = 1e-12, 1e-18
GELU_TANH, GELU, CLAMPED_SILU = 1, 2, 3


def residual_add(pe, x, addend, n):
    """act[n] += acc[n], the addend rounded to the activation type first."""
    pe.write("act", x, pe.read("act", x, n) + pe.round_to("act", pe.read("acc", addend, n)))


def add(pe, x, addend, n):
    """act[n] += act[n] at another address."""
    pe.write("act", x, pe.read("act", x, n) + pe.read("act", addend, n))


def add_bias(pe, x, bias, M, n):
    """acc[M, n] += bias[n]."""
    pe.write("acc", x, pe.read("acc", x, M, n) + pe.read("wgt", bias, n))


def scale(pe, x, n, factor_pico):
    """acc[n] *= factor."""
    pe.write("acc", x, pe.read("acc", x, n) * np.float32(factor_pico * PICO))


def store(pe, out, x, n):
    """act[n] = acc[n]."""
    pe.write("act", out, pe.read("acc", x, n))


def store_part(pe, out, x, M, n, stride):
    """act[M, n] = the first n of every row of acc."""
    for m in range(M):
        pe.write("act", out + m * n, pe.read("acc", x + m * stride, n))


def clear(pe, out, n):
    """act[n] = 0."""
    pe.write("act", out, np.zeros(n, np.float32))


def copy(pe, out, x, n):
    """act[n] = act[n] at another address."""
    pe.move("act", x, out, n)


def copy_statistics(pe, out, x, n):
    """f32[n] = f32[n] at another address."""
    pe.move("f32", x, out, n)


def add_statistics(pe, x, addend, n):
    """f32[n] += f32[n]."""
    pe.write("f32", x, pe.read("f32", x, n) + pe.read("f32", addend, n))


def store_statistics(pe, out, x, n):
    """act[n] = f32[n]."""
    pe.write("act", out, pe.read("f32", x, n))


def load_statistics(pe, out, x, n):
    """f32[n] = act[n]."""
    pe.write("f32", out, pe.read("act", x, n))


def copy_weights(pe, out, x, n):
    """wgt[n] = wgt[n] at another address."""
    pe.move("wgt", x, out, n)


def soft_cap(pe, x, n, scale_pico, cap_pico):
    """acc[n] = cap * tanh(scale * acc[n] / cap)."""
    scale, cap = np.float32(scale_pico * PICO), np.float32(cap_pico * PICO)
    pe.write("acc", x, np.tanh(pe.read("acc", x, n) * scale / cap) * cap)


def activate(pe, x, out, M, n, function, gated, limit_pico):
    """act[M, n] = f(gate[M, n]), times up[M, n] where gated, both rounded to the activation type first."""
    rounded = pe.round_to("act", pe.read("acc", x, M, 1 + gated, n))
    limit = np.float32(limit_pico / 10**12)
    hidden, up = _activation(rounded[:, 0], function, limit), rounded[:, -1]
    if function == CLAMPED_SILU:
        up = np.clip(up, -limit, limit) + np.float32(1.0)
    pe.write("act", out, hidden * up if gated else hidden)


def activate_share(pe, x, out, M, n, function, gated, limit_pico, length, groups, shared_tokens, padding):
    """`activate` of the features of the PE's share, 0 elsewhere and behind."""
    activate(pe, x, out, M, n, function, gated, limit_pico)
    own = _owners(pe.row, shared_tokens * n, length, groups) == pe.row
    values = pe.read("act", out, M // shared_tokens, shared_tokens * n)
    pe.write("act", out, np.where(own, values, np.float32(0.0)))
    pe.write("act", out + M * n, np.zeros(padding, np.float32))


def _owners(row, n, length, groups):
    """The row that works on each of n features, of those that share with a row."""
    starts = np.arange(groups + 1) * length // groups
    group = int(np.searchsorted(starts, row, side="right")) - 1
    start, end = starts[group], starts[group + 1]
    return np.repeat(np.arange(start, end), np.diff(np.arange(end - start + 1) * n // (end - start)))


def _activation(x: F32, function: np.int64, limit: np.float32) -> F32:
    if function == GELU_TANH:
        inner = math.sqrt(2 / math.pi) * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
        return np.float32(0.5) * x * (1.0 + np.tanh(inner)).astype(np.float32)
    if function == GELU:
        erf = [math.erf(value * math.sqrt(0.5)) for value in x.reshape(-1).tolist()]
        return np.float32(0.5) * x * (1.0 + np.array(erf).reshape(x.shape)).astype(np.float32)
    clamped = function == CLAMPED_SILU
    bounded, steepness = (np.minimum(x, limit), 1.702) if clamped else (x, 1.0)
    with np.errstate(over="ignore"):
        return np.divide(bounded, np.float32(1.0) + np.exp(-np.float32(steepness) * bounded), dtype=np.float32)


def sum_squares(pe, x, sums, M, K):
    """f32[M] = sum over K of act[M, K] ** 2."""
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total += X[:, k] * X[:, k]
    pe.write("f32", sums, total)


def rms_scale(pe, x, sums, gain, out, M, K, size, eps_atto, offset):
    """act[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sum[M] / size + eps)); the factor takes the place of the sum."""
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    scaled = pe.read("act", x, M, K) * factor[:, None]
    scaled = scaled if offset else pe.round_to("act", scaled)
    pe.write("f32", sums, factor)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * scaled)


def l2_scale(pe, x, sums, M, K, size, eps_atto):
    """act[M, K] /= sqrt(sum[M] / size + eps); the factor takes the place of the sum."""
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    pe.write("act", x, pe.read("act", x, M, K) * factor[:, None])
    pe.write("f32", sums, factor)


def gain_sum_squares(pe, x, sums, gain, out, M, K, offset):
    """acc[M] = sum over K of act[M, K] ** 2; act[M, K] *= gain[K] + offset."""
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total = pe.round_to("acc", total + X[:, k] * X[:, k])
    pe.write("acc", sums, total)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * X)


def rms_factors(pe, sums, M, size, eps_atto):
    """sum[M] = 1 / sqrt(sum[M] / size + eps)."""
    pe.write("f32", sums, _rms_factor(pe.read("f32", sums, M), size, eps_atto))


def scale_heads(pe, x, factors, M, N):
    """acc[M, N] *= factors[M]."""
    pe.write("acc", x, pe.read("acc", x, M, N) * pe.read("f32", factors, M)[:, None])


def rms_scale_sums(pe, x, sums, M, N, size, eps_atto):
    """acc[M, N] /= sqrt(sum[M] / size + eps)."""
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    pe.write("acc", x, pe.read("acc", x, M, N) * factor[:, None])


def rms_scale_share(pe, x, sums, M, n, parts, size, eps_atto, length, groups):
    """`rms_scale_sums` of the features of the PE's share, in each of the parts."""
    values = pe.read("acc", x, M, parts, n)
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    own = _owners(pe.row, n, length, groups) == pe.row
    pe.write("acc", x, np.where(own, values * factor[:, None, None], values))


def _rms_factor(squares: F32, size: np.int64, eps_atto: np.int64) -> F32:
    factor: F32 = np.float32(1.0) / np.sqrt(squares / np.float32(size) + np.float32(eps_atto * ATTO))
    return factor


def moments(pe, x, sums, M, K):
    """f32[M, 2] = sum over K of act[M, K] and of act[M, K] ** 2."""
    X = pe.read("act", x, M, K)
    total = np.zeros((M, 2), np.float32)
    for k in range(K):
        total += np.stack([X[:, k], X[:, k] * X[:, k]], axis=1)
    pe.write("f32", sums, total)


def gain_moments(pe, x, sums, gain, out, M, K):
    """acc[M, 2] = sum over K of act[M, K] and of its squares; act[M, K] *= gain[K]."""
    X = pe.read("act", x, M, K)
    totals = np.zeros((M, 2), np.float32)
    for k in range(K):
        totals = pe.round_to("acc", totals + np.stack([X[:, k], X[:, k] * X[:, k]], axis=-1))
    pe.write("acc", sums, totals)
    pe.write("act", out, pe.read("wgt", gain, K) * X)


def layer_scale_sums(pe, x, sums, of_gain, of_bias, M, N, size, eps_atto):
    """acc[M, N] = (acc[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N]."""
    mean, square = (pe.read("acc", sums, M, 2) / np.float32(size)).T
    factor = _rms_factor(np.maximum(square - mean * mean, np.float32(0)), np.int64(1), eps_atto)
    centred = pe.read("acc", x, M, N) - mean[:, None] * pe.read("f32", of_gain, N)
    pe.write("acc", x, centred * factor[:, None] + pe.read("f32", of_bias, N))


def layer_scale(pe, x, sums, gain, bias, out, M, K, size, eps_atto, offset):
    """act[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K]."""
    mean, squares = (pe.read("f32", sums, M, 2) / np.float32(size)).T
    variance = np.maximum(squares - mean * mean, np.float32(0.0))
    factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
    scaled = (pe.read("act", x, M, K) - mean[:, None]) * factor[:, None]
    pe.write("f32", sums, np.stack([mean, factor], axis=1))
    gained = (pe.read("wgt", gain, K) + np.float32(offset)) * scaled
    pe.write("act", out, gained + pe.read("wgt", bias, K))


def embedding_lookup(pe, ids, table, out, M, K, V):
    """acc[M, K] = wgt[id - column * V, K] where this column stores the id, else 0."""
    rows = np.zeros((M, K), np.float32)
    for m, token in enumerate(pe.read("f32", ids, M).astype(np.int64)):
        if pe.col * V <= token < (pe.col + 1) * V:
            rows[m] = pe.read("wgt", table + (token - pe.col * V) * K, K)
    pe.write("acc", out, rows)


def add_positions(pe, ctl, x, table, M, K, V, row):
    """acc[M, K] += wgt[position - column * V, K] where this column stores the position."""
    sums = pe.read("acc", x, M, K)
    for m in range(M):
        local = ctl[row, 0] + m - pe.col * V
        if 0 <= local < V:
            sums[m] += pe.read("wgt", table + local * K, K)
    pe.write("acc", x, sums)


def argmax_fold(pe, logits, pair, n, V, first, vocabulary, fold):
    """f32[2] = (largest logit, its vocabulary index); the first of equals."""
    best, index = pe.read("f32", pair, 2) if fold else (LOWEST, np.float32(-1.0))
    for e, logit in enumerate(pe.read("acc", logits, n)):
        candidate = pe.col * V + first + e
        if first + e < V and candidate < vocabulary and logit > best:
            best, index = logit, np.float32(candidate)
    pe.write("f32", pair, np.array([best, index], np.float32))


def pair_indices(pe, pairs, out, n):
    """f32[n] = the second members of f32[n, 2] pairs."""
    pe.write("f32", out, pe.read("f32", pairs, n, 2)[:, 1])
