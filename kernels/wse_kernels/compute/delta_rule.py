"""Kernels of the gated delta rule, the recurrence of linear attention.

The state of a value head is a matrix S [key features, value features]. A token with query q, key k
of length 1, value v, decay g <= 0 and write strength b changes it as follows (Yang et al., Gated
Delta Networks, arXiv 2412.06464, eq. 10):

    S = exp(g) S;  d = b (v - k S);  S = S + k d;  out = q S / sqrt(D)

M tokens are processed at once. Products with the state before the first of them, and products of
queries and keys with keys, are added up over the rows of a column. The corrections d then follow by
forward substitution, which every PE of the column computes for all value features of the column.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import exponential, logarithm_plus_one
from wse_kernels.codegen.elements import clear_rows, convert_elements, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import slice_of_index
from wse_kernels.operands.delta import DeltaInputs, DeltaShape, DeltaTensors, StateSlice
from wse_kernels.operands.group import Place

POSITION = 0  # word of ctl: position of the first token of the phase
ZERO, ONE, LENGTH_EPS = np.float32(0.0), np.float32(1.0), np.float32(1e-6)


def state_products(place: Place, f32, ctl, keys, state, sums, shape: DeltaShape, part: StateSlice):
    """Multiply the PE's slices of queries q and keys k by its state S and by each other.

    These are a PE's terms of the products that the gated delta rule needs. A later sum over the
    rows of the column completes them. ``sums`` contains, in this order:

    1. values and gates [2, M, H, V], which are not changed
    2. k S [M, H, V] and q S [M, H, V], which are 0 outside the PE's value features
    3. k[s] . k[t] [Hk, M, M] and k[s] . q[t] [Hk, M, M] for tokens s <= t, otherwise 0
    4. q[t] . q[t] [Hk, M]

    Items 3 and 4 are computed by the rows with the first slice of value features, and are 0 on
    other rows.

    Args:
        place: Position of the block (group of neighbouring PEs).
        f32: SRAM as float32 elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        keys: Address of the queries and keys [M, 2, Hk, K].
        state: Address of the state [H, K, N].
        sums: Address of the sums.
        shape, part: Sizes of the heads, and the PE's slice of them.
    """
    block, (M, Hk, G, D, V, tokens_before), (K, N, key_rows) = place.block, shape, part
    H, lanes = Hk * G, f32.shape[2]
    read = sums + 2 * M * H * V
    dots = read + 2 * M * H * V
    clear_rows(f32, block, read, 2 * M * H * V + Hk * M * (2 * M + 1))
    first, last = slice_of_index(place.row % key_rows, K, D)
    begin, end = slice_of_index(place.row // key_rows, N, V)
    if ctl[place.row, POSITION] + tokens_before > 0:
        for i in range(M * 2 * H):  # part 0: keys; part 1: queries
            m, query, h = i // (2 * H), i // H % 2, i % H
            x, out = keys + ((2 * m + 1 - query) * Hk + h // G) * K, read + ((query * M + m) * H + h) * V
            for f in range(last - first):
                for n in range(end - begin):
                    for lane in range(lanes):
                        product = f32[block, x + f, lane] * f32[block, state + (h * K + f) * N + n, lane]
                        f32[block, out + begin + n, lane] += product
    if place.row < key_rows:
        for i in range(Hk * M * M):
            h, s, t = i // (M * M), i // M % M, i % M
            if s <= t:
                query, key = keys + (2 * t * Hk + h) * K, keys + ((2 * t + 1) * Hk + h) * K
                other_key = keys + ((2 * s + 1) * Hk + h) * K
                _add_dot(f32, block, dots + i, other_key, key, last - first)
                _add_dot(f32, block, dots + Hk * M * M + i, other_key, query, last - first)
                if s == t:
                    _add_dot(f32, block, dots + 2 * Hk * M * M + h * M + t, query, query, last - first)


@helper_function
def _add_dot(f32, block, out, x, y, n):
    """Add the dot product of the vectors [n] at ``x`` and ``y`` to the number at ``out``."""
    for f in range(n):
        for lane in range(f32.shape[2]):
            f32[block, out, lane] += f32[block, x + f, lane] * f32[block, y + f, lane]


def delta_update(
    place: Place, act, wgt, acc, f32, ctl, at: DeltaTensors, shape: DeltaShape, part: StateSlice, inputs: DeltaInputs
):
    """Apply the gated delta rule to M tokens, and update the PE's slice of the state.

    For one token with query q, key k and value v, the rule decays the state S, computes the
    correction d = b (v - k S) with the write strength b, adds the product of k and d to S, and
    returns q S. All M tokens are processed together:

    1. Replace the squared lengths of keys and queries in ``sums`` by factors that normalise them.
    2. For each value head, compute write strengths and sums of decays.
    3. For each token, compute the correction, which replaces k S in ``sums``, and the result.
    4. Decay the state, and add the products of keys and corrections.
    5. Store the gates.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of inputs, weights, sums, state, results and gates.
        shape, part: Sizes of the heads, and the PE's slice of them.
        inputs: Layout of the inputs and gates, and the upper limit of the write strength.
    """
    block, (M, Hk, G, D, V, tokens_before) = place.block, shape
    H = Hk * G
    dots = at.sums + 4 * M * H * V
    for i in range(Hk * M):  # 1
        h, t = i // M, i % M
        _invert_length(f32, block, dots + (h * M + t) * M + t, ONE)
        _invert_length(f32, block, dots + 2 * Hk * M * M + i, np.float32(D))
    for h in range(H):
        _set_decays((wgt, acc, f32), block, at, M, H, h, inputs)  # 2
        for t in range(M):  # 3
            _correct(act, f32, block, at, shape, h, t)
        _update_state(f32, place, at, shape, part, h, ctl[place.row, POSITION] + tokens_before == 0)  # 4
    for m in range(M):  # 5
        convert_elements(acc, f32, block, at.gates + m * inputs.stride, at.sums + (M + m) * H * V, H * V)


@helper_function
def _invert_length(f32, block, x, divisor):
    """Replace a vector's squared length by 1 / (length * sqrt(divisor)), on all PEs of a block.

    A small constant is added to the squared length, so that the result is finite.
    """
    for lane in range(f32.shape[2]):
        f32[block, x, lane] = ONE / np.sqrt((f32[block, x, lane] + LENGTH_EPS) * divisor)


@helper_function
def _set_decays(views, block, at, M, H, h, inputs):
    """Store the cumulative decay and the write strength of every token for one value head.

    The results are written to scratch memory. The decay of a token is -exp(log rate) * log(1 +
    exp(input + bias)). The cumulative decay of a token is the sum of the decays up to and including
    this token. The write strength is the upper limit times the sigmoid of an input.

    Args:
        views: SRAM as weights, accumulators and float32 numbers.
        block: Index of the block (group of neighbouring PEs).
        at: Addresses of the operands of `delta_update`.
        M: Number of tokens.
        H, h: Number of value heads, and index of the head.
        inputs: Layout of the inputs, and the upper limit of the write strength.
    """
    wgt, acc, f32 = views
    lanes = f32.shape[2]
    sums = lane_values(lanes)
    for lane in range(lanes):
        sums[lane] = ZERO
    for m in range(M):
        strength = at.inputs + m * inputs.stride + h
        decay = strength + H
        for lane in range(lanes):
            x = widen(acc[block, decay, lane]) + widen(wgt[block, at.decay + H + h, lane])
            size = -x if x < ZERO else x
            softplus = (ZERO if x < ZERO else x) + logarithm_plus_one(exponential(-size))
            sums[lane] -= exponential(widen(wgt[block, at.decay + h, lane])) * softplus
            f32[block, at.scratch + m, lane] = sums[lane]
            inverse = ONE + exponential(-widen(acc[block, strength, lane]))
            f32[block, at.scratch + M + m, lane] = np.float32(inputs.max_strength) / inverse


@helper_function
def _correct(act, f32, block, at, shape, h, t):
    """Compute the correction and the result of token ``t`` for value head ``h``.

    The correction is the write strength times (value - key times state), where the state is decayed
    and includes the corrections of all earlier tokens. The result is the query times the state
    after the token's own correction.

    Args:
        act, f32: SRAM as arrays [block, address, PE of block] of different element types.
        block: Index of the block (group of neighbouring PEs).
        at: Addresses of the operands of `delta_update`.
        shape: Sizes of the heads.
        h, t: Indices of the value head and of the token.
    """
    M, Hk, G, _, V, _ = shape
    H, key_head, lanes = Hk * G, h // G, f32.shape[2]
    step, factors = H * V, lane_values(lanes)
    value, read = at.sums + (t * H + h) * V, at.sums + ((2 * M + t) * H + h) * V
    answer = read + M * step
    key_dots = at.sums + 4 * M * step + key_head * M * M
    query_dots, query_factor = key_dots + Hk * M * M, at.sums + 4 * M * step + 2 * Hk * M * M + key_head * M + t
    for source, out, own, dots in (
        (t, read, key_dots + t * M + t, key_dots),
        (t + 1, answer, query_factor, query_dots),
    ):
        for lane in range(lanes):
            factors[lane] = f32[block, own, lane] * exponential(f32[block, at.scratch + t, lane])
        for v in range(V):
            for lane in range(lanes):
                f32[block, out + v, lane] *= factors[lane]
        for s in range(source):  # corrections of the tokens before, and for the result that of the token itself
            correction = read - (t - s) * step
            for lane in range(lanes):
                decay = exponential(f32[block, at.scratch + t, lane] - f32[block, at.scratch + s, lane])
                lengths = f32[block, own, lane] * f32[block, key_dots + s * M + s, lane]
                factors[lane] = decay * lengths * f32[block, dots + s * M + t, lane]
            for v in range(V):
                for lane in range(lanes):
                    f32[block, out + v, lane] += factors[lane] * f32[block, correction + v, lane]
        if source == t:
            for v in range(V):
                for lane in range(lanes):
                    difference = f32[block, value + v, lane] - f32[block, read + v, lane]
                    f32[block, read + v, lane] = f32[block, at.scratch + M + t, lane] * difference
    for v in range(V):
        for lane in range(lanes):
            result = at.out + (t * H + h) * V + v
            act[block, result, lane] = narrow(f32[block, answer + v, lane], act[block, result, lane])


@helper_function
def _update_state(f32, place, at, shape, part, h, is_first):
    """Decay the PE's slice of the state of value head ``h``, and add keys times corrections.

    Args:
        f32: SRAM as float32 elements [block, address, PE of block].
        place: Position of the block (group of neighbouring PEs).
        at: Addresses of the operands of `delta_update`.
        shape, part: Sizes of the heads, and the PE's slice of them.
        h: Index of the value head.
        is_first: Whether the state counts as zeros.
    """
    (M, Hk, G, _, V, _), (K, N, key_rows), block = shape, part, place.block
    H, lanes = Hk * G, f32.shape[2]
    factors = lane_values(lanes)
    first, last = slice_of_index(place.row % key_rows, K, shape.D)
    begin, end = slice_of_index(place.row // key_rows, N, V)
    lengths, total = at.sums + 4 * M * H * V + h // G * M * M, at.scratch + M - 1
    for lane in range(lanes):
        factors[lane] = ZERO if is_first else exponential(f32[block, total, lane])
    for i in range((last - first) * N):
        for lane in range(lanes if i % N < end - begin else 0):
            element = at.state + h * K * N + i
            f32[block, element, lane] = ZERO if is_first else f32[block, element, lane] * factors[lane]
    for t in range(M):
        correction = at.sums + ((2 * M + t) * H + h) * V + begin
        for lane in range(lanes):
            decay = exponential(f32[block, total, lane] - f32[block, at.scratch + t, lane])
            factors[lane] = decay * f32[block, lengths + t * M + t, lane]
        for i in range((last - first) * N):
            key, n = at.keys + ((2 * t + 1) * Hk + h // G) * K + i // N, i % N
            for lane in range(lanes if n < end - begin else 0):
                change = factors[lane] * f32[block, key, lane] * f32[block, correction + n, lane]
                f32[block, at.state + h * K * N + i, lane] += change
