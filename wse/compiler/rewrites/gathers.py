"""A router's outputs gathered from the columns that have them, where they were summed with the zeros of all others.

Each output of a router is on one column, and every PE needs all.

1. A column writes no zeros where others have outputs.
2. Instead of a reduce, each column sends the outputs that it has to the one in the middle: no word waits for a sum.
   Scores go there with what they are chosen by.
3. That column sends all of them to every column, as an all-reduce does.

Where a region spans wafers the outputs are summed as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import address, count, in_place, is_line, line_step, number, runs, with_operands
from wse.compiler.symbolic import SymStep, fixed_number
from wse.models.spec import ModelSpec
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast


def _apply(c: Context, draft: Draft, setting: int) -> None:
    if c.cut.span > 1:
        return  # outputs go between wafers, where words that add up to one travel as one
    for line in [step for step in draft.steps if is_line(step)]:
        end = draft.steps.index(line)
        begin = end
        while begin and runs(draft.steps[begin - 1], "router_place"):
            begin -= 1
        places = draft.steps[begin:end]
        if places and all(_goes_alone(place) for place in places) and _sums_outputs(line, places):
            draft.steps[begin : end + 1] = _gather_steps(c, line, places)


def _goes_alone(place: SymStep) -> bool:
    """Return whether a step places the outputs of one token, the same number on every column that has any."""
    return count(place, "M") == 1 and not count(place, "E") % count(place, "n")


def _sums_outputs(step: SymStep, places: Sequence[SymStep]) -> bool:
    """Return whether a step is an all-reduce along rows of exactly what steps have placed side by side."""
    alone, start, elements = step.loop < 0 and step.overlap < 0 and in_place(step), address(step, "source"), 0
    for place in places:
        alone = alone and address(place, "out") == replace(start, offset=start.offset + elements)
        elements += count(place, "E")
    return alone and step.axis == ROWS and count(step, "elements") == elements


def _gather_steps(c: Context, line: SymStep, places: Sequence[SymStep]) -> list[SymStep]:
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


def _invalid(spec: ModelSpec, options: Options) -> str:
    return needs_float32_sums(spec, options) if spec.experts else f"{spec.name} has no router"


REWRITE: Final = Rewrite(
    name="gathers",
    summary="A router's outputs are gathered and sent to all columns, in place of being summed with zeros.",
    source="collectives of message passing (MPI_Gather and MPI_Bcast, MPI standard 4.1, chapter 6)",
    position=90,
    apply=_apply,
    invalid=_invalid,
)
