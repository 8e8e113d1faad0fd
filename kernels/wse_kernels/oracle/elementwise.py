"""Oracles of local operations on vectors: sums, activations, norms, and both ends of a model."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.oracle.memory import F32

LOWEST = np.float32(-3.0e38)
PICO, ATTO = 1e-12, 1e-18
GELU_TANH, GELU, CLAMPED_SILU = 1, 2, 3


def residual_add(pe, x, addend, n):
    """Add a vector of sums to the residual stream: x[n] += addend[n].

    The addend is first rounded from the accumulator type to activations. Reference for the kernel
    of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x, addend, n: Addresses of activations and of accumulators; number of elements.
    """
    pe.write("act", x, pe.read("act", x, n) + pe.round_to("act", pe.read("acc", addend, n)))


def add(pe, x, addend, n):
    """Add one vector of activations to another in place: x[n] += addend[n].

    Reference for the kernel of the same name, on a single PE. ``x`` and ``addend`` are addresses.
    """
    pe.write("act", x, pe.read("act", x, n) + pe.read("act", addend, n))


def add_bias(pe, x, bias, M, n):
    """Add a bias to each token's sums in place: x[M, n] += bias[n].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, bias: Addresses of accumulators [M, n] and of weights [n].
        M, n: Tokens; features.
    """
    pe.write("acc", x, pe.read("acc", x, M, n) + pe.read("wgt", bias, n))


def scale(pe, x, n, factor_pico):
    """Multiply accumulators by a constant in place: x[n] *= factor_pico * 1e-12.

    Reference for the kernel of the same name, on a single PE. ``x`` is an address.
    """
    pe.write("acc", x, pe.read("acc", x, n) * np.float32(factor_pico * PICO))


def store(pe, out, x, n):
    """Round a vector of accumulators to activations: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.write("act", out, pe.read("acc", x, n))


def store_part(pe, out, x, M, n, stride):
    """Round the first n elements of each of M rows from accumulators to activations.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        out, x: Addresses of activations [M, n], and of accumulators.
        M, n, stride: Rows; elements per row; elements from one row of ``x`` to the next.
    """
    for m in range(M):
        pe.write("act", out + m * n, pe.read("acc", x + m * stride, n))


def clear(pe, out, n):
    """Set a vector of activations to zero: out[n] = 0.

    Reference for the kernel of the same name, on a single PE. ``out`` is an address.
    """
    pe.write("act", out, np.zeros(n, np.float32))


def copy(pe, out, x, n):
    """Copy a vector of activations: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.move("act", x, out, n)


def copy_statistics(pe, out, x, n):
    """Copy a float32 vector: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.move("f32", x, out, n)


def add_statistics(pe, x, addend, n):
    """Add one float32 vector to another in place: x[n] += addend[n].

    Reference for the kernel of the same name, on a single PE. ``x`` and ``addend`` are addresses.
    """
    pe.write("f32", x, pe.read("f32", x, n) + pe.read("f32", addend, n))


def store_statistics(pe, out, x, n):
    """Round a float32 vector to activations: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.write("act", out, pe.read("f32", x, n))


def load_statistics(pe, out, x, n):
    """Widen a vector of activations to float32: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.write("f32", out, pe.read("act", x, n))


def copy_weights(pe, out, x, n):
    """Copy a vector of weights: out[n] = x[n].

    Reference for the kernel of the same name, on a single PE. ``out`` and ``x`` are addresses.
    """
    pe.move("wgt", x, out, n)


def soft_cap(pe, x, n, scale_pico, cap_pico):
    """Limit accumulators smoothly in place: x[n] = cap * tanh(scale * x[n] / cap).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, n: Address of the vector; number of elements.
        scale_pico, cap_pico: Scale and cap in units of 1e-12.
    """
    scale, cap = np.float32(scale_pico * PICO), np.float32(cap_pico * PICO)
    pe.write("acc", x, np.tanh(pe.read("acc", x, n) * scale / cap) * cap)


def activate(pe, x, out, M, n, function, gated, limit_pico):
    """Apply an activation function, and multiply by the up projection if the layer is gated.

    out[M, n] = f(gate[M, n]), times up[M, n] if ``gated``. Both are first rounded to activations.
    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of gate and up as [M, 2, n], or of gate alone [M, n], and of the results.
        M, n: Tokens; features.
        function: Index of f in `wse_kernels.activation.ACTIVATIONS`.
        gated, limit_pico: Whether the layer is gated; limit of clamped_silu in units of 1e-12.
    """
    rounded = pe.round_to("act", pe.read("acc", x, M, 1 + gated, n))
    limit = np.float32(limit_pico / 10**12)
    hidden, up = _activation(rounded[:, 0], function, limit), rounded[:, -1]
    if function == CLAMPED_SILU:
        up = np.clip(up, -limit, limit) + np.float32(1.0)
    pe.write("act", out, hidden * up if gated else hidden)


def activate_share(pe, x, out, M, n, function, gated, limit_pico, length, groups, shared_tokens, padding):
    """Apply `activate` to the features that this PE computes, and set all other features to 0.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out, M, n, function, gated, limit_pico: As in `activate`.
        length, groups: PEs of the column; groups that divide the features among them.
        shared_tokens: Number of tokens whose features are divided as one vector.
        padding: Number of zeros after the results.
    """
    activate(pe, x, out, M, n, function, gated, limit_pico)
    is_own = _owners(pe.row, shared_tokens * n, length, groups) == pe.row
    values = pe.read("act", out, M // shared_tokens, shared_tokens * n)
    pe.write("act", out, np.where(is_own, values, np.float32(0.0)))
    pe.write("act", out + M * n, np.zeros(padding, np.float32))


def _owners(row, n, length, groups):
    """Return the row that computes each of n features, within the group of neighbours of a row.

    Args:
        row: Row of the PE.
        n: Number of features.
        length, groups: Rows of the column; groups that they form.
    """
    starts = np.arange(groups + 1) * length // groups
    group = int(np.searchsorted(starts, row, side="right")) - 1
    start, end = starts[group], starts[group + 1]
    return np.repeat(np.arange(start, end), np.diff(np.arange(end - start + 1) * n // (end - start)))


def _activation(x: F32, function: np.int64, limit: np.float32) -> F32:
    """Apply an activation function to float32 values.

    Args:
        x: Values, rounded to activations.
        function: Index in `wse_kernels.activation.ACTIVATIONS`.
        limit: Limit of clamped_silu.
    """
    if function == GELU_TANH:
        argument = math.sqrt(2 / math.pi) * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
        return np.float32(0.5) * x * (1.0 + np.tanh(argument)).astype(np.float32)
    if function == GELU:
        erf = [math.erf(value * math.sqrt(0.5)) for value in x.reshape(-1).tolist()]
        return np.float32(0.5) * x * (1.0 + np.array(erf).reshape(x.shape)).astype(np.float32)
    clamped = function == CLAMPED_SILU
    bounded, steepness = (np.minimum(x, limit), 1.702) if clamped else (x, 1.0)
    with np.errstate(over="ignore"):
        return np.divide(bounded, np.float32(1.0) + np.exp(-np.float32(steepness) * bounded), dtype=np.float32)


def sum_squares(pe, x, sums, M, K):
    """Sum the squares of each token's features: sums[M] = sum over K of x[M, K] ** 2.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of activations [M, K], and of float32 sums [M].
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total += X[:, k] * X[:, k]
    pe.write("f32", sums, total)


def rms_scale(pe, x, sums, gain, out, M, K, size, eps_atto, offset):
    """Apply RMS normalisation with a gain, given the sums of squares over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] / sqrt(sums[M] / size + eps)). The factors replace the
    sums. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums, gain, out: Addresses of activations, float32 sums, weights and activations.
        M, K, size: Tokens; features per PE; features of the whole vector.
        eps_atto, offset: Epsilon in units of 1e-18; integer added to the gain.
    """
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    scaled = pe.read("act", x, M, K) * factor[:, None]
    scaled = scaled if offset else pe.round_to("act", scaled)
    pe.write("f32", sums, factor)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * scaled)


def l2_scale(pe, x, sums, M, K, size, eps_atto):
    """Normalise activations in place: x[M, K] /= sqrt(sums[M] / size + eps).

    The factors replace the sums. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of activations [M, K], and of float32 sums of squares [M].
        M, K, size: Tokens; features per PE; features of the whole vector.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("f32", sums, M), size, eps_atto)
    pe.write("act", x, pe.read("act", x, M, K) * factor[:, None])
    pe.write("f32", sums, factor)


def gain_sum_squares(pe, x, sums, gain, out, M, K, offset):
    """Sum the squares of the features, and multiply the features by the gain.

    sums[M] = sum over K of x[M, K] ** 2, and out[M, K] = (gain[K] + offset) * x[M, K]. Reference
    for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums, gain, out: Addresses of activations, accumulators, weights and activations.
        M, K, offset: Tokens; features per PE; integer added to the gain.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros(M, np.float32)
    for k in range(K):
        total = pe.round_to("acc", total + X[:, k] * X[:, k])
    pe.write("acc", sums, total)
    pe.write("act", out, (pe.read("wgt", gain, K) + np.float32(offset)) * X)


def rms_factors(pe, sums, M, size, eps_atto):
    """Replace sums of squares by RMS factors: sums[M] = 1 / sqrt(sums[M] / size + eps).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        sums, M: Address of the float32 sums; their number.
        size, eps_atto: Features that each sum is over; epsilon in units of 1e-18.
    """
    pe.write("f32", sums, _rms_factor(pe.read("f32", sums, M), size, eps_atto))


def scale_heads(pe, x, factors, M, N):
    """Multiply each row of accumulators by its factor in place: x[M, N] *= factors[M].

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, factors: Addresses of accumulators [M, N], and of float32 factors [M].
        M, N: Rows, one per token or head; elements per row.
    """
    pe.write("acc", x, pe.read("acc", x, M, N) * pe.read("f32", factors, M)[:, None])


def rms_scale_sums(pe, x, sums, M, N, size, eps_atto):
    """Apply RMS normalisation without a gain: x[M, N] /= sqrt(sums[M] / size + eps).

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of accumulators [M, N], and of sums of squares [M], also accumulators.
        M, N, size: Tokens; features per PE; features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    pe.write("acc", x, pe.read("acc", x, M, N) * factor[:, None])


def rms_scale_share(pe, x, sums, M, n, parts, size, eps_atto, length, groups):
    """Apply `rms_scale_sums` to the features that this PE computes for its group.

    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of accumulators [M, parts, n], and of sums of squares [M].
        M, n, parts: Tokens; features per part; parts, each of which is divided in the same way.
        size, eps_atto: Features that each sum is over; epsilon in units of 1e-18.
        length, groups: PEs of the column; groups that divide the features among them.
    """
    values = pe.read("acc", x, M, parts, n)
    factor = _rms_factor(pe.read("acc", sums, M), size, eps_atto)
    is_own = _owners(pe.row, n, length, groups) == pe.row
    pe.write("acc", x, np.where(is_own, values * factor[:, None, None], values))


def _rms_factor(squares: F32, size: np.int64, eps_atto: np.int64) -> F32:
    """Return 1 / sqrt(squares / size + eps) in float32, where eps is eps_atto * 1e-18."""
    factor: F32 = np.float32(1.0) / np.sqrt(squares / np.float32(size) + np.float32(eps_atto * ATTO))
    return factor


def moments(pe, x, sums, M, K):
    """Sum each token's features and their squares in float32.

    sums[M, 0] = sum over K of x[M, K], and sums[M, 1] = sum over K of x[M, K] ** 2. Reference for
    the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of activations [M, K], and of float32 sums [M, 2].
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    total = np.zeros((M, 2), np.float32)
    for k in range(K):
        total += np.stack([X[:, k], X[:, k] * X[:, k]], axis=1)
    pe.write("f32", sums, total)


def gain_moments(pe, x, sums, gain, out, M, K):
    """Sum the features and their squares, and multiply the features by the gain.

    sums[M, 2] are sum and sum of squares, and out[M, K] = gain[K] * x[M, K]. Reference for the
    kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums, gain, out: Addresses of activations, accumulators, weights and activations.
        M, K: Tokens; features per PE.
    """
    X = pe.read("act", x, M, K)
    totals = np.zeros((M, 2), np.float32)
    for k in range(K):
        totals = pe.round_to("acc", totals + np.stack([X[:, k], X[:, k] * X[:, k]], axis=-1))
    pe.write("acc", sums, totals)
    pe.write("act", out, pe.read("wgt", gain, K) * X)


def layer_scale_sums(pe, x, sums, of_gain, of_bias, M, N, size, eps_atto):
    """Complete a layer norm after a product with weights: subtract the mean and scale the sums.

    x[M, N] = (x[M, N] - mean[M] * of_gain[N]) / sqrt(variance[M] + eps) + of_bias[N]. Reference for
    the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, sums: Addresses of accumulators [M, N], and of sums and sums of squares [M, 2].
        of_gain, of_bias: Addresses of float32 products of gain and bias with the weights.
        M, N, size: Tokens; outputs; features that each sum is over.
        eps_atto: Epsilon in units of 1e-18.
    """
    mean, square = (pe.read("acc", sums, M, 2) / np.float32(size)).T
    factor = _rms_factor(np.maximum(square - mean * mean, np.float32(0)), np.int64(1), eps_atto)
    centred = pe.read("acc", x, M, N) - mean[:, None] * pe.read("f32", of_gain, N)
    pe.write("acc", x, centred * factor[:, None] + pe.read("f32", of_bias, N))


def layer_scale(pe, x, sums, gain, bias, out, M, K, size, eps_atto, offset):
    """Apply layer normalisation with gain and bias, given the moments over all PEs.

    out[M, K] = (gain[K] + offset) * (x[M, K] - mean[M]) / sqrt(variance[M] + eps) + bias[K].
    Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        x, out: Addresses of activations [M, K].
        sums: Address of float32 sums [M, 2], replaced by mean and factor.
        gain, bias: Addresses of weights [K].
        M, K, size: Tokens; features per PE; features of the whole vector.
        eps_atto, offset: Epsilon in units of 1e-18; integer added to the gain.
    """
    mean, squares = (pe.read("f32", sums, M, 2) / np.float32(size)).T
    variance = np.maximum(squares - mean * mean, np.float32(0.0))
    factor = np.float32(1.0) / np.sqrt(variance + np.float32(eps_atto * ATTO))
    scaled = (pe.read("act", x, M, K) - mean[:, None]) * factor[:, None]
    pe.write("f32", sums, np.stack([mean, factor], axis=1))
    gain_product = (pe.read("wgt", gain, K) + np.float32(offset)) * scaled
    pe.write("act", out, gain_product + pe.read("wgt", bias, K))


def embedding_lookup(pe, ids, table, out, M, K, V):
    """Look up the embeddings of tokens in the part of the table that this column of PEs stores.

    out[M, K] = table[ids[M] - column * V, K] if the column stores that id, else 0. Reference for
    the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        ids, table, out: Addresses of float32 ids [M], weights [V, K] and accumulators [M, K].
        M, K, V: Tokens; features per PE; ids per column.
    """
    rows = np.zeros((M, K), np.float32)
    for m, token in enumerate(pe.read("f32", ids, M).astype(np.int64)):
        if pe.col * V <= token < (pe.col + 1) * V:
            rows[m] = pe.read("wgt", table + (token - pe.col * V) * K, K)
    pe.write("acc", out, rows)


def add_positions(pe, ctl, x, table, M, K, V, row):
    """Add learned position embeddings, from the part of the table that this column of PEs stores.

    x[M, K] += table[position - column * V, K] if the column stores the position. Reference for the
    kernel of the same name, on a single PE.

    Args:
        pe, ctl: PE whose SRAM is read and written; counters of each row.
        x, table: Addresses of accumulators [M, K] and of weights [V, K].
        M, K, V: Tokens; features per PE; positions per column.
        row: Row whose counters give the position of the first token.
    """
    sums = pe.read("acc", x, M, K)
    for m in range(M):
        local = ctl[row, 0] + m - pe.col * V
        if 0 <= local < V:
            sums[m] += pe.read("wgt", table + local * K, K)
    pe.write("acc", x, sums)


def argmax_fold(pe, logits, pair, n, V, first, vocabulary, fold):
    """Find the largest logit and its vocabulary index: pair[2] = (logit, index).

    The lower index wins a tie. Reference for the kernel of the same name, on a single PE.

    Args:
        pe: PE whose SRAM is read and written.
        logits, pair: Addresses of the logits [n] (accumulators), and of the float32 pair.
        n, V, first: Logits; ids per column; index of the first logit among these ids.
        vocabulary: Size of the vocabulary. Ids beyond it are padding.
        fold: Whether to compare with the pair that is already stored.
    """
    best, index = pe.read("f32", pair, 2) if fold else (LOWEST, np.float32(-1.0))
    for e, logit in enumerate(pe.read("acc", logits, n)):
        candidate = pe.col * V + first + e
        if first + e < V and candidate < vocabulary and logit > best:
            best, index = logit, np.float32(candidate)
    pe.write("f32", pair, np.array([best, index], np.float32))


def pair_indices(pe, pairs, out, n):
    """Extract the indices from float32 (value, index) pairs: out[n] = pairs[n, 1].

    Reference for the kernel of the same name, on a single PE. ``pairs`` and ``out`` are addresses.
    """
    pe.write("f32", out, pe.read("f32", pairs, n, 2)[:, 1])
