"""Steps that are tried again until they are right: when many fast wrong ones lose to fewer slow right ones.

A task has steps, each right with probability p by itself. Where a wrong step is seen (a compiler, a test, a checker) it
is tried again, 1/p times on average (geometric distribution), so that a task takes time in proportion to 1/(p v) at
speed v. A model v times as fast is as quick with p' = p / v. Where errors are not seen, a task of n steps is right with
probability p^n for any speed, and it is tried again as a whole: 1/p^n times.
"""

from __future__ import annotations

import math


def break_even_accuracy(accuracy: float, speed_ratio: float, steps_between_checks: int = 1) -> float:
    """Return the share of steps that a faster model must get right to be as quick as one that gets ``accuracy`` right.

    p'^n v = p^n where each n steps are checked, so p' = p v^(-1/n); v is the ``speed_ratio`` of the fast to the slow.

    >>> break_even_accuracy(0.9, 3.0)
    0.3
    >>> round(break_even_accuracy(0.9, 3.0, steps_between_checks=20), 3)
    0.852
    """
    return accuracy / math.pow(speed_ratio, 1 / steps_between_checks)
