"""Rewrite: merge the exchanges after two activations that neighbouring PEs have divided.

With the rewrite `shared_activation`, neighbours in a column each activate part of a block's
features. They then exchange the results in an all-reduce. With the rewrite `joint_blocks`, the
products of the experts and of the shared block are completed at the same time. The second
activation can therefore follow the first one directly, and both results travel in one message.
Results whose number depends on a column's (token, expert) pairs come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.merged_messages import merged_line
from wse.compiler.rewrites.rewrite import Rewrite, needs_shared_block
from wse.compiler.rewrites.steps import (
    address,
    count,
    is_line,
    live_range,
    number,
    runs,
    same_lines,
    touches,
    varies_by_pairs_only,
)
from wse.compiler.symbolic import SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Merge two exchanges of activation results between neighbouring PEs into one.

    With the rewrite `shared_activation`, neighbouring PEs divide the features of an activation
    function among themselves, and then exchange the results. This rewrite merges the exchanges of
    the first two consecutive activations for which this is possible. The steps are modified in
    place. ``setting`` is not used.
    """
    shares = [i for i, step in enumerate(block_steps.steps) if runs(step, "activate_share")]
    for first, second in pairwise(shares):
        if _may_be_merged(block_steps.steps, first, second):
            _merge(c, block_steps, first, second)
            return


def _may_be_merged(steps: Sequence[SymStep], first: int, second: int) -> bool:
    """Return whether the exchanges of two divided activations can be merged into one message.

    An activation is divided if neighbouring PEs each compute a part of it and then exchange the
    results. Both exchanges must run along the same rows or columns of PEs, and the second
    activation must be able to follow the first one directly.

    Args:
        steps: Steps of a block.
        first, second: Indices of the activations.
    """
    share, swaps = steps[second], [steps[first + 1], steps[second + 1]]
    if not all(is_line(swap) for swap in swaps) or not same_lines(*swaps):
        return False
    outs = [address(steps[i], "out") for i in (first, second)]
    are_whole = all(
        address(swap, "source") == address(swap, "target") == out
        and not out.offset
        and varies_by_pairs_only(number(swap, "elements"))
        for swap, out in zip(swaps, outs, strict=True)
    )
    second_buffers = [address(share, name).buffer for name in ("x", "out")]
    is_ready = not any(touches(step, buffer) for step in steps[first + 1 : second] for buffer in second_buffers)
    return are_whole and is_ready and count(swaps[1], "elements") > 0


def _merge(c: Context, block_steps: BlockSteps, first: int, second: int) -> None:
    """Move the second divided activation directly after the first, and merge their exchanges.

    An activation is a step that applies an activation function, such as SiLU. It is divided if each
    PE computes it for only some of the elements. In an exchange, the PEs then send their results to
    each other.

    1. Find the steps that use the results of each activation.
    2. Store the results of both activations in one buffer, the results of the second one first.
    3. Replace the two exchanges with a single exchange after both activations.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        first, second: Indices of the activations.
    """
    steps = block_steps.steps
    swap, other_swap = steps[first + 1], steps[second + 1]
    buffer, other_buffer = address(swap, "source").buffer, address(other_swap, "source").buffer
    ranges = live_range(steps, buffer, first), live_range(steps, other_buffer, second)  # 1
    if ranges[0] is None or ranges[1] is None:
        return
    combined_swap = merged_line(c, steps, swap, ranges[0], other_swap, ranges[1])  # 2
    # 3. One exchange.
    steps[first + 1 : second + 2] = [steps[second], combined_swap, *steps[first + 2 : second]]


REWRITE: Final = Rewrite(
    name="joint-shares",
    summary="The activated parts of the experts and of the shared block are exchanged in one message.",
    source="this project: words along the same lines that do not wait for each other are sent in one message",
    position=140,
    apply=_apply,
    invalid=needs_shared_block,
)
