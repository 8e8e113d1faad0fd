"""Rewrite: divide the exponentials of softmax between the columns of a head group.

A head group is a set of neighbouring columns that share the features of the same heads. Scores are
all-reduced over its columns. Without this rewrite, every column computes the same exponentials.
With this rewrite, each of g neighbours computes 1 / g of the exponentials and fills in zeros for
the others. An exact sum over the g columns gives all exponentials to each of them.

1. The columns of a group are divided into sets of at least g columns.
2. Every PE computes its part of the exponentials.
3. An all-reduce inside each set combines the parts.
4. Every PE adds up the rounded weights, in the same order as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.shares import combine_shares, sharers_on
from wse.compiler.rewrites.steps import address, compute_step, kernel_of, number, runs, touches
from wse.compiler.symbolic import SymAddress, SymNumber, SymStep
from wse.program.steps import ROWS
from wse_mappings.cuts.split import balanced_segments, even_segments


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that the columns of a head group divide the softmax exponentials.

    A head group is a set of neighbouring columns of PEs that divide the features of the same heads.
    Without this rewrite, all of these columns compute the same exponentials. Nothing is changed if
    the columns used for attention cannot be divided into equal head groups, or if a group has too
    few columns.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        setting: Minimum number of neighbouring columns that divide the exponentials; fewer divide
            them if a head group is narrower (`sharers_on`).
    """
    segments, (first, cols) = c.cut.heads.segments, c.cut.attention
    even_segments_of_columns = [(first + start, width) for start, width in balanced_segments(cols, len(segments))]
    sharers = sharers_on(min(count for _, count in segments), setting)
    if list(segments) != even_segments_of_columns or not sharers:
        return
    for step in [step for step in block_steps.steps if runs(step, "attention_exp")]:
        index = block_steps.steps.index(step)
        use = _first_use(block_steps.steps, index)
        if use is not None:
            block_steps.steps[use:use] = [_sums(step, block_steps.steps[use])]
            block_steps.steps[index : index + 1] = _divided_steps(c, step, sharers)


def _first_use(steps: Sequence[SymStep], exp: int) -> int | None:
    """Return the index of the first step that uses the exponentials of a softmax or their sums.

    The rewrite inserts a step before it. The result is None if there is no such step, or if only
    one of the two steps (the first use, and the step that computes the exponentials) is in a loop.

    Args:
        steps: Steps of a block.
        exp: Index of the step that computes the exponentials.
    """
    results = [address(steps[exp], name).buffer for name in ("out", "sums")]
    use = next((i for i in range(exp + 1, len(steps)) if any(touches(steps[i], buffer) for buffer in results)), None)
    return None if use is None or (steps[exp].loop >= 0) != (steps[use].loop >= 0) else use


def _divided_steps(c: Context, step: SymStep, sharers: int) -> list[SymStep]:
    """Return steps in which neighbouring columns divide the softmax exponentials among themselves.

    Each column computes a part of the exponentials, and the columns then exchange their parts.

    Args:
        c: Context of the phase being lowered.
        step: Step that computes all exponentials on every column, which is replaced.
        sharers: Minimum number of neighbouring columns that divide the exponentials.
    """
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
    """Return a step in which each column of PEs adds up all softmax exponentials of its head.

    The columns have computed parts of the exponentials and exchanged them before.

    Args:
        step: Step that computes the exponentials.
        use: First step that needs the sums. The new step is put into the same loop.
    """
    operands: dict[str, Operand] = {"x": address(step, "out"), "sums": address(step, "sums")}
    sizes = {name: number(step, name) for name in ("M", "H", "T")}
    return compute_step(step, "softmax_sums", **operands, **sizes).copy_with(loop=use.loop)


REWRITE: Final = Rewrite(
    name="shared-exp",
    summary="Neighbouring columns of a head group each compute a part of the exponentials, and exchange the results.",
    source="this project: work that is replicated along a line is divided where the exchange costs less",
    position=40,
    apply=_apply,
    settings=(8, 4, 16),
)
