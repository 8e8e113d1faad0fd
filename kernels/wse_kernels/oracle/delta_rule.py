"""Oracles of linear attention: a short convolution, and the gated delta rule."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.delta import (
    ConvolutionShape,
    ConvolutionTensors,
    DeltaInputs,
    DeltaShape,
    DeltaTensors,
    KeyTensors,
    StateSlice,
)
from wse_kernels.oracle.memory import F32, Pe

EPS = np.float32(1e-6)


def place_keys(pe, at: KeyTensors, shape: DeltaShape, part: StateSlice, F, stride):
    """Copy the features of queries and keys that this column computes and this row stores.

    A mesh column computes ``F`` features of its key heads, and a mesh row stores ``part.K``
    features. All other elements of ``out`` become zero. This NumPy reference for one PE is used to
    test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the column's features ``x``, of the index of the first one, and of the
            row's features ``out``.
        shape, part: Sizes of the heads, and the slice of key features that each row stores.
        F: Number of features per key head that the column computes.
        stride: Token stride of ``x``, in elements.
    """
    M, heads, first = shape.M, 2 * shape.Hk, int(pe.read("f32", at.first, 1)[0]) - 1
    own = range(first, first + F) if first >= 0 else range(0)
    out = np.zeros((M, heads, part.K), np.float32)
    for i, feature in enumerate(_own(pe, shape, part, 0)[0]):
        if feature in own:
            for m in range(M):
                out[m, :, i] = pe.read("acc", at.x + m * stride, heads, F)[:, feature - first]
    pe.write("acc", at.out, out)


def convolve_slices(
    pe, ctl, at: ConvolutionTensors, shape: DeltaShape, part: StateSlice, convolution: ConvolutionShape
):
    """Apply a causal convolution and SiLU to the queries, keys and values that this PE owns.

    A PE owns a slice of its column's queries and keys, and some value channels with their gates.
    The gates are not convolved: only SiLU is applied. The last inputs are stored for the next
    tokens. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of the inputs, weights, stored inputs and results.
        shape, part: Sizes of the heads, and the PE's slice of them.
        convolution: Number of inputs per output, value channels on the PE, and their layout.
    """
    M, Hk, G, _, V, tokens_before = shape
    taps, C, stride = convolution
    values, count = Hk * G * V, 2 * Hk * part.K
    own_keys, _, own_channels = _own(pe, shape, part, C)
    new_keys = pe.round_to("act", pe.read("acc", at.new_keys, M, count))
    new_values = pe.round_to("act", np.stack([pe.read("acc", at.new_values + m * stride, values) for m in range(M)]))
    inputs = pe.read("act", at.inputs, taps - 1, count + C)
    past = np.zeros_like(inputs) if ctl[pe.row, 0] + tokens_before == 0 else inputs.copy()
    key_taps, value_taps = pe.read("wgt", at.key_taps, taps, count), pe.read("wgt", at.value_taps, taps, values)
    keys, sums = pe.read("f32", at.keys, M, count), np.zeros((2, M, values), np.float32)
    gates = np.stack([pe.read("acc", at.new_values + m * stride + values, values) for m in range(M)])
    with np.errstate(over="ignore"):
        sums[1, :, own_channels] = (gates / (np.float32(1.0) + np.exp(-gates)))[:, own_channels].T
    for e in range(count):
        if e % part.K < len(own_keys):
            history = np.append(past[:, e], new_keys[:, e])
            keys[:, e], inputs[:, e] = _convolved(history, key_taps[:, e]), history[M:]
    for i, channel in enumerate(own_channels):
        history = np.append(past[:, count + i], new_values[:, channel])
        sums[0, :, channel], inputs[:, count + i] = _convolved(history, value_taps[:, channel]), history[M:]
    pe.write("act", at.inputs, inputs)
    pe.write("f32", at.keys, keys)
    pe.write("f32", at.sums, sums)


def _convolved(history: F32, weights: F32) -> F32:
    """Return silu(sum over j of weights[j] * history[t + j]) for each t with enough history."""
    total = np.zeros(len(history) - len(weights) + 1, np.float32)
    for j, weight in enumerate(weights):
        total += weight * history[j : j + len(total)]
    return np.asarray(total / (np.float32(1.0) + np.exp(-total)), np.float32)


def _own(pe: Pe, shape: DeltaShape, part: StateSlice, channels: int) -> tuple[range, range, range]:
    """Return the key features, value features and value channels that belong to a PE.

    Args:
        pe: The PE.
        shape, part: Sizes of the heads, and the partitioning of the state across rows.
        channels: Maximum number of value channels of a PE.
    """
    indices = pe.row % part.key_rows, pe.row // part.key_rows, pe.row
    extents = shape.D, shape.V, shape.Hk * shape.G * shape.V
    keys, values, own_channels = (
        range(min(index * size, extent), min((index + 1) * size, extent))
        for index, size, extent in zip(indices, (part.K, part.N, channels), extents, strict=True)
    )
    return keys, values, own_channels


def state_products(pe, ctl, keys, state, sums, shape: DeltaShape, part: StateSlice):
    """Multiply the PE's slices of queries and keys by its state and by each other.

    The gated delta rule needs the sums of these products over the rows of a column. This NumPy
    reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        keys: Address of the queries and keys [M, 2, Hk, K].
        state: Address of the state [H, K, N].
        sums: Address of the products, in the order that the kernel's docstring lists.
        shape, part: Sizes of the heads, and the PE's slice of them.
    """
    M, Hk, G, _, V, tokens_before = shape
    H, (K, N, key_rows) = Hk * G, part
    own_keys, own_values, _ = _own(pe, shape, part, 0)
    q, k = pe.read("f32", keys, M, 2, Hk, K)[..., : len(own_keys)].transpose(1, 0, 2, 3)
    S = pe.read("f32", state, H, K, N)[:, : len(own_keys), : len(own_values)]
    read, dots = np.zeros((2, M, H, V), np.float32), np.zeros((2, Hk, M, M), np.float32)
    lengths = np.zeros((Hk, M), np.float32)
    for f in range(len(own_keys)):
        if ctl[pe.row, 0] + tokens_before > 0:
            for part_read, x in zip(read, (k, q), strict=True):
                part_read[..., own_values] += np.repeat(x[..., f], G, axis=1)[..., None] * S[:, f]
        if pe.row < key_rows:
            for part_dots, x in zip(dots, (k, q), strict=True):
                part_dots += np.triu(k[..., f].T[:, :, None] * x[..., f].T[:, None, :])
            lengths += q[..., f].T ** 2
    pe.write("f32", sums + 2 * M * H * V, np.concatenate([read.reshape(-1), dots.reshape(-1), lengths.reshape(-1)]))


def delta_update(pe, ctl, at: DeltaTensors, shape: DeltaShape, part: StateSlice, inputs: DeltaInputs):
    """Apply the gated delta rule to M tokens, and update the PE's slice of the state.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of inputs, weights, sums, state, results and gates.
        shape, part: Sizes of the heads, and the PE's slice of them.
        inputs: Layout of the inputs and gates, and the upper limit of the write strength.
    """
    M, Hk, G, D, V, tokens_before = shape
    H, (K, N, _) = Hk * G, part
    own_keys, own_values, _ = _own(pe, shape, part, 0)
    stride, max_strength = inputs
    x = np.stack([pe.read("acc", at.inputs + m * stride, 2, H) for m in range(M)], axis=1)
    strength = np.float32(max_strength) / (np.float32(1.0) + np.exp(-x[0]))
    log_rate = pe.read("wgt", at.decay, 2, H)
    total_decay = -np.cumsum(np.exp(log_rate[0]) * np.logaddexp(np.float32(0.0), x[1] + log_rate[1]), axis=0)
    sizes = M * H * V, M * H * V, 2 * M * H * V, Hk * M * M, Hk * M * M, Hk * M
    sums = pe.read("f32", at.sums, sum(sizes))
    value, gates, read, key_dots, query_dots, lengths = np.split(sums, np.cumsum(sizes)[:-1])
    value, read = value.reshape(M, H, V), read.reshape(2, M, H, V)
    key_dots, query_dots = key_dots.reshape(Hk, M, M), query_dots.reshape(Hk, M, M)
    key_factor = 1 / np.sqrt(np.diagonal(key_dots, axis1=1, axis2=2) + EPS)
    query_factor = 1 / np.sqrt((lengths.reshape(Hk, M) + EPS) * np.float32(D))
    state = pe.read("f32", at.state, H, K, N)
    keys, out = pe.read("f32", at.keys, M, 2, Hk, K)[:, 1], np.zeros((M, H, V), np.float32)
    with np.errstate(over="ignore"):
        decays = np.exp(total_decay[None] - total_decay[:, None])  # [earlier, later, head]
    own = np.ix_(range(len(own_keys)), range(len(own_values)))
    for h in range(H):
        n = h // G
        corrections = np.zeros((M, V), np.float32)
        for t in range(M):
            weights = decays[: t + 1, t, h] * key_factor[n, : t + 1]
            carry = np.exp(total_decay[t, h]) * read[:, t, h]
            found = key_factor[n, t] * (carry[0] + (weights * key_dots[n, : t + 1, t])[:t] @ corrections[:t])
            corrections[t] = strength[t, h] * (value[t, h] - found)
            out[t, h] = query_factor[n, t] * (carry[1] + (weights * query_dots[n, : t + 1, t]) @ corrections[: t + 1])
        old = 0 if ctl[pe.row, 0] + tokens_before == 0 else np.exp(total_decay[-1, h]) * state[h][own]
        weighted_keys = (decays[:, -1, h] * key_factor[n])[:, None] * keys[:, n, : len(own_keys)]
        state[h][own] = old + weighted_keys.T @ corrections[:, own_values]
    pe.write("f32", at.state, state)
    pe.write("act", at.out, out)
    for m in range(M):
        pe.write("acc", at.gates + m * stride, gates.reshape(M, H * V)[m])
