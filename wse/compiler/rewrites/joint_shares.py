"""Shares of two activations swapped in one message, where both are ready before the first is swapped.

With joint-blocks the sums of the experts and of the block beside them arrive together. Each is activated in shares
among the same neighbours, and each swap is an all-reduce of its own, which a task waits for. The second activation may
as well come right behind the first: its shares stand in front of the other's, which may be as many as a column has
pairs, and travel with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_shared_block
from wse.compiler.rewrites.steps import (
    address,
    by_pairs,
    count,
    is_line,
    live_range,
    move_buffer,
    number,
    runs,
    same_lines,
    touches,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep


def _apply(c: Context, draft: Draft, setting: int) -> None:
    shares = [i for i, step in enumerate(draft.steps) if runs(step, "activate_share")]
    for first, second in pairwise(shares):
        if _may_be_joined(draft.steps, first, second):
            _join(c, draft, first, second)
            return


def _may_be_joined(steps: Sequence[SymStep], first: int, second: int) -> bool:
    """Return whether the parts of two steps are exchanged in the same way, and the second can follow the first
    directly.
    """
    share, swaps = steps[second], [steps[first + 1], steps[second + 1]]
    if not all(is_line(swap) for swap in swaps) or not same_lines(*swaps):
        return False
    outs = [address(steps[i], "out") for i in (first, second)]
    whole = all(
        address(swap, "source") == address(swap, "target") == out
        and not out.offset
        and by_pairs(number(swap, "elements"))
        for swap, out in zip(swaps, outs, strict=True)
    )
    used = [address(share, name).buffer for name in ("x", "out")]
    ready = not any(touches(step, buffer) for step in steps[first + 1 : second] for buffer in used)
    return whole and ready and count(swaps[1], "elements") > 0


def _join(c: Context, draft: Draft, first: int, second: int) -> None:
    steps = draft.steps
    swap, other = steps[first + 1], steps[second + 1]
    elements, before = number(swap, "elements"), count(other, "elements")
    buffer, other_buffer = address(swap, "source").buffer, address(other, "source").buffer
    ranges = live_range(steps, buffer, first), live_range(steps, other_buffer, second)
    if ranges[0] is None or ranges[1] is None:
        return
    both = replace(elements, fixed=elements.fixed + before)
    c.temp(buffer.name, both.fixed, buffer.view, buffer.use)
    move_buffer(steps, ranges[0], buffer, buffer, before)
    move_buffer(steps, ranges[1], other_buffer, buffer, 0)
    start = SymAddress(buffer=buffer)
    joined = with_operands(steps[first + 1], source=start, target=start, elements=both)
    steps[first + 1 : second + 2] = [steps[second], joined, *steps[first + 2 : second]]


REWRITE: Final = Rewrite(
    name="joint-shares",
    summary="Shares of what the experts and the block beside them are activated to are swapped in one message.",
    source="this project: words along the same lines that do not wait for each other are one message",
    position=140,
    apply=_apply,
    invalid=needs_shared_block,
)
