"""Work of the columns of PEs that store experts: the (token, expert) pairs of each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.arrays import I64
from wse.program.expert_pairs import assumed_pairs, pairs_of_columns
from wse.program.isa.instructions import KERNELS
from wse.program.isa.kernel import Kernel
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots

Pairs = Mapping[int, I64]
"""Number of tokens routed to each expert in one run, int64 ``[experts]``, by layer."""

ASSUMED: Final[Pairs] = {}
"""No recorded expert selection. In missing layers, ``Program.routing`` is assumed."""


def pairs_by_column(program: Program, phase: Phase, step: int, pairs: Pairs) -> I64:
    """Return the (token, expert) pairs that each column of PEs processes in a step.

    Args:
        program: The compiled Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of a step whose work depends on the selected experts.
        pairs: For each layer, the number of tokens routed to each expert. In layers that are
            missing, ``Program.routing`` is assumed.

    Returns:
        int64 ``[cols]``: number of pairs of each column.
    """
    stage, layer = int(phase.steps.stage[step]), program.op_layers[int(phase.steps.op[step])]
    layer_pairs = pairs[layer] if layer in pairs else assumed_pairs(program, stage, layer, phase.tokens)
    return pairs_of_columns(program, stage, layer, layer_pairs)


def fullest_column_step(program: Program, phase: Phase, step: int) -> tuple[Phase, int]:
    """Return a step with the operands of the column of PEs that has the most work.

    The work of a column is the number of (token, expert) pairs whose experts it stores. The
    operands in ``phase`` are for the maximum number of pairs that any column may get. The returned
    operands are for the fullest column under the assumed ``Program.routing``.

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
    """Return the kernel of a compute step and its calls on a PE of the fullest column.

    A call is one execution of the kernel with the operands of one iteration of the step's loop. The
    fullest column of PEs has the most (token, expert) pairs under the assumed ``Program.routing``.

    Returns:
        The kernel, and (operands, number of calls) pairs: one for the first iteration, and one that
        stands for all other iterations.
    """
    one_step, at = fullest_column_step(program, phase, step)
    iterations = phase.steps.iterations(step)
    calls = [(one_step.steps.operands(at, slots), 1)]
    if iterations > 1:
        calls.append((one_step.steps.operands(at, slots, 1), iterations - 1))
    return KERNELS[one_step.steps.code[at]], calls
