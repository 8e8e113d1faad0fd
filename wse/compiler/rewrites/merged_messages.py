"""Merging of two all-reduces into one, which sends the elements of both in one message."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.steps import address, count, move_buffer, number, with_operands
from wse.compiler.symbolic import SymAddress, SymStep


def merged_line(
    c: Context, steps: list[SymStep], line: SymStep, live_steps: range, front_line: SymStep, front_live_steps: range
) -> SymStep:
    """Return an all-reduce that also combines the elements of another one.

    The elements of the other all-reduce are stored in front of its own elements, in its own buffer.
    The caller must replace both all-reduces by the result.

    Args:
        c: Context of the phase being lowered.
        steps: Steps of a block. The addresses of the moved elements are changed in place.
        line: The all-reduce whose buffer receives the elements of both.
        live_steps: Range of steps during which this buffer stores its elements.
        front_line: The other all-reduce, whose number of elements must be constant.
        front_live_steps: Range of steps during which its buffer stores its elements.
    """
    buffer, elements = address(line, "source").buffer, number(line, "elements")
    front_elements = count(front_line, "elements")
    merged_elements = replace(elements, fixed=elements.fixed + front_elements)
    c.temp(buffer.name, merged_elements.fixed, buffer.view, buffer.use)
    move_buffer(steps, live_steps, buffer, buffer, front_elements)
    move_buffer(steps, front_live_steps, address(front_line, "source").buffer, buffer, 0)
    start = SymAddress(buffer=buffer)
    return with_operands(line, source=start, target=start, elements=merged_elements)
