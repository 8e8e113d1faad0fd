"""Activation functions shared among neighbours, which swap results, where all of a column would work out the same.

What gate and up make is replicated down the columns, and so each PE of a column activates all n features of it. Of g
neighbours each activates n / g, and adds zeros for the others; a sum over the g PEs, which is exact, gives each all n.

1. The columns are cut into groups of at least g rows.
2. Every PE activates its share. Where what it activates is scaled right before, and read nowhere else, it scales its
   share alone.
3. An all-reduce inside each group brings the shares together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lower.builder import Draft
from wse.compiler.lower.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.shares import gather_step
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, kernel_of, live_range, runs, touches
from wse.compiler.state import SymStep, fixed_number
from wse.program.steps import COLUMNS
from wse_mappings.cuts.split import even_segments


def _apply(c: Context, draft: Draft, setting: int) -> None:
    rows = c.cut.rows
    groups = rows // setting  # 1
    if groups == 0:
        return
    for step in [step for step in draft.steps if runs(step, "activate") and step.loop < 0]:
        index = draft.steps.index(step)
        if count(step, "M") > 0 and _is_replicated(draft.steps[:index], step):
            if _scales_for(draft.steps, index):
                draft.steps[index - 1] = _scaled_share(c, draft.steps[index - 1], step, groups)
            draft.steps[index : index + 1] = _shared(c, step, groups)


def _is_replicated(before: Sequence[SymStep], step: SymStep) -> bool:
    """Whether what a step activates was summed down whole columns."""
    x = address(step, "x").buffer
    line = next((s for s in reversed(before) if is_line(s) and touches(s, x)), None)
    return line is not None and line.axis == COLUMNS


def _scales_for(steps: Sequence[SymStep], activation: int) -> bool:
    """Whether the step before an activation scales all that it reads, for nothing else."""
    step, before, x = steps[activation], steps[activation - 1], address(steps[activation], "x")
    if not runs(before, "rms_scale_sums") or before.loop >= 0 or address(before, "x") != x:
        return False
    width = (1 + count(step, "gated")) * count(step, "n")
    within = live_range(steps, x.buffer, activation)
    read = within is None or any(touches(steps[i], x.buffer) for i in range(activation + 1, within.stop))
    return not read and (count(before, "M"), count(before, "N")) == (count(step, "M"), width)


def _scaled_share(c: Context, scaling: SymStep, step: SymStep, groups: int) -> SymStep:
    """The scaling of the share of features that a PE activates."""
    kernel = kernel_of(scaling)
    assert kernel is not None
    operands = {name: scaling.operands[i] for name, i in kernel.index.items() if name != "N"}
    sizes = {"n": count(step, "n"), "parts": 1 + count(step, "gated"), "length": c.cut.rows, "groups": groups}
    return compute_step(scaling, "rms_scale_share", **operands, **sizes)


def _shared(c: Context, step: SymStep, groups: int) -> list[SymStep]:
    rows, kernel = c.cut.rows, kernel_of(step)
    assert kernel is not None
    operands = {name: step.operands[i] for name, i in kernel.index.items()}
    share = compute_step(step, "activate_share", **operands, length=rows, groups=groups)  # 2
    out, elements = address(step, "out"), fixed_number(count(step, "M") * count(step, "n"))
    return [share, gather_step(c, step, COLUMNS, even_segments(0, rows, groups), out, elements)]  # 3


REWRITE: Final = Rewrite(
    name="shared-activation",
    summary="Neighbours in a column activate a share of the features each, and swap what they have.",
    source="this project: work that is replicated along a line is divided where swapping costs less",
    apply=_apply,
    settings=(8, 4, 16),
)
