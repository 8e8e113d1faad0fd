"""Shares of what neighbours on a line divide among them, brought together: each has zeros where another has a share."""

from __future__ import annotations

from collections.abc import Sequence

from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.steps import NO_PAIRS, line_step
from wse.compiler.symbolic import SymAddress, SymNumber, SymStep
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival


def combine_shares(
    c: Context,
    like: SymStep,
    axis: int,
    sets: Sequence[tuple[int, int]],
    at: SymAddress,
    elements: SymNumber,
    pairs: SymAddress | SymNumber = NO_PAIRS,
) -> SymStep:
    """Return the step that gives all PEs of a set the parts of the others: an exact sum over the set.

    ``sets`` are (start, length) of stretches of the lines along ``axis``; ``like`` is a step of the same rows and op;
    ``pairs`` as of `line_step`.
    """
    length, lines = c.lines(axis)
    pattern = c.patterns.get(k_tree, length, lines, Arrival.ADD, broadcast=True, segments=tuple(sets), groups=())
    return line_step(like, pattern, axis, at, elements, pairs)
