"""Two all-reduces of sums along the same lines as one message, where the second does not wait for the first.

The sums of softmax's weights and the weighted values are both plain sums once the maxima are known, so they travel
together; the values are divided afterwards in any case.

1. Of two all-reduces with one pattern along the same lines, nothing between them may use what the first has summed.
2. The first one's sums stand in front of the second one's from where they are made on.
3. One all-reduce has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    count,
    in_place,
    is_line,
    live_range,
    move_buffer,
    same_lines,
    touches,
    with_operands,
)
from wse.compiler.symbolic import SymStep, fixed_number


def _apply(c: Context, draft: Draft, setting: int) -> None:
    first = 0
    while first < len(draft.steps):
        second = _partner(draft.steps, first)
        if second is None or not _merge(c, draft.steps, first, second):
            first += 1


def _partner(steps: Sequence[SymStep], first: int) -> int | None:
    """1. Return the all-reduce that can be merged with the one at ``first``."""
    step = steps[first]
    if not (is_line(step) and in_place(step) and count(step, "elements") > 0 and not address(step, "source").offset):
        return None
    for index in range(first + 1, len(steps)):
        later = steps[index]
        if touches(later, address(step, "source").buffer):
            return None
        if is_line(later) and same_lines(later, step):
            return index if in_place(later) and not address(later, "source").offset else None
    return None


def _merge(c: Context, steps: list[SymStep], first: int, second: int) -> bool:
    """Merge two all-reduces if all uses of their buffers are in these steps; return whether they were merged."""
    sums, values = address(steps[first], "source").buffer, address(steps[second], "source").buffer
    few, many = count(steps[first], "elements"), count(steps[second], "elements")
    of_sums, of_values = live_range(steps, sums, first), live_range(steps, values, second)
    if of_sums is None or of_values is None or many <= 0 or of_values.start <= of_sums.start:
        return False
    if any(touches(step, values) for step in steps[of_sums.start : of_values.start]):
        return False
    # 2. Sums in front of values.
    c.temp(values.name, few + many, values.view, values.use)
    move_buffer(steps, of_values, values, values, few)
    move_buffer(steps, of_sums, sums, values, 0)
    # 3. One all-reduce.
    source = address(steps[first], "source")
    steps[second] = with_operands(steps[second], source=source, target=source, elements=fixed_number(few + many))
    del steps[first]
    return True


REWRITE: Final = Rewrite(
    name="merged-sums",
    summary="Sums of softmax and weighted values travel in one all-reduce.",
    source="Flash-Decoding (Dao et al., 2023): partial sums and values of a split cache reduced at once",
    position=30,
    apply=_apply,
    invalid=needs_float32_sums,
)
