"""Combination of results from a computation divided between neighbouring PEs on a line.

Each PE has computed part of the results and has zeros for the others. An all-reduce over the
neighbours adds them up, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.steps import NO_PAIRS, line_step
from wse.compiler.symbolic import SymAddress, SymNumber, SymStep
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival

MIN_SHARERS: Final = 4
"""Smallest number of PEs among which a computation is divided."""


def sharers_on(width: int, setting: int) -> int:
    """Return the number of neighbouring PEs that divide a computation on a line.

    Args:
        width: Number of PEs that compute the same results.
        setting: The desired number, a power of two. It is halved until it is at most ``width``.

    Returns:
        The number, or 0 if it would be less than `MIN_SHARERS`.
    """
    while setting > width:
        setting //= 2
    return setting if setting >= MIN_SHARERS else 0


def combine_shares(
    c: Context,
    template: SymStep,
    axis: int,
    sets: Sequence[tuple[int, int]],
    at: SymAddress,
    elements: SymNumber,
    pairs: SymAddress | SymNumber = NO_PAIRS,
) -> SymStep:
    """Return the step in which neighbouring PEs that divided a computation exchange their results.

    The step is an all-reduce. Each PE has its own results, and zeros in place of the results of the
    other PEs. The sums are therefore the results of all PEs.

    Args:
        c: Context of the phase being lowered.
        template: Step from which the rows of PEs and the op (operation of the model) are copied.
        axis: ROWS for lines along rows of PEs, COLUMNS for lines along columns.
        sets: First PE and length of each segment of a line (row or column of PEs) that divided a
            computation.
        at: Address of the results of a PE.
        elements: Number of elements on each PE.
        pairs: Address from which PEs read the number of (token, expert) pairs, if ``elements``
            depends on it.
    """
    length, lines = c.lines(axis)
    pattern = c.patterns.get(k_tree, length, lines, Arrival.ADD, broadcast=True, segments=tuple(sets), groups=())
    return line_step(template, pattern, axis, at, elements, pairs)
