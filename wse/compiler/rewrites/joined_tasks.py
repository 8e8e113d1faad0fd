"""Steps in the task of the step before: a PE that has just computed goes on without a task being dispatched.

A task is dispatched where a PE waits for words. What follows a kernel on the same PE waits for nothing that is not
there: the next kernel, or the sends and receives of a pattern, which the same task issues. So do the first kernel of a
layer and the last one of the layer before on the same PEs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import is_line, kernel_of
from wse.compiler.symbolic import SymStep


def _apply(c: Context, draft: Draft, setting: int) -> None:
    draft.steps[1:] = [
        step.copy_with(joined=True) if _goes_on(before, step) else step for before, step in pairwise(draft.steps)
    ]


def _goes_on(before: SymStep, step: SymStep) -> bool:
    """Return whether a step can run in the task of the computing step before it."""
    follows = step.loop == before.loop and step.overlap == before.overlap and (step.overlap < 0 or step.in_chain)
    if not follows or kernel_of(before) is None or (kernel_of(step) is None and not is_line(step)):
        return False
    return (step.operands[0], step.operands[1]) == (before.operands[0], before.operands[1])


def goes_on_in_next_block(before: SymStep, step: SymStep) -> bool:
    """Return whether the first step of a block can run in the task of the last step of the block before."""
    return before.loop < 0 and step.loop < 0 and _goes_on(before, step)


REWRITE: Final = Rewrite(
    name="joined-tasks",
    summary="A kernel that follows another, and a pattern that follows a kernel, run in the task that is active.",
    source="WSE tasks run to completion and issue what they start (Cerebras SDK documentation, tasks and microthreads)",
    position=230,
    apply=_apply,
)
