"""Compute kernels for the activation functions of feed-forward layers."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.codegen.elementary import error_function, exponential
from wse_kernels.codegen.elements import clear_rows, narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.codegen.lanes import lane_values
from wse_kernels.compute._slices import slice_of_place
from wse_kernels.operands.group import Place
from wse_kernels.operands.layers import ActivationFunction, FeatureGroups

ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "clamped_silu", "relu", "relu2")
"""Activation functions in the order of their numbers; `activate` gives their sources."""

SILU, GELU_TANH, GELU, CLAMPED_SILU, RELU, RELU2 = range(6)
ZERO, ONE, HALF, ROOT_HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5), np.float32(math.sqrt(0.5))
ROOT_8_BY_PI, CUBIC = np.float32(math.sqrt(8.0 / math.pi)), np.float32(0.044715)  # of gelu_tanh
STEEPNESS = np.float32(1.702)  # of clamped_silu


def activate(block, act, acc, x, out, M, n, activation: ActivationFunction):
    """Apply an activation function, and multiply by the up projection if the layer is gated.

    out[M, n] = f(x[M, n]), or f(gate[M, n]) * up[M, n] if gated. Inputs are first rounded to the
    activation type. ``ACTIVATIONS[function]`` selects f:

    - silu: x * sigmoid(x) (arXiv 1702.03118)
    - gelu_tanh, gelu: x times the normal distribution function, computed with tanh or with erf
      (arXiv 1606.08415)
    - clamped_silu: x * sigmoid(1.702 x), where x is at most the limit. The factor is 1 + up, with
      up clamped to [-limit, limit] (github.com/openai/gpt-oss, swiglu).
    - relu, relu2: the positive part of x, and its square (arXiv 2109.08668)

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the inputs in the accumulator type: [M, n], or gate and up as [M, 2 n].
        out: Address of the results [M, n] in the activation type.
        M, n: Numbers of tokens and features.
        activation: Activation function.
    """
    for m in range(M):
        gate = x + m * (1 + activation.gated) * n
        _activate(block, act, acc, gate, gate + n, out + m * n, 0, n, activation)


def activate_share(place: Place, act, acc, x, out, M, n, activation: ActivationFunction, division: FeatureGroups):
    """Apply an activation function to the features that this PE computes; set the others to 0.

    All PEs of a column store the same inputs. They form groups of neighbours, and the PEs of a
    group divide the features among themselves. A sum over the group then gives all features.

    Args:
        place: Position of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the inputs in the accumulator type: [M, n], or [M, 2 n] for a gated function,
            with n gate features followed by n up features per token.
        out: Address of the results [M, n] in the activation type, followed by zeros as padding.
        M: Number of tokens, a multiple of ``shared_tokens``.
        n: Number of features.
        activation: Activation function.
        division: Groups of PEs that divide the features, and the number of zeros to append.
    """
    block, (length, groups, shared_tokens, padding) = place.block, division
    slice_begin, slice_end = slice_of_place(place.row, length, groups, shared_tokens * n)
    for m in range(M):
        token_start, result = m % shared_tokens * n, out + m * n
        first, last = min(max(slice_begin - token_start, 0), n), min(max(slice_end - token_start, 0), n)
        gate = x + m * (1 + activation.gated) * n
        clear_rows(act, block, result, first)
        _activate(block, act, acc, gate, gate + n, result, first, last, activation)
        clear_rows(act, block, result + last, n - last)
    clear_rows(act, block, out + M * n, padding)


def apply_gate(block, act, acc, x, gate, M, n, stride, gates, function):
    """Multiply each token's features by a function of its gate in place: x[M, n] *= f(gate).

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        x: Address of the features [M, n] in the activation type, changed in place.
        gate: Address of the first token's gates in the accumulator type.
        M, n: Numbers of tokens and features.
        stride: Distance from the gates of one token to the next, in elements.
        gates: Number of gates per token: n, or 1 for a gate that all features share.
        function: 0 for sigmoid(gate), 1 for the gate itself.
    """
    lanes = act.shape[2]
    for e in range(M * n):
        source = gate + e // n * stride + (e % n if gates > 1 else 0)
        for lane in range(lanes):
            value, old = widen(acc[block, source, lane]), act[block, x + e, lane]
            factor = value if function == 1 else ONE / (ONE + exponential(-value))
            act[block, x + e, lane] = narrow(widen(old) * factor, old)


@helper_function
def _activate(block, act, acc, gate, up, out, first, last, activation):
    """Apply the activation function to features ``first`` to ``last`` - 1 of one token.

    The functions other than gelu, relu and relu2 have the form x * sigmoid(argument), so they share
    one loop.

    Args:
        block: Index of the block (group of neighbouring PEs).
        act, acc: SRAM as arrays [block, address, PE of block] of different element types.
        gate, up, out: Addresses of the token's gate and up projections, and of its results.
        first, last: First feature to compute, and the index after the last.
        activation: Activation function.
    """
    function, gated, limit_pico = activation
    limit, lanes = np.float32(limit_pico * 1e-12), act.shape[2]
    values = lane_values(lanes)
    for e in range(first, last):
        for lane in range(lanes):
            values[lane] = widen(narrow(widen(acc[block, gate + e, lane]), act[block, out, lane]))
        if function == GELU:
            for lane in range(lanes):
                values[lane] = HALF * values[lane] * (ONE + error_function(values[lane] * ROOT_HALF))
        elif function >= RELU:
            for lane in range(lanes):
                value = max(values[lane], ZERO)
                values[lane] = value * value if function == RELU2 else value
        else:
            for lane in range(lanes):
                value = values[lane]
                if function == SILU:
                    argument = value
                elif function == GELU_TANH:  # (1 + tanh(y)) / 2 = sigmoid(2 y)
                    argument = ROOT_8_BY_PI * (value + CUBIC * value * value * value)
                else:
                    value = limit if value > limit else value
                    argument = STEEPNESS * value
                values[lane] = value / (ONE + exponential(-argument))
        if gated == 1:
            for lane in range(lanes):
                factor = widen(narrow(widen(acc[block, up + e, lane]), act[block, out, lane]))
                if function == CLAMPED_SILU:
                    factor = -limit if factor < -limit else factor
                    factor = (limit if factor > limit else factor) + ONE
                values[lane] *= factor
        for lane in range(lanes):
            act[block, out + e, lane] = narrow(values[lane], act[block, out + e, lane])
