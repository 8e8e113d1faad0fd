"""A choice of experts in the middle column alone: what it sends to all others is who was chosen, not all outputs.

With gathers the middle column has all outputs of a router, sends them to every column, and every PE makes the same
choice. The column may as well choose first: ids and weights of the chosen experts are a few words, where the outputs,
and with a correction what they are chosen by, are hundreds. The other columns choose among what they have, as all PEs
run the same steps, and what arrives takes its place.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, count, is_line, line_step, live_range, move_buffer, runs
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.models.spec import ModelSpec
from wse.program.steps import ROWS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast

CHOOSING: Final = ("router_scores", "router_correct", "router_limit", "router_choose", "chosen_softmax")
"""The kernels that make a choice of a router's outputs, in their order."""


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    for sent in [step for step in steps if is_line(step) and c.patterns.calls[step.pattern].make is multicast]:
        index = end = steps.index(sent)
        while end + 1 < len(steps) and any(runs(steps[end + 1], name) for name in CHOOSING):
            end += 1
        choices = [step for step in steps[index : end + 1] if runs(step, "router_choose")]
        if choices and _is_gathered(c, steps[index - 1]) and count(choices[0], "M") == 1:
            _choose_first(c, draft, index, end, choices[0])


def _is_gathered(c: Context, step: SymStep) -> bool:
    return is_line(step) and c.patterns.calls[step.pattern].make is gather


def _choose_first(c: Context, draft: Draft, index: int, end: int, choose: SymStep) -> None:
    """Choose in the middle column, and send the choice instead of the scores."""
    steps, A = draft.steps, count(choose, "A")
    parts = [address(choose, name).buffer for name in ("ids", "weights")]
    ranges = [within for part in parts if (within := live_range(steps, part, steps.index(choose))) is not None]
    if len(ranges) < len(parts):
        return
    chosen = c.temp("chosen", 2 * A, "f32")
    for number, (part, within) in enumerate(zip(parts, ranges, strict=True)):
        move_buffer(steps, within, part, chosen, number * A)
    sent = line_step(steps[index], steps[index].pattern, ROWS, SymAddress(buffer=chosen), fixed_number(2 * A))
    steps[index : end + 1] = [*steps[index + 1 : end + 1], sent]


def _invalid(spec: ModelSpec, options: Options) -> str:
    return "" if spec.experts else f"{spec.name} has no router"


REWRITE: Final = Rewrite(
    name="central-choice",
    summary="The column that gathers a router's outputs chooses, and sends all others the chosen experts alone.",
    source="this project: what is chosen is fewer words than what it is chosen from",
    position=110,
    apply=_apply,
    invalid=_invalid,
)
