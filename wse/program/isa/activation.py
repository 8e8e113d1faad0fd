"""Activation functions of feed-forward layers, with or without gating (a second factor)."""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, numbers
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.rounding import ceil_div

ACTIVATIONS: Final = ("silu", "gelu_tanh", "gelu", "clamped_silu", "relu", "relu2")
"""Activation functions; operand ``function`` of kernel ``activate`` is an index into this tuple."""

_WORK: Final = ((2, 1, 1), (1, 6, 1), (1, 3, 1), (2, 3, 3), (0, 1, 1), (0, 2, 1))
"""Operations per element of each activation function.

The three numbers are scalar functions (exp and reciprocal, tanh, or erf), vector operations, and
vector operations of gating.
"""


def _cycles(c: PeCosts, M: int, n: int, function: int, gated: int) -> float:
    """Return the cycle count of kernel ``activate``, which applies an activation function on a PE.

    Args:
        c: Costs of operations on the PE.
        M, n: Number of tokens, and features per token on the PE.
        function: Index into ACTIVATIONS.
        gated: 1 if the result is multiplied by a second vector (gating), else 0.
    """
    return M * n * _WORK[function][0] * c.function + _vectors_cycles(c, M * n, function, gated)


def _vectors_cycles(c: PeCosts, elements: int, function: int, gated: int) -> float:
    """Return the cycle count of the vector operations in an activation function.

    Scalar functions such as exp are not included.

    Args:
        c: Costs of operations on the PE.
        elements: Number of outputs.
        function: Index into ACTIVATIONS.
        gated: 1 if the result is multiplied by a second vector (gating), else 0.
    """
    _, operations, gating = _WORK[function]
    return (1 + gated) * c.vector(elements, c.convert) + (operations + gated * gating) * c.vector(elements, c.f32)


def _share_cycles(
    c: PeCosts, M: int, n: int, function: int, gated: int, length: int, groups: int, shared_tokens: int, padding: int
) -> float:
    """Return how many cycles ``activate_share`` takes on the PE that activates the most features.

    The kernel divides the work among a group of PEs that have the same inputs. Each PE activates
    consecutive features, and writes zeros for all others. These features may begin and end in the
    middle of a token, and each token needs separate vector operations.

    Args:
        c: Costs of operations on the PE.
        M, n: Number of tokens, and features per token.
        function: Index into ACTIVATIONS.
        gated: 1 if the result is multiplied by a second vector (gating), else 0.
        length, groups: Number of PEs in a row or column, and number of groups that they form.
        shared_tokens: Number of tokens per iteration. In each iteration, the PEs of a group divide
            the features of these tokens among themselves.
        padding: Number of additional output elements that are set to zero.
    """
    shard_elements, iterations = ceil_div(shared_tokens * n, length // groups), M // shared_tokens
    tokens_reached = min(shared_tokens, ceil_div(shard_elements - 1, n) + 1)
    functions = iterations * shard_elements * _WORK[function][0] * c.function
    vectors = tokens_reached * _vectors_cycles(c, iterations * min(shard_elements, n), function, gated)
    return c.vector(M * n + padding, c.act) + functions + vectors


def _gate_cycles(c: PeCosts, M: int, n: int, gates: int, function: int) -> float:
    """Return the cycle count of kernel ``apply_gate``, which multiplies features by gates.

    Args:
        c: Costs of operations on the PE.
        M, n: Number of tokens, and features per token.
        gates: Number of gates per token.
        function: 0 if a sigmoid is applied to the gates first, else 1.
    """
    sigmoid = 0.0 if function else 2 * gates * c.function + c.vector(gates, c.f32)
    return M * (c.loop + sigmoid + c.vector(n, c.act))


ACTIVATION: Final = (
    Kernel(
        name="activate",
        operands=(
            acc("x", lambda M, n, gated: M * (1 + gated) * n),
            act("out", "M n", output=True, over="x"),
            *numbers("M n function gated limit_pico"),
        ),
        work="M n",
        operation_ps=1000,
        cycles=_cycles,
    ),
    Kernel(
        name="activate_share",
        operands=(
            acc("x", lambda M, n, gated: M * (1 + gated) * n),
            act("out", lambda M, n, padding: M * n + padding, output=True, over="x"),
            *numbers("M n function gated limit_pico length groups shared_tokens padding"),
        ),
        work="M n",
        operation_ps=1000,
        cycles=_share_cycles,
    ),
    Kernel(
        name="apply_gate",
        operands=(
            act("x", "M n"),
            acc("gate", lambda M, stride, gates: (M - 1) * stride + gates),
            *numbers("M n stride gates function"),
        ),
        work="M n",
        operation_ps=1000,
        cycles=_gate_cycles,
    ),
)
