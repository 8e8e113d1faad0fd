"""The block that all tokens use beside the experts that they were routed to: one all-reduce inward, one outward.

Both blocks read the same normalised vectors, and both are added to the residual stream. Their sums are taken along the
same lines, so the shared block's travel in front of the experts', and its own two all-reduces are saved.

1. The experts' all-reduces and the step that joins the stream are found, and the same of the shared block behind them,
   whose products must be ready before the experts' first all-reduce.
2. The shared block's sums stand in front of the experts', in their buffers; those may be as many as a column has pairs.
3. The order is: products inward of both, an all-reduce of both, what each makes of it, products outward of both, an
   all-reduce of both; then each joins the stream, in the order as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.lowering.dispatch import expert_stage
from wse.compiler.rewrites.rewrite import Rewrite, needs_shared_block
from wse.compiler.rewrites.steps import (
    address,
    by_pairs,
    count,
    in_place,
    is_line,
    kernel_of,
    live_range,
    move_buffer,
    number,
    same_lines,
    touches,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymBuffer, SymStep


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The two all-reduces of a feed-forward block, by index, and the index after its last step."""

    inward: int
    outward: int
    end: int


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps, blocks = draft.steps, _blocks(draft.steps)
    if blocks is None or expert_stage(c) is not None:
        return
    experts, shared = blocks
    # 2. In front of the experts' sums.
    lines = ((experts.inward, shared.inward), (experts.outward, shared.outward))
    ranges = [tuple(live_range(steps, _sums(steps[line]), line) for line in pair) for pair in lines]
    if any(own is None or other is None or other.start < experts.end for own, other in ranges):
        return
    all_reduces = []
    for (line, other_line), (own, other) in zip(lines, ranges, strict=True):
        assert own is not None
        assert other is not None
        buffer, elements = _sums(steps[line]), number(steps[line], "elements")
        first = count(steps[other_line], "elements")
        both = replace(elements, fixed=elements.fixed + first)
        c.temp(buffer.name, both.fixed, buffer.view, buffer.use)
        move_buffer(steps, own, buffer, buffer, first)
        move_buffer(steps, other, _sums(steps[other_line]), buffer, 0)
        start = SymAddress(buffer=buffer)
        all_reduces.append(with_operands(steps[line], source=start, target=start, elements=both))
    # 3. The order.
    draft.steps = [
        *steps[: experts.inward],
        *steps[experts.end : shared.inward],
        all_reduces[0],
        *steps[experts.inward + 1 : experts.outward],
        *steps[shared.inward + 1 : shared.outward],
        all_reduces[1],
        *steps[experts.outward + 1 : experts.end],
        *steps[shared.outward + 1 :],
    ]


def _blocks(steps: Sequence[SymStep]) -> tuple[_Block, _Block] | None:
    """1. Return the experts' block and the shared block after it, if they have the known form."""
    outwards = [i for i, step in enumerate(steps) if _kernel_name(step).startswith("expert_out")]
    lines = [i for i, step in enumerate(steps) if is_line(step)]
    if len(outwards) != 1:
        return None
    before, behind = [i for i in lines if i < outwards[0]], [i for i in lines if i > outwards[0]]
    if not before or len(behind) < 3:
        return None
    experts = _Block(inward=before[-1], outward=behind[0], end=_end(steps, behind[0]))
    shared = _Block(inward=behind[1], outward=behind[2], end=_end(steps, behind[2]))
    pairs = ((experts.inward, shared.inward), (experts.outward, shared.outward))
    fixed = all(in_place(steps[i]) and count(steps[i], "elements") > 0 for _, i in pairs)
    whole = all(_is_whole(steps[i]) for pair in pairs for i in pair)
    alike = all(same_lines(steps[a], steps[b]) for a, b in pairs)
    if not (fixed and whole and alike) or any(step.loop >= 0 for step in steps[experts.inward : shared.end]):
        return None
    made = [_sums(steps[i]) for i in (experts.inward, experts.outward)]
    last = steps[experts.end - 1]
    stream = address(last, "x").buffer if _kernel_name(last) == "residual_add" else None
    products = steps[experts.end : shared.inward]
    ready = not any(touches(step, buffer) for step in products for buffer in (stream, *made) if buffer is not None)
    return (experts, shared) if ready and stream is not None else None


def _end(steps: Sequence[SymStep], outward: int) -> int:
    """Return the index after the step that adds to the residual stream."""
    joining = outward + 1
    while joining + 1 < len(steps) and _kernel_name(steps[joining]) == "copy":
        joining += 1
    return joining + 1


def _is_whole(line: SymStep) -> bool:
    """Return whether a pattern covers a buffer from its beginning, in place, equally in every iteration."""
    at = address(line, "source")
    return at == address(line, "target") and not at.offset and by_pairs(number(line, "elements"))


def _sums(line: SymStep) -> SymBuffer:
    return address(line, "source").buffer


def _kernel_name(step: SymStep) -> str:
    kernel = kernel_of(step)
    return "" if kernel is None else kernel.name


REWRITE: Final = Rewrite(
    name="joint-blocks",
    summary="Sums of the block that all tokens use travel with those of the experts, inward and outward.",
    source="this project: sums along the same lines that do not wait for each other are one message",
    position=20,
    apply=_apply,
    invalid=needs_shared_block,
)
