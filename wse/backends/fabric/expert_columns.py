"""Work of the columns of PEs that store experts: the (token, expert) pairs of each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.arrays import I64
from wse.program.expert_pairs import assumed_pairs, pairs_of_columns
from wse.program.isa.instructions import KERNELS
from wse.program.isa.kernel import Kernel
from wse.program.program import Program
from wse.program.steps import Phase, Slots

ExpertTokens = Mapping[int, I64]
"""Number of tokens routed to each expert in one run, int64 ``[experts]``, by layer."""

ASSUMED: Final[ExpertTokens] = {}
"""No recorded expert selection. In missing layers, ``Program.routing`` is assumed."""


def pairs_by_column(program: Program, phase: Phase, step: int, expert_tokens: ExpertTokens) -> I64:
    """Return how many (token, expert) pairs each column of PEs processes in a step.

    Args:
        program: The compiled Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of a step whose work depends on the selected experts.
        expert_tokens: For each layer, the number of tokens routed to each expert. In layers that
            are missing, ``Program.routing`` is assumed.

    Returns:
        int64 ``[cols]``: number of pairs of each column.
    """
    stage, layer = int(phase.steps.stage[step]), program.op_layers[int(phase.steps.op[step])]
    layer_pairs = expert_tokens[layer] if layer in expert_tokens else assumed_pairs(program, stage, layer, phase.tokens)
    return pairs_of_columns(program, stage, layer, layer_pairs)


def fullest_column_step(program: Program, phase: Phase, step: int) -> tuple[Phase, int]:
    """Return a step with the operands that the busiest column of PEs uses.

    The busiest column has the most (token, expert) pairs if tokens are routed as in
    ``Program.routing``. The operands in ``phase`` are for the maximum number of pairs with any
    routing; the returned operands are for the pairs of the busiest column.

    Args:
        program: The compiled Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step in the phase.

    Returns:
        A phase that consists only of this step, and the index 0. If the step does not depend on the
        selected experts, ``phase`` and ``step`` are returned unchanged.
    """
    if not phase.steps.depends_on_experts[step]:
        return phase, step
    return phase.with_pairs(step, int(pairs_by_column(program, phase, step, ASSUMED).max())), 0


def kernel_calls(program: Program, phase: Phase, step: int, slots: Slots) -> tuple[Kernel, list[tuple[list[int], int]]]:
    """Return the kernel of a compute step, and how it is called on the busiest column of PEs.

    The kernel is called once per iteration of the step's loop. The busiest column has the most
    (token, expert) pairs if tokens are routed as in ``Program.routing``.

    Returns:
        The kernel, and a list of (operands, number of calls). The first item is for the first
        iteration. A second item is for all other iterations, if there are any.
    """
    one_step, at = fullest_column_step(program, phase, step)
    iterations = phase.steps.iterations(step)
    calls = [(one_step.steps.operands(at, slots), 1)]
    if iterations > 1:
        calls.append((one_step.steps.operands(at, slots, 1), iterations - 1))
    return KERNELS[one_step.steps.code[at]], calls
