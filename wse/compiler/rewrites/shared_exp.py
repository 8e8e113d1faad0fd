"""Exponentials of softmax shared among the columns of a head group, which would all compute the same.

Scores are summed over the columns of a head group, and each of these takes the exponentials of all of them. Of g
neighbours each takes 1 / g, and adds zeros for the others; a sum over the g columns, which is exact, gives each all.

1. The columns of a group are cut into sets of at least g.
2. Every PE takes its share of the exponentials.
3. An all-reduce inside each set brings the shares together.
4. Every PE sums the weights, rounded as they are, in the order in which it did before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.shares import combine_shares
from wse.compiler.rewrites.steps import address, compute_step, kernel_of, number, runs, touches
from wse.compiler.symbolic import SymAddress, SymNumber, SymStep
from wse.program.steps import ROWS
from wse_mappings.cuts.split import balanced_segments, even_segments


def _apply(c: Context, draft: Draft, setting: int) -> None:
    segments, (first, cols) = c.cut.heads.segments, c.cut.attention
    even = [(first + start, width) for start, width in balanced_segments(cols, len(segments))]
    if list(segments) != even or min(count for _, count in segments) < setting:
        return
    for step in [step for step in draft.steps if runs(step, "attention_exp")]:
        index = draft.steps.index(step)
        use = _first_use(draft.steps, index)
        if use is not None:
            draft.steps[use:use] = [_sums(step, draft.steps[use])]
            draft.steps[index : index + 1] = _shared_steps(c, step, setting)


def _first_use(steps: Sequence[SymStep], exp: int) -> int | None:
    """Return the first step that uses the weights or sums of step ``exp``, if sums can be computed before it.

    In a loop over users those can be taken only where the weights are used in another one.
    """
    made = [address(steps[exp], name).buffer for name in ("out", "sums")]
    use = next((i for i in range(exp + 1, len(steps)) if any(touches(steps[i], buffer) for buffer in made)), None)
    return None if use is None or (steps[exp].loop >= 0) != (steps[use].loop >= 0) else use


def _shared_steps(c: Context, step: SymStep, sharers: int) -> list[SymStep]:
    segments, kernel = c.cut.heads.segments, kernel_of(step)
    assert kernel is not None
    sets = [part for start, width in segments for part in even_segments(start, width, width // sharers)]  # 1
    operands: dict[str, Operand] = {name: step.operands[i] for name, i in kernel.index.items() if name != "sums"}
    operands |= {"first_col": c.cut.attention[0], "columns": c.cut.attention[1]}
    operands |= {"groups": len(segments), "sharers": sharers}
    share = compute_step(step, "attention_exp_share", **operands).copy_with(loop=step.loop)  # 2
    weights = SymAddress(buffer=address(step, "out").buffer)
    heads = c.tokens * number(step, "H").fixed
    return [share, combine_shares(c, step, ROWS, sets, weights, SymNumber(per_slot=heads))]  # 3


def _sums(step: SymStep, use: SymStep) -> SymStep:
    """4. Return the sums of the weights of a step, in the loop of the step before which they are needed."""
    operands: dict[str, Operand] = {"x": address(step, "out"), "sums": address(step, "sums")}
    sizes = {name: number(step, name) for name in ("M", "H", "T")}
    return compute_step(step, "softmax_sums", **operands, **sizes).copy_with(loop=use.loop)


REWRITE: Final = Rewrite(
    name="shared-exp",
    summary="Neighbouring columns of a head group take a share of the exponentials each, and swap what they have.",
    source="this project: work that is replicated along a line is divided where swapping costs less",
    position=40,
    apply=_apply,
    settings=(8, 4, 16),
)
