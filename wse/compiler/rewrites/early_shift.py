"""Cache entries shifted while the new queries, keys and values are summed, which they do not depend on.

A decoded token finds room on the last row once the rows have passed their oldest entries up. That waits for nothing
that the token brings, so it runs beside the all-reduce before it: the last one that comes before the shifts, where
nothing in between uses the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, is_cache_shift, is_line, touches
from wse.compiler.symbolic import SymStep


def _apply(c: Context, draft: Draft, setting: int) -> None:
    first = 0
    while (shifts := _next_shifts(draft.steps, first)) is not None:
        beside = _all_reduce_before(draft.steps, shifts)
        if beside is not None:
            loop, overlap = draft.add_loop(1), draft.add_group()
            group = [draft.steps[i].copy_with(loop=loop, overlap=overlap) for i in (beside, *shifts)]
            between = draft.steps[beside + 1 : shifts.start]
            draft.steps[beside : shifts.stop] = [*group, *between]
        first = shifts.stop


def _next_shifts(steps: Sequence[SymStep], first: int) -> range | None:
    """Return the next consecutive cache shifts outside of loops."""
    start = next((i for i in range(first, len(steps)) if is_cache_shift(steps[i]) and steps[i].loop < 0), None)
    if start is None:
        return None
    end = start
    while end < len(steps) and is_cache_shift(steps[end]) and steps[end].loop < 0:
        end += 1
    return range(start, end)


def _all_reduce_before(steps: Sequence[SymStep], shifts: range) -> int | None:
    """Return the last pattern before the shifts with which they can overlap."""
    caches = [address(steps[i], "source").buffer for i in shifts]
    for index in reversed(range(shifts.start)):
        if any(touches(steps[index], cache) for cache in caches):
            return None
        if is_line(steps[index]):
            return index if steps[index].loop < 0 else None
    return None


REWRITE: Final = Rewrite(
    name="early-shift",
    summary="Rows pass their oldest cache entries up while queries, keys and values are summed.",
    source="this project: a step starts when its operands are there",
    position=160,
    apply=_apply,
)
