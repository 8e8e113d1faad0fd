"""A router's outputs gathered from the columns that have them, where they were summed with the zeros of all others.

Each output of a router is on one column, and every PE needs all.

1. A column writes no zeros where others have outputs.
2. In place of a reduce, each column sends the outputs that it has to the one in the middle: no word waits for a sum.
3. That column sends all of them to every column, as an all-reduce does.

Where a region spans wafers the outputs are summed as they are.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lower.builder import Draft
from wse.compiler.lower.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import address, count, in_place, is_line, line_step, number, runs, with_operands
from wse.compiler.state import SymStep, fixed_number
from wse.models.spec import ModelSpec
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    if c.cut.span > 1:
        return  # outputs go between wafers, where words that add up to one travel as one
    for place in [step for step in steps[:-1] if runs(step, "router_place") and count(step, "M") == 1]:
        index = steps.index(place)
        step = steps[index + 1]
        columns, remainder = divmod(count(place, "E"), count(place, "n"))
        if not remainder and _sums_outputs(step, place):
            length, lines = c.lines(ROWS)
            first, root = count(place, "first"), length // 2
            patterns = (
                c.patterns.get(gather, length, lines, tuple(range(first, first + columns)), root),  # 2
                c.patterns.get(multicast, length, lines, root),  # 3
            )
            at, elements = address(step, "source"), number(step, "elements")
            steps[index : index + 2] = [
                with_operands(place, zeros=fixed_number(0)),  # 1
                *(line_step(step, pattern, ROWS, at, elements) for pattern in patterns),
            ]


def _sums_outputs(step: SymStep, place: SymStep) -> bool:
    """Whether a step is an all-reduce along rows of what step ``place`` has placed, and of nothing else."""
    alone = step.loop < 0 and step.overlap < 0
    same = is_line(step) and address(step, "source") == address(place, "out") and in_place(step)
    return alone and same and step.axis == ROWS and count(step, "elements") == count(place, "E")


def _invalid(spec: ModelSpec, options: Options) -> str:
    return needs_float32_sums(spec, options) if spec.experts else f"{spec.name} has no router"


REWRITE: Final = Rewrite(
    name="gathers",
    summary="A router's outputs are gathered and sent to all columns, in place of being summed with zeros.",
    source="collectives of message passing (MPI_Gather and MPI_Bcast, MPI standard 4.1, chapter 6)",
    apply=_apply,
    invalid=_invalid,
)
