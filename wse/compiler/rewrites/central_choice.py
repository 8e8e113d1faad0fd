"""Rewrite: select experts in the middle column, and send the selection instead of all outputs.

With the rewrite `gathers`, the middle column has all outputs of a router and sends them to every
column, and every PE makes the same choice. With this rewrite, the middle column makes the choice
first. The ids and weights of the selected experts take a few words, whereas the outputs and their
corrected values take hundreds.

All PEs run the same steps, so the other columns also make a choice, from whatever data they have.
The received choice overwrites it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_router
from wse.compiler.rewrites.steps import address, count, is_line, line_step, live_range, move_buffer, runs
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import LineSchedule

CHOOSING: Final = (
    *("router_scores", "router_correct", "router_limit", "router_mix", "router_choose", "chosen_softmax"),
    "scale_choice",
)
"""Kernels that compute a choice from the outputs of a router, in execution order."""


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that only the middle column selects experts, and multicasts them.

    The rewrite applies to a single token. Without it, the middle column of PEs multicasts all
    router outputs, and every PE selects the experts itself. ``setting`` is not used.
    """
    steps = block_steps.steps
    for multicast_step in [step for step in steps if _runs_pattern(c, step, multicast)]:
        index = end = steps.index(multicast_step)
        while end + 1 < len(steps) and any(runs(steps[end + 1], name) for name in CHOOSING):
            end += 1
        choices = [step for step in steps[index : end + 1] if runs(step, "router_choose")]
        if choices and _runs_pattern(c, steps[index - 1], gather) and count(choices[0], "M") == 1:
            _choose_first(c, block_steps, index, end, choices[0])


def _runs_pattern(c: Context, step: SymStep, make: Callable[..., LineSchedule]) -> bool:
    """Return whether a step is a transfer along rows or columns of PEs, with a pattern of a given kind.

    Args:
        c: Context of the phase being lowered.
        step: The step.
        make: Function that creates the pattern, such as `gather`.
    """
    return is_line(step) and c.patterns.calls[step.pattern].make is make


def _choose_first(c: Context, block_steps: BlockSteps, index: int, end: int, choose: SymStep) -> None:
    """Move the selection of experts before the multicast, which then sends only ids and weights.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        index: Index of the step that multicasts the router outputs.
        end: Index of the last step of the selection.
        choose: Step that selects the experts.
    """
    steps, A = block_steps.steps, count(choose, "A")
    parts = [address(choose, name).buffer for name in ("ids", "weights")]
    ranges = [live_steps for part in parts if (live_steps := live_range(steps, part, steps.index(choose))) is not None]
    if len(ranges) < len(parts):
        return
    choice_buffer = c.temp("chosen", 2 * A, "f32")
    for number, (part, live_steps) in enumerate(zip(parts, ranges, strict=True)):
        move_buffer(steps, live_steps, part, choice_buffer, number * A)
    multicast_step = line_step(
        steps[index], steps[index].pattern, ROWS, SymAddress(buffer=choice_buffer), fixed_number(2 * A)
    )
    steps[index : end + 1] = [*steps[index + 1 : end + 1], multicast_step]


REWRITE: Final = Rewrite(
    name="central-choice",
    summary="The column that gathers a router's outputs selects the experts, and sends only the selection.",
    source="this project: a selection has fewer words than the data it is made from",
    position=110,
    apply=_apply,
    invalid=needs_router,
)
