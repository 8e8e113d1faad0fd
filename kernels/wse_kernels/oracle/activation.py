"""Oracles of the activation functions of feed-forward layers."""

from __future__ import annotations

import math

import numpy as np

from wse_kernels.operands.layers import ActivationFunction, FeatureGroups
from wse_kernels.oracle.memory import F32, owners

GELU_TANH, GELU, CLAMPED_SILU, RELU, RELU2 = range(1, 6)


def activate(pe, x, out, M, n, activation: ActivationFunction):
    """Apply an activation function, and multiply by the up projection if the layer is gated.

    out[M, n] = f(x[M, n]), or f(gate[M, n]) * up[M, n] if gated. With clamped_silu, up is replaced
    by 1 + up, where up is first clamped to the limit. Inputs are first rounded to the activation
    type. This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the inputs in the accumulator type: [M, n], or gate and up as [M, 2 n].
        out: Address of the results [M, n] in the activation type.
        M, n: Numbers of tokens and features.
        activation: Activation function.
    """
    function, gated, limit_pico = activation
    rounded = pe.round_to("act", pe.read("acc", x, M, 1 + gated, n))
    limit = np.float32(limit_pico / 10**12)
    hidden, up = _activation(rounded[:, 0], function, limit), rounded[:, -1]
    if function == CLAMPED_SILU:
        up = np.clip(up, -limit, limit) + np.float32(1.0)
    pe.write("act", out, hidden * up if gated else hidden)


def activate_share(pe, x, out, M, n, activation: ActivationFunction, division: FeatureGroups):
    """Apply an activation function to the features that this PE computes; set the others to 0.

    All PEs of a column store the same inputs. They form groups of neighbours, and the PEs of a
    group divide the features among themselves. This NumPy reference for one PE is used to test the
    compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the inputs in the accumulator type: [M, n], or [M, 2 n] for a gated function,
            with n gate features followed by n up features per token.
        out: Address of the results [M, n] in the activation type, followed by zeros as padding.
        M: Number of tokens, a multiple of ``shared_tokens``.
        n: Number of features.
        activation: Activation function.
        division: Groups of PEs that divide the features, and the number of zeros to append.
    """
    length, groups, shared_tokens, padding = division
    activate(pe, x, out, M, n, activation)
    is_own = owners(pe.row, shared_tokens * n, length, groups) == pe.row
    values = pe.read("act", out, M // shared_tokens, shared_tokens * n)
    pe.write("act", out, np.where(is_own, values, np.float32(0.0)))
    pe.write("act", out + M * n, np.zeros(padding, np.float32))


def apply_gate(pe, x, gate, M, n, stride, gates, function):
    """Multiply each token's features by a function of its gate in place: x[M, n] *= f(gate).

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        x: Address of the features [M, n] in the activation type, changed in place.
        gate: Address of the first token's gates in the accumulator type.
        M, n: Numbers of tokens and features.
        stride: Distance from the gates of one token to the next, in elements.
        gates: Number of gates per token: n, or 1 for a gate that all features share.
        function: 0 for sigmoid(gate), 1 for the gate itself.
    """
    values = np.stack([pe.read("acc", gate + m * stride, gates) for m in range(M)])
    with np.errstate(over="ignore"):
        factors = values if function == 1 else np.float32(1.0) / (np.float32(1.0) + np.exp(-values))
    pe.write("act", x, pe.read("act", x, M, n) * factors)


def _activation(x: F32, function: int, limit: np.float32) -> F32:
    """Apply an activation function to float32 values.

    Args:
        x: Values, rounded to the activation type.
        function: Index in `wse_kernels.compute.activation.ACTIVATIONS`.
        limit: Upper limit of the values for clamped_silu. The other functions ignore it.
    """
    if function == GELU_TANH:
        argument = math.sqrt(2 / math.pi) * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
        return np.float32(0.5) * x * (1.0 + np.tanh(argument)).astype(np.float32)
    if function == GELU:
        erf = [math.erf(value * math.sqrt(0.5)) for value in x.reshape(-1).tolist()]
        return np.float32(0.5) * x * (1.0 + np.array(erf).reshape(x.shape)).astype(np.float32)
    if function in (RELU, RELU2):
        positive = np.maximum(x, np.float32(0.0))
        return positive * positive if function == RELU2 else positive
    clamped = function == CLAMPED_SILU
    bounded, steepness = (np.minimum(x, limit), 1.702) if clamped else (x, 1.0)
    with np.errstate(over="ignore"):
        return np.divide(bounded, np.float32(1.0) + np.exp(-np.float32(steepness) * bounded), dtype=np.float32)
