"""Compute kernels for the activation functions of feed-forward layers."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels._elementary import error_function, exponential
from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values
from wse_kernels._slices import slice_of_place

ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions in the order of their numbers; `activate` gives their sources."""

SILU, GELU_TANH, GELU = range(3)
ONE, HALF, ROOT_HALF = np.float32(1.0), np.float32(0.5), np.float32(math.sqrt(0.5))
ROOT_8_BY_PI, CUBIC = np.float32(math.sqrt(8.0 / math.pi)), np.float32(0.044715)  # of gelu_tanh
STEEPNESS = np.float32(1.702)  # of clamped_silu


def activate(block, act, acc, x, out, M, n, function, gated, limit_pico):
    """Apply an activation function, and multiply by the up projection if the layer is gated.

    out[M, n] = f(x[M, n]), or f(gate[M, n]) * up[M, n] if ``gated`` is 1. Inputs are first rounded
    to the activation type. ``ACTIVATIONS[function]`` selects f:

    - silu: x * sigmoid(x) (arXiv 1702.03118)
    - gelu_tanh, gelu: x times the normal distribution function, by tanh or by erf (arXiv
      1606.08415)
    - clamped_silu: x * sigmoid(1.702 x), where x is at most the limit. The factor is 1 + up, with
      up clamped to [-limit, limit] (github.com/openai/gpt-oss, swiglu).

    Args:
        block, act, acc: Block of up to 128 PEs, and views of their SRAM.
        x, out: Addresses of the inputs, [M, n] or gate and up as [M, 2 n], and of the results.
        M, n: Tokens; features.
        function: Index into ACTIVATIONS.
        gated: 1 if the layer is gated, else 0.
        limit_pico: Limit of clamped_silu in units of 1e-12.
    """
    for m in range(M):
        _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, 0, n)


def activate_share(
    block, block_row, act, acc, x, out, M, n, function, gated, limit_pico, length, groups, shared_tokens, padding
):  # fmt: skip
    """Apply `activate` to the features that this PE computes, and set the other features to 0.

    PEs of a column have the same features. Neighbours form groups, and the PEs of a group divide
    the features among them (`slice_of_place`). The n features of ``shared_tokens`` tokens are
    divided as one vector.

    Args:
        block, block_row, act, acc: Block of up to 128 PEs, its mesh row, and views of their SRAM.
        x, out: Addresses of the inputs and of the results, as in `activate`.
        M, n, function, gated, limit_pico: As in `activate`. M is a multiple of ``shared_tokens``.
        length, groups: PEs of the column; groups that they form.
        shared_tokens: Number of tokens whose features are divided as one vector.
        padding: Number of zeros to write after the results.
    """
    slice_begin, slice_end = slice_of_place(block_row, length, groups, shared_tokens * n)
    for m in range(M):
        token_start = m % shared_tokens * n
        first, last = min(max(slice_begin - token_start, 0), n), min(max(slice_end - token_start, 0), n)
        clear_rows(act, block, out + m * n, first)
        _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, first, last)
        clear_rows(act, block, out + m * n + last, n - last)
    clear_rows(act, block, out + M * n, padding)


@helper_function
def _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, first, last):
    """Apply the activation function to features ``first`` to ``last`` - 1 of token m.

    All functions except gelu have the form x * sigmoid(argument), so they share one loop. The other
    operands are those of `activate`.
    """
    limit = np.float32(limit_pico * 1e-12)
    gates, ups = x + m * (1 + gated) * n, x + (m * (1 + gated) + 1) * n
    lanes = act.shape[2]
    values = lane_values(lanes)
    for e in range(first, last):
        for lane in range(lanes):
            values[lane] = widen(narrow(widen(acc[block, gates + e, lane]), act[block, out, lane]))
        if function == GELU:
            for lane in range(lanes):
                values[lane] = HALF * values[lane] * (ONE + error_function(values[lane] * ROOT_HALF))
        else:
            for lane in range(lanes):
                gate = values[lane]
                if function == SILU:
                    argument = gate
                elif function == GELU_TANH:  # (1 + tanh(y)) / 2 = sigmoid(2 y)
                    argument = ROOT_8_BY_PI * (gate + CUBIC * gate * gate * gate)
                else:
                    gate = limit if gate > limit else gate
                    argument = STEEPNESS * gate
                values[lane] = gate / (ONE + exponential(-argument))
        if gated == 1:
            for lane in range(lanes):
                up = widen(narrow(widen(acc[block, ups + e, lane]), act[block, out, lane]))
                if function > GELU:
                    up = -limit if up < -limit else up
                    up = (limit if up > limit else up) + ONE
                values[lane] *= up
        for lane in range(lanes):
            act[block, out + m * n + e, lane] = narrow(values[lane], act[block, out + m * n + e, lane])
