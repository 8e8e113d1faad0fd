"""Rewrite: gather the outputs of a router from the columns that compute them.

A router has one output per expert. Each output is on one column, and every PE needs all outputs.
Without this rewrite, every column writes zeros for the outputs of other columns, and an all-reduce
along rows adds up the columns.

1. Columns do not write zeros for the outputs of other columns.
2. Instead of a reduce, each column sends its outputs to the middle column, which does not have to
   wait for sums. If the choice of experts depends on corrected scores, scores and corrected scores
   are sent together.
3. The middle column sends all outputs to every column.

If a region spans several wafers, the outputs are added up as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, all_of, needs_float32_sums, needs_router
from wse.compiler.rewrites.steps import address, count, in_place, is_line, line_step, number, runs, with_operands
from wse.compiler.symbolic import SymStep, fixed_number
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Replace every all-reduce of one token's router outputs with a gather and a multicast.

    Each router output (one per expert) is computed on one column of PEs, so nothing needs to be
    added up. The steps are modified in place. ``setting`` is not used.
    """
    if c.cut.span > 1:
        return  # between wafers, a sum sends fewer words than a gather
    for line in [step for step in block_steps.steps if is_line(step)]:
        end = block_steps.steps.index(line)
        begin = end
        while begin and runs(block_steps.steps[begin - 1], "router_place"):
            begin -= 1
        places = block_steps.steps[begin:end]
        if places and all(_has_one_token(place) for place in places) and _sums_outputs(line, places):
            block_steps.steps[begin : end + 1] = _gather_steps(c, line, places)


def _has_one_token(place: SymStep) -> bool:
    """Return whether a step stores the router outputs of one token, evenly divided over columns.

    A router has one output per expert.
    """
    return count(place, "M") == 1 and not count(place, "E") % count(place, "n")


def _sums_outputs(step: SymStep, places: Sequence[SymStep]) -> bool:
    """Return whether a step is an all-reduce of the router outputs, and of nothing else.

    Args:
        step: The step.
        places: Steps that store the router outputs one after another in a buffer.
    """
    is_separate, start, elements = step.loop < 0 and step.overlap < 0 and in_place(step), address(step, "source"), 0
    for place in places:
        is_separate = is_separate and address(place, "out") == start.plus(elements)
        elements += count(place, "E")
    return is_separate and step.axis == ROWS and count(step, "elements") == elements


def _gather_steps(c: Context, line: SymStep, places: Sequence[SymStep]) -> list[SymStep]:
    """Return the steps that gather router outputs in the middle column and multicast them.

    Args:
        c: Context of the phase being lowered.
        line: The all-reduce to replace.
        places: Steps that store the router outputs of a column at their places in a buffer.
    """
    length, lines = c.lines(ROWS)
    root, at, elements = length // 2, address(line, "source"), number(line, "elements")
    columns = count(places[0], "E") // count(places[0], "n")
    owners = tuple(range(count(places[0], "first"), count(places[0], "first") + columns))
    patterns = (
        c.patterns.get(gather, length, lines, owners * len(places), root),  # 2
        c.patterns.get(multicast, length, lines, root),  # 3
    )
    return [
        *(with_operands(place, zeros=fixed_number(0)) for place in places),  # 1
        *(line_step(line, pattern, ROWS, at, elements) for pattern in patterns),
    ]


REWRITE: Final = Rewrite(
    name="gathers",
    summary="A router's outputs are gathered and sent to all columns instead of being added to zeros.",
    source="collectives of message passing (MPI_Gather and MPI_Bcast, MPI standard 4.1, chapter 6)",
    position=90,
    apply=_apply,
    invalid=all_of(needs_router, needs_float32_sums),
)
