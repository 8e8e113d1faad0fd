"""Kernels at both ends of a model: table look-ups of ids and positions, arg max over logits."""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, f32, numbers, wgt
from wse.program.isa.pe_costs import PeCosts


def _row_cycles(c: PeCosts, M: int, K: int) -> float:
    """Return how many cycles it takes to read a table row of K features for each of M tokens.

    Args:
        c: Costs of operations on the PE.
        M, K: Number of tokens, and features per token on the PE.
    """
    return M * (c.loop + c.vector(K, c.acc))


VOCABULARY: Final = (
    Kernel(
        name="embedding_lookup",
        operands=(f32("ids", "M"), wgt("table", "V K", reads="M K"), acc("out", "M K", output=True), *numbers("M K V")),
        work="M K",
        operation_ps=1100,
        cycles=_row_cycles,
    ),
    Kernel(
        name="add_positions",
        operands=(acc("x", "M K"), wgt("table", "V K", reads="M K"), *numbers("M K V row")),
        work="M K",
        cycles=_row_cycles,
        counters=True,
    ),
    Kernel(
        name="argmax_fold",
        operands=(acc("logits", "n"), f32("pair", lambda: 2), *numbers("n V first vocabulary fold")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.max_f32) + c.vector(n, c.f32) + c.loop,
    ),
    Kernel(
        name="pair_indices",
        operands=(f32("pairs", lambda n: 2 * n), f32("out", "n", output=True), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.f32),
    ),
)
