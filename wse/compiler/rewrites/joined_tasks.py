"""Rewrite: run a step in the task of the preceding kernel, without dispatching a new task.

When words that a PE waits for arrive, a task is dispatched, which costs cycles. A step after a
kernel on the same PE does not wait for words: the same task can issue the next kernel, or the sends
and receives of a pattern. The same applies to the first kernel of a layer after the last kernel of
the preceding layer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line, kernel_of
from wse.compiler.symbolic import SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Mark the steps of a block that can run in the task of the preceding kernel.

    Such steps save the cycles that a PE needs to dispatch a new task. The steps are modified in
    place. ``setting`` is not used.
    """
    block_steps.steps[1:] = [
        step.copy_with(runs_in_previous_task=True) if _runs_in_same_task(previous_step, step) else step
        for previous_step, step in pairwise(block_steps.steps)
    ]


def _runs_in_same_task(previous_step: SymStep, step: SymStep) -> bool:
    """Return whether a step can run in the same task as the previous step.

    All of these conditions must hold:

    - The previous step runs a kernel. The step runs a kernel, or a pattern along rows or columns.
    - Both use the same rows of PEs, and both are in the same loop or in no loop.
    - Neither step runs concurrently with other steps, or both are in the same group of concurrent
      steps and the step is a pattern that waits for the kernels of the group.
    """
    follows = (
        step.loop == previous_step.loop
        and step.overlap == previous_step.overlap
        and (step.overlap < 0 or step.in_chain)
    )
    if not follows or kernel_of(previous_step) is None or (kernel_of(step) is None and not is_line(step)):
        return False
    return (step.operands[0], step.operands[1]) == (previous_step.operands[0], previous_step.operands[1])


def joins(c: Context, previous_step: SymStep, step: SymStep) -> bool:
    """Return whether the first step of a layer runs in the task of the step before it.

    This saves the cycles needed to dispatch a task. It is possible only with this rewrite.

    Args:
        c: Context of the phase being lowered.
        previous_step: Last step of the preceding layer (or other block of steps) on the same PEs.
        step: First step of the layer.
    """
    in_loop = previous_step.loop >= 0 or step.loop >= 0
    return REWRITE.name in c.rewrites and not in_loop and _runs_in_same_task(previous_step, step)


REWRITE: Final = Rewrite(
    name="joined-tasks",
    summary="A kernel after a kernel, and a pattern after a kernel, run in the task that is already active.",
    source="WSE tasks run to completion and issue operations (Cerebras SDK documentation, tasks and microthreads)",
    position=230,
    apply=_apply,
)
