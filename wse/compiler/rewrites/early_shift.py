"""Rewrite: shift entries of the KV cache while queries, keys and values are all-reduced.

Before a decoded token can be appended on the last row, the other rows pass their oldest entries up.
This does not depend on the token. The shifts run in parallel with the preceding all-reduce if no
step in between uses the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, is_cache_shift, is_line, touches
from wse.compiler.symbolic import SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that KV-cache shifts run in parallel with the preceding all-reduce.

    A shift passes cache entries from row to row of PEs. It does not need the result of the
    all-reduce. ``setting`` is not used.
    """
    first = 0
    while (shifts := _next_shifts(block_steps.steps, first)) is not None:
        line_index = _all_reduce_before(block_steps.steps, shifts)
        if line_index is not None:
            group = block_steps.add_group()
            parallel_steps = [block_steps.steps[i].copy_with(**group) for i in (line_index, *shifts)]
            steps_between = block_steps.steps[line_index + 1 : shifts.start]
            block_steps.steps[line_index : shifts.stop] = [*parallel_steps, *steps_between]
        first = shifts.stop


def _next_shifts(steps: Sequence[SymStep], first: int) -> range | None:
    """Return the next consecutive steps, outside loops, that shift KV-cache entries between rows.

    Args:
        steps: Steps of the block.
        first: Index of the step from which to search.

    Returns:
        The range of their indices; None if there are no more such steps.
    """
    start = next((i for i in range(first, len(steps)) if is_cache_shift(steps[i]) and steps[i].loop < 0), None)
    if start is None:
        return None
    end = start
    while end < len(steps) and is_cache_shift(steps[end]) and steps[end].loop < 0:
        end += 1
    return range(start, end)


def _all_reduce_before(steps: Sequence[SymStep], shifts: range) -> int | None:
    """Return the index of the transfer during which the given KV-cache shifts can run.

    Args:
        steps: Steps of the block.
        shifts: Indices of the shifts.

    Returns:
        Index of the last transfer along rows or columns before the shifts. None if there is none,
        if it is in a loop, or if it or a later step uses the cache.
    """
    caches = [address(steps[i], "source").buffer for i in shifts]
    for index in reversed(range(shifts.start)):
        if any(touches(steps[index], cache) for cache in caches):
            return None
        if is_line(steps[index]):
            return index if steps[index].loop < 0 else None
    return None


REWRITE: Final = Rewrite(
    name="early-shift",
    summary="Rows pass their oldest cache entries up while queries, keys and values are all-reduced.",
    source="this project: a step starts as soon as its operands are available",
    position=160,
    apply=_apply,
)
