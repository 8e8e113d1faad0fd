"""The activation functions of feed-forward layers."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels._elementary import error_function, exponential
from wse_kernels._elements import clear_rows, narrow, widen
from wse_kernels._jit import helper_function
from wse_kernels._lanes import lane_values
from wse_kernels._shares import share_of_place

ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions in the order of their numbers; the sources of their definitions are those of `activate`."""

SILU, GELU_TANH, GELU = range(3)
ONE, HALF, ROOT_HALF = np.float32(1.0), np.float32(0.5), np.float32(math.sqrt(0.5))
ROOT_8_BY_PI, CUBIC = np.float32(math.sqrt(8.0 / math.pi)), np.float32(0.044715)  # of gelu_tanh
STEEPNESS = np.float32(1.702)  # of clamped_silu


def activate(block, act, acc, x, out, M, n, function, gated, limit_pico):
    """out[M, n] = f(x[M, n]), or where ``gated`` is 1 f(gate[M, n]) * up[M, n]; x is then gate and up, ``[M, 2 n]``.

    Both are rounded to the element type first. f is ``ACTIVATIONS[function]``: x * sigmoid(x) (SiLU, arXiv 1702.03118);
    x times the normal distribution, by tanh or by erf (GELU, arXiv 1606.08415); or x * sigmoid(1.702 x) with x at most
    a limit, which multiplies one more than an up that is kept from -limit to limit (github.com/openai/gpt-oss, swiglu).
    """
    for m in range(M):
        _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, 0, n)


def activate_share(
    block, block_row, act, acc, x, out, M, n, function, gated, limit_pico, length, groups, shared_tokens, padding
):  # fmt: skip
    """`activate` for the PE's own share of features (`share_of_place`), and 0 for those of its neighbours.

    The n features of each of ``shared_tokens``, of which M is a multiple, are shared out as one vector. As many zeros
    as ``padding`` stand behind all of them.
    """
    begin, end = share_of_place(block_row, length, groups, shared_tokens * n)
    for m in range(M):
        before = m % shared_tokens * n
        first, last = min(max(begin - before, 0), n), min(max(end - before, 0), n)
        clear_rows(act, block, out + m * n, first)
        _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, first, last)
        clear_rows(act, block, out + m * n + last, n - last)
    clear_rows(act, block, out + M * n, padding)


@helper_function
def _activate(block, act, acc, x, out, m, n, function, gated, limit_pico, first, last):
    """Activate features ``first`` to ``last`` of token m. All functions but GELU are x * sigmoid(an argument)."""
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
