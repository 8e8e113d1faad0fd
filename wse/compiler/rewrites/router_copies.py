"""Rewrite: compute all outputs of a router on each of several column segments, close to all PEs.

With the rewrite `gathers`, the outputs of a token travel to the middle column and from there along
half a row. A router has few weights, so each of several column segments can compute all outputs and
gather them in its own middle. The outputs of each column are added up along the column in the same
order as before, so all segments have the same values.

1. A column places its outputs according to its position in its segment.
2. Outputs are gathered in the middle column of each segment.
3. The outputs are multicast to the columns of the segment.

The setting is the maximum number of outputs per column. With setting 1, no PE stores more than
without copies. There is a single segment if the region has too few columns for two segments or
spans several wafers. With several tokens, the outputs are all-reduced along whole rows, and only
the outputs of the segment in the middle are used.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import ROUTER_COPIES
from wse.compiler.rewrites import gathers
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import count, is_line, runs, with_operands
from wse.compiler.symbolic import fixed_number
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Gather the router's outputs within segments of columns instead of along the whole row.

    A router has one output (score) per expert. Each segment of columns computes all outputs itself,
    so the words travel shorter paths. The steps are modified in place. ``setting`` is the maximum
    number of outputs per column. It is not used here, because it has already determined how the
    outputs are partitioned across columns.
    """
    steps, (length, lines) = block_steps.steps, c.lines(ROWS)
    for index in [i for i, step in enumerate(steps) if is_line(step) and i and runs(steps[i - 1], "router_place")]:
        call, columns = c.patterns.calls[steps[index].pattern], c.router_columns
        if call.make is not gather or columns == length:
            continue
        owners = [owner % columns for owner in call.args[2]]
        first = index
        while first and runs(steps[first - 1], "router_place"):
            first -= 1
        for number in range(first, index):  # 1
            place = steps[number]
            first_column = fixed_number(count(place, "first") % columns)
            steps[number] = with_operands(place, first=first_column, columns=fixed_number(columns))
        segment_count, root = length // columns, columns // 2
        patterns = (
            c.patterns.get(gather, length, lines, tuple(owners), root, segment_count),  # 2
            c.patterns.get(multicast, length, lines, root, segment_count),  # 3
        )
        steps[index : index + 2] = [
            step.copy_with(pattern=pattern) for step, pattern in zip(steps[index : index + 2], patterns, strict=True)
        ]


REWRITE: Final = Rewrite(
    name=ROUTER_COPIES,
    summary="Column segments each compute all outputs of a router, which are gathered and multicast inside them.",
    source="this project: small data is replicated close to its readers",
    position=100,
    apply=_apply,
    invalid=gathers.REWRITE.invalid,
    settings=(1, 2),
)
