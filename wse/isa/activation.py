"""The activation functions of feed-forward layers, of a gate alone or of a gate times what lies beside it."""

from __future__ import annotations

from typing import Final

from wse.isa.kernel import Kernel
from wse.isa.operands import acc, act, numbers
from wse.isa.pe_costs import PeCosts
from wse_mappings.cuts.split import ceil_div

ACTIVATIONS: Final = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions; ``activate`` takes the index of one."""

_WORK: Final = ((2, 1, 1), (1, 6, 1), (1, 3, 1), (2, 3, 3))
"""Scalar functions (exp and reciprocal, tanh, erf) of each activation function, its vector operations, and those of
the gating."""


def _cycles(c: PeCosts, M: int, n: int, function: int, gated: int) -> float:
    elements = M * n
    functions, plain, gating = _WORK[function]
    operations = plain + gated * gating
    rounding = (1 + gated) * c.vector(elements, c.convert)
    return rounding + elements * functions * c.function + operations * c.vector(elements, c.f32)


def _share_cycles(c: PeCosts, M: int, n: int, function: int, gated: int, length: int, groups: int) -> float:
    """Cycles of the largest share of a group, and of zeros for the others."""
    return c.vector(M * n, c.act) + _cycles(c, M, ceil_div(n, length // groups), function, gated)


ACTIVATION: Final = (
    Kernel(
        name="activate",
        operands=(
            acc("x", lambda M, n, gated: M * (1 + gated) * n),
            act("out", "M n", output=True, over="x"),
            *numbers("M n function gated limit_pico"),
        ),
        work=lambda M, n: M * n,
        cycles=_cycles,
    ),
    Kernel(
        name="activate_share",
        operands=(
            acc("x", lambda M, n, gated: M * (1 + gated) * n),
            act("out", "M n", output=True, over="x"),
            *numbers("M n function gated limit_pico length groups"),
        ),
        work=lambda M, n: M * n,
        cycles=_share_cycles,
    ),
)
