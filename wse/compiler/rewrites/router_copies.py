"""A router's outputs on every stretch of columns, so that they reach all PEs from nearby.

With gathers the outputs of a token go to the middle column, and from there along half a row. A router has few weights:
stretches of columns may have all of them each, and gather and send what they made among themselves. Every column's
outputs are summed down its rows as before, in the same order, so that all stretches have the same values.

1. A column places its outputs as its place in its stretch says.
2. Outputs go to the middle column of each stretch,
3. and from there to its columns.

The setting is the most outputs of a column: with one, no PE stores more than without copies. Where a region has fewer
columns than a second copy takes, or spans wafers, there is one stretch. Several tokens are summed along whole rows
with the outputs of the stretch in the middle.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import ROUTER_COPIES
from wse.compiler.rewrites import gathers
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import count, is_line, runs, with_operands
from wse.compiler.symbolic import fixed_number
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps, (length, lines) = draft.steps, c.lines(ROWS)
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
            own = fixed_number(count(place, "first") % columns)
            steps[number] = with_operands(place, first=own, columns=fixed_number(columns))
        stretches, root = length // columns, columns // 2
        patterns = (
            c.patterns.get(gather, length, lines, tuple(owners), root, stretches),  # 2
            c.patterns.get(multicast, length, lines, root, stretches),  # 3
        )
        steps[index : index + 2] = [
            step.copy_with(pattern=pattern) for step, pattern in zip(steps[index : index + 2], patterns, strict=True)
        ]


REWRITE: Final = Rewrite(
    name=ROUTER_COPIES,
    summary="Stretches of columns have all of a router's outputs each, which are gathered and sent inside of them.",
    source="this project: what is small is kept near those that need it",
    position=100,
    apply=_apply,
    invalid=gathers.REWRITE.invalid,
    settings=(1, 2),
)
