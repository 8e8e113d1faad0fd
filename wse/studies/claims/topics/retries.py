"""Accuracy at which a fast model takes as long for a task as a slower, more accurate model.

A task has independent steps, each of which is right with probability p.

- If every wrong step is detected, for example by a compiler or a test, only that step is repeated.
  It needs 1/p attempts on average (geometric distribution). At speed v, the task takes a time
  proportional to 1/(p v), so a model that is v times as fast needs the same time at accuracy p / v.
- If only the whole task of n steps is checked, it is right with probability p^n at any speed. The
  whole task is then repeated, and needs 1/p^n attempts on average.
"""

from __future__ import annotations

import math


def break_even_accuracy(accuracy: float, speed_ratio: float, steps_between_checks: int = 1) -> float:
    """Return the accuracy at which a faster model takes as long for a task as a slower one.

    Both models repeat n steps until all n are right, which takes 1/p^n attempts on average. The
    times are equal if p'^n v = p^n, so the result is p' = p v^(-1/n).

    Args:
        accuracy: Probability p that the slower model gets a step right.
        speed_ratio: Speed of the faster model, divided by the speed of the slower model (v).
        steps_between_checks: Number n of steps that are checked as a group, and all repeated if any
            of them is wrong.

    >>> break_even_accuracy(0.9, 3.0)
    0.3
    >>> round(break_even_accuracy(0.9, 3.0, steps_between_checks=20), 3)
    0.852
    """
    return accuracy / math.pow(speed_ratio, 1 / steps_between_checks)
