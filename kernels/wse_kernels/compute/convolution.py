"""Kernels that prepare queries, keys and values of linear attention for the gated delta rule.

Features of queries and keys are placed on their rows. A causal convolution then combines the last
few tokens, separately for every channel (Yang et al., Gated Delta Networks, arXiv 2412.06464).
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elementary import exponential
from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import slice_of_index
from wse_kernels.operands.delta import ConvolutionShape, ConvolutionTensors, DeltaShape, KeyTensors, StateSlice
from wse_kernels.operands.group import Place

POSITION = 0  # word of ctl: position of the first token of the phase
ZERO, ONE = np.float32(0.0), np.float32(1.0)


def place_keys(place: Place, acc, f32, at: KeyTensors, shape: DeltaShape, part: StateSlice, F, stride):
    """Copy the features of queries and keys that this column computes and this row stores.

    A mesh column computes ``F`` features of its key heads, and a mesh row stores ``part.K``
    features. Features of the row that this column does not compute become zero in ``out``. A later
    sum over the columns of a head then gives each row all its features.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        at: Addresses of the column's features ``x``, of the index of the first one, and of the
            row's features ``out``.
        shape, part: Sizes of the heads, and the slice of key features that each row stores.
        F: Number of features per key head that the column computes.
        stride: Token stride of ``x``, in elements.
    """
    block, heads, K = place.block, 2 * shape.Hk, part.K
    clear_rows(acc, block, at.out, shape.M * heads * K)
    begin, end = slice_of_index(place.row % part.key_rows, K, shape.D)
    for i in range((end - begin) * F):
        feature, j = begin + i // F, i % F
        for lane in range(acc.shape[2]):
            first = np.int64(f32[block, at.first, lane]) - 1
            if first >= 0 and first + j == feature:
                for h in range(shape.M * heads):
                    source = acc[block, at.x + h // heads * stride + h % heads * F + j, lane]
                    acc[block, at.out + h * K + feature - begin, lane] = source


def convolve_slices(
    place: Place,
    act,
    wgt,
    acc,
    f32,
    ctl,
    at: ConvolutionTensors,
    shape: DeltaShape,
    part: StateSlice,
    convolution: ConvolutionShape,
):
    """Apply a causal convolution and SiLU to the queries, keys and values that this PE owns.

    For every channel, y[t] = silu(sum over j of w[j] * x[t - taps + 1 + j]), where taps is the
    number of inputs per output. The last taps - 1 inputs are stored for the next tokens. The PE
    owns

    - a slice of its column's queries and keys
    - up to C value channels, starting at channel C * row, and the gates of these channels, which
      are not convolved (only SiLU is applied)

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, wgt, acc, f32: SRAM as arrays [block, address, PE of block] of different element types.
        ctl: Token and cache counters of each mesh row.
        at: Addresses of the inputs, weights, stored inputs and results.
        shape, part: Sizes of the heads, and the PE's slice of them.
        convolution: Number of inputs per output, value channels on the PE, and their layout.
    """
    block, (M, Hk, G, D, V, tokens_before), (taps, C, stride) = place.block, shape, convolution
    values, count, views = Hk * G * V, 2 * Hk * part.K, (act, wgt, acc, f32)
    storage = (taps - 1, count + C, ctl[place.row, POSITION] + tokens_before == 0)
    first, last = slice_of_index(place.row % part.key_rows, part.K, D)
    for e in range(count):
        if first + e % part.K < last:
            tokens = at.new_keys + e, M, count
            _convolve(views, block, tokens, at.key_taps + e, count, at.inputs + e, storage, at.keys + e)
    clear_rows(f32, block, at.sums, 2 * M * values)
    first, last = slice_of_index(place.row, C, values)
    for e in range(first, last):
        tokens, inputs = (at.new_values + e, M, stride), at.inputs + count + e - first
        _convolve(views, block, tokens, at.value_taps + e, values, inputs, storage, at.sums + e)
        for m in range(M):
            for lane in range(acc.shape[2]):
                gate = widen(acc[block, at.new_values + m * stride + values + e, lane])
                f32[block, at.sums + (M + m) * values + e, lane] = gate / (ONE + exponential(-gate))


@helper_function
def _convolve(views, block, tokens, taps, width, inputs, storage, out):
    """Convolve one channel on all PEs of a block, apply SiLU, and store the last inputs.

    The next call needs these inputs. A tap is one weight of the convolution.

    Args:
        views: SRAM as activations, weights, accumulators and float32 numbers.
        block: Index of the block (group of neighbouring PEs).
        tokens: Address of the first token's input, number of tokens, and stride.
        taps: Address of the first weight.
        width: Stride of the weights and of the results, in elements.
        inputs: Address of the oldest stored input.
        storage: Number of stored inputs, their stride in elements, and whether they count as zeros.
        out: Address of the first result.
    """
    act, wgt, acc, f32 = views
    (x, M, stride), (past, step, is_first) = tokens, storage
    lanes = act.shape[2]
    values = lane_values(lanes)
    for m in range(M):
        for lane in range(lanes):
            values[lane] = ZERO
        for j in range(past + 1):
            token = m + j - past
            if token >= 0:
                for lane in range(lanes):
                    value = widen(narrow(widen(acc[block, x + token * stride, lane]), act[block, 0, lane]))
                    values[lane] += widen(wgt[block, taps + j * width, lane]) * value
            elif not is_first:
                for lane in range(lanes):
                    value = widen(act[block, inputs + (past + token) * step, lane])
                    values[lane] += widen(wgt[block, taps + j * width, lane]) * value
        for lane in range(lanes):
            f32[block, out + m * width, lane] = values[lane] / (ONE + exponential(-values[lane]))
    for j in range(past):
        token = M + j - past
        for lane in range(lanes):
            if token >= 0:
                value = widen(acc[block, x + token * stride, lane])
            elif is_first:
                value = ZERO
            else:
                value = widen(act[block, inputs + (j + M) * step, lane])
            act[block, inputs + j * step, lane] = narrow(value, act[block, 0, lane])
