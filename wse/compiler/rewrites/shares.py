"""Combination of results from a computation divided between neighbouring PEs on a line.

Each PE has computed part of the results and has zeros for the others. An all-reduce over the
neighbours adds them up, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.steps import NO_PAIRS, line_step
from wse.compiler.symbolic import SymAddress, SymNumber, SymStep
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival


def combine_shares(
    c: Context,
    template: SymStep,
    axis: int,
    sets: Sequence[tuple[int, int]],
    at: SymAddress,
    elements: SymNumber,
    pairs: SymAddress | SymNumber = NO_PAIRS,
) -> SymStep:
    """Return the all-reduce that gives each PE the results computed by its neighbours.

    Neighbouring PEs have divided a computation between them. Each PE has its own results, and zeros
    instead of the other PEs' results.

    Args:
        c: Context of the phase being lowered.
        template: Step from which the rows of PEs and the op (operation of the model) are copied.
        axis: ROWS for lines along rows of PEs, COLUMNS for lines along columns.
        sets: First PE and length of each line segment whose PEs have divided a computation.
        at: Address of the results of a PE.
        elements: Number of elements on each PE.
        pairs: Address from which PEs read the number of (token, expert) pairs, if ``elements``
            depends on it.
    """
    length, lines = c.lines(axis)
    pattern = c.patterns.get(k_tree, length, lines, Arrival.ADD, broadcast=True, segments=tuple(sets), groups=())
    return line_step(template, pattern, axis, at, elements, pairs)
