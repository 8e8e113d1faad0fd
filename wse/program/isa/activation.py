"""The activation functions of feed-forward layers, of a gate alone or of a gate times what lies beside it."""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, numbers
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.cuts.split import ceil_div

ACTIVATIONS: Final = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions; ``activate`` takes the index of one."""

_WORK: Final = ((2, 1, 1), (1, 6, 1), (1, 3, 1), (2, 3, 3))
"""Scalar functions (exp and reciprocal, tanh, erf) of each activation function, its vector operations, and those of
the gating."""


def _cycles(c: PeCosts, M: int, n: int, function: int, gated: int) -> float:
    return M * n * _WORK[function][0] * c.function + _vectors_cycles(c, M * n, function, gated)


def _vectors_cycles(c: PeCosts, elements: int, function: int, gated: int) -> float:
    """Return the cycles of the vector operations on so many elements."""
    _, plain, gating = _WORK[function]
    return (1 + gated) * c.vector(elements, c.convert) + (plain + gated * gating) * c.vector(elements, c.f32)


def _share_cycles(
    c: PeCosts, M: int, n: int, function: int, gated: int, length: int, groups: int, shared_tokens: int, padding: int
) -> float:
    """Return the cycles of the largest part of a group, plus those of zeros for the rest.

    A share of several tokens' features may begin and end inside of a token's, whose vectors are its own.
    """
    share, turns = ceil_div(shared_tokens * n, length // groups), M // shared_tokens
    reached = min(shared_tokens, ceil_div(share - 1, n) + 1)
    functions = turns * share * _WORK[function][0] * c.function
    vectors = reached * _vectors_cycles(c, turns * min(share, n), function, gated)
    return c.vector(M * n + padding, c.act) + functions + vectors


ACTIVATION: Final = (
    Kernel(
        name="activate",
        operands=(
            acc("x", lambda M, n, gated: M * (1 + gated) * n),
            act("out", "M n", output=True, over="x"),
            *numbers("M n function gated limit_pico"),
        ),
        work=lambda M, n: M * n,
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
        work=lambda M, n: M * n,
        operation_ps=1000,
        cycles=_share_cycles,
    ),
)
