"""Start of each step of a phase, from the cycle counts of all steps."""

from __future__ import annotations

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.group_cost import first_steps
from wse.backends.fabric.group_time import GroupCost
from wse.program.steps import Steps


def origins(steps: Steps) -> tuple[I64, I64]:
    """Return which steps determine when each step starts: the first of its group and its loop.

    The result is the input of `starts`. A group consists of steps that run at the same time.

    Returns:
        Two arrays, int64 ``[steps]``: the index of the first step of each step's group, and the
        index of the first step of its loop, or of the step itself outside loops.
    """
    first = first_steps(steps)
    first_of_group = np.repeat(first, np.diff(first, append=len(steps)))
    first_of_loop = np.where(steps.loop < 0, np.arange(len(steps)), np.append(steps.loops[:, 0], 0)[steps.loop])
    return first_of_group, first_of_loop


def starts(first_of_group: I64, first_of_loop: I64, cost: GroupCost) -> F64:
    """Return the cycle at which each step starts for the first time, as float64 ``[steps]``.

    A step in a loop starts after all steps before the loop and after the first iteration of the
    preceding steps in the loop.

    Args:
        first_of_group: int64 ``[steps]``, the first step of each step's group of concurrent steps.
        first_of_loop: int64 ``[steps]``, the first step of each step's loop, or the step itself.
        cost: Cost of the groups, with one row per step.
    """
    cycles_before, first_iteration_cycles = (
        np.append(0.0, cycles.cumsum())[:-1] for cycles in (cost.by_cause.sum(axis=1), cost.first_iteration)
    )
    return np.asarray(
        cycles_before[first_of_loop] + first_iteration_cycles[first_of_group] - first_iteration_cycles[first_of_loop],
        np.float64,
    )
