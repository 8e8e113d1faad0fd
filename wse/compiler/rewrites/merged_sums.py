"""Rewrite: merge two all-reduces along the same lines if the second does not depend on the first.

In attention, both the softmax sums and the weighted values are plain sums over cache entries once
the maxima are known. Both can travel in one message, because the values are divided by the sums of
the weights afterwards.

1. Two all-reduces with the same pattern along the same lines can be merged if no step between them
   uses the sums of the first one.
2. The first one's sums are stored in front of the second one's sums.
3. One all-reduce combines both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.merged_messages import merged_line
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    count,
    in_place,
    is_line,
    live_range,
    same_lines,
    touches,
)
from wse.compiler.symbolic import SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Merge all-reduces along the same rows or columns of PEs, until no more can be merged.

    The steps are modified in place. ``setting`` is not used.
    """
    first = 0
    while first < len(block_steps.steps):
        second = _partner(block_steps.steps, first)
        if second is None or not _merge(c, block_steps.steps, first, second):
            first += 1


def _partner(steps: Sequence[SymStep], first: int) -> int | None:
    """Find an all-reduce that can be merged with an earlier one, and return its index or None.

    Both must run along the same lines of PEs, and no step between them may use the sums of the
    first one.

    Args:
        steps: Steps of a block.
        first: Index of the earlier all-reduce.
    """
    step = steps[first]
    if not (is_line(step) and in_place(step) and count(step, "elements") > 0 and not address(step, "source").offset):
        return None
    for index in range(first + 1, len(steps)):
        later_step = steps[index]
        if touches(later_step, address(step, "source").buffer):
            return None
        if is_line(later_step) and same_lines(later_step, step):
            return index if in_place(later_step) and not address(later_step, "source").offset else None
    return None


def _merge(c: Context, steps: list[SymStep], first: int, second: int) -> bool:
    """Merge two all-reduces into one, provided that their buffers can be combined.

    If this is impossible, for example because a buffer is filled by the steps of another layer,
    nothing is changed.

    Args:
        c: Context of the phase being lowered.
        steps: Steps of a block, modified in place.
        first, second: Indices of the all-reduces.

    Returns:
        Whether they were merged.
    """
    sums, values = address(steps[first], "source").buffer, address(steps[second], "source").buffer
    sums_live, values_live = live_range(steps, sums, first), live_range(steps, values, second)
    if sums_live is None or values_live is None or values_live.start <= sums_live.start:
        return False
    if count(steps[second], "elements") <= 0 or any(
        touches(step, values) for step in steps[sums_live.start : values_live.start]
    ):
        return False
    steps[second] = merged_line(c, steps, steps[second], values_live, steps[first], sums_live)  # 2, 3
    del steps[first]
    return True


REWRITE: Final = Rewrite(
    name="merged-sums",
    summary="Sums of softmax and weighted values travel in one all-reduce.",
    source="Flash-Decoding (Dao et al., 2023): partial sums and values of a split cache are reduced together",
    position=30,
    apply=_apply,
    invalid=needs_float32_sums,
)
