"""Rewrite: merge the all-reduces of the shared block and of the experts.

A shared block is a feed-forward block that every token uses in addition to its experts. Both read
the same normalised vectors, and both results are added to the residual stream. Their sums are taken
along the same lines, so the shared block's sums can travel in front of the experts' sums. This
saves two all-reduces.

1. Find the two all-reduces of the experts and the step that adds to the residual stream, and then
   the corresponding steps of the shared block. The shared block's products must be available before
   the first all-reduce of the experts.
2. Store the shared block's sums in front of the experts' sums, in the experts' buffers. The number
   of the experts' sums may depend on the (token, expert) pairs of a column.
3. Reorder the steps: first products of both, their all-reduce, activation of both, second products
   of both, their all-reduce. Then both are added to the residual stream, in the same order as
   before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wse.compiler.lowering.dispatch import expert_stage
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.merged_messages import merged_line
from wse.compiler.rewrites.rewrite import Rewrite, needs_shared_block
from wse.compiler.rewrites.steps import (
    address,
    count,
    in_place,
    is_line,
    kernel_of,
    live_range,
    number,
    same_lines,
    touches,
    varies_by_pairs_only,
)
from wse.compiler.symbolic import SymBuffer, SymStep


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Position of a feed-forward block, or of the experts, among the steps of a layer.

    Attributes:
        inward: Index of the all-reduce of the gate and up projections.
        outward: Index of the all-reduce of the down-projection.
        end: Index after the last step of the block.
    """

    inward: int
    outward: int
    end: int


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Merge the all-reduces of the experts and of the shared feed-forward block.

    A shared block is a feed-forward block that every token uses in addition to its experts. Merging
    saves two all-reduces per layer. Nothing is changed if the steps do not have the expected form.
    ``setting`` is not used.
    """
    steps, blocks = block_steps.steps, _blocks(block_steps.steps)
    if blocks is None or expert_stage(c) is not None:
        return
    experts, shared_block = blocks
    # 2. Store the sums in front of those of the experts.
    lines = ((experts.inward, shared_block.inward), (experts.outward, shared_block.outward))
    ranges = [tuple(live_range(steps, _sums(steps[line]), line) for line in pair) for pair in lines]
    if any(
        experts_live is None or shared_live is None or shared_live.start < experts.end
        for experts_live, shared_live in ranges
    ):
        return
    all_reduces = []
    for (line, other_line), (experts_live, shared_live) in zip(lines, ranges, strict=True):
        assert experts_live is not None
        assert shared_live is not None
        all_reduces.append(merged_line(c, steps, steps[line], experts_live, steps[other_line], shared_live))
    # 3. Reorder the steps.
    block_steps.steps = [
        *steps[: experts.inward],
        *steps[experts.end : shared_block.inward],
        all_reduces[0],
        *steps[experts.inward + 1 : experts.outward],
        *steps[shared_block.inward + 1 : shared_block.outward],
        all_reduces[1],
        *steps[experts.outward + 1 : experts.end],
        *steps[shared_block.outward + 1 :],
    ]


def _blocks(steps: Sequence[SymStep]) -> tuple[_Block, _Block] | None:
    """Find the experts and the shared feed-forward block of a layer, each with its two all-reduces.

    Returns:
        The experts and the shared block; None if there is no shared block or the steps do not have
        the expected form.
    """
    outwards = [i for i, step in enumerate(steps) if _kernel_name(step).startswith("expert_out")]
    lines = [i for i, step in enumerate(steps) if is_line(step)]
    if len(outwards) != 1:
        return None
    lines_before, lines_after = [i for i in lines if i < outwards[0]], [i for i in lines if i > outwards[0]]
    if not lines_before or len(lines_after) < 3:
        return None
    experts = _Block(inward=lines_before[-1], outward=lines_after[0], end=_end(steps, lines_after[0]))
    shared_block = _Block(inward=lines_after[1], outward=lines_after[2], end=_end(steps, lines_after[2]))
    pairs = ((experts.inward, shared_block.inward), (experts.outward, shared_block.outward))
    fixed = all(in_place(steps[i]) and count(steps[i], "elements") > 0 for _, i in pairs)
    are_whole = all(_is_whole(steps[i]) for pair in pairs for i in pair)
    have_same_lines = all(same_lines(steps[a], steps[b]) for a, b in pairs)
    if not (fixed and are_whole and have_same_lines) or any(
        step.loop >= 0 for step in steps[experts.inward : shared_block.end]
    ):
        return None
    sum_buffers = [_sums(steps[i]) for i in (experts.inward, experts.outward)]
    last = steps[experts.end - 1]
    stream = address(last, "x").buffer if _kernel_name(last) == "residual_add" else None
    products = steps[experts.end : shared_block.inward]
    ready = not any(
        touches(step, buffer) for step in products for buffer in (stream, *sum_buffers) if buffer is not None
    )
    return (experts, shared_block) if ready and stream is not None else None


def _end(steps: Sequence[SymStep], outward: int) -> int:
    """Return the index after the last step of a feed-forward block.

    The last step adds the block's output to the residual stream. Steps that copy the stream may
    precede it.

    Args:
        steps: Steps of a layer.
        outward: Index of the all-reduce of the block's output.
    """
    joining = outward + 1
    while joining + 1 < len(steps) and _kernel_name(steps[joining]) == "copy":
        joining += 1
    return joining + 1


def _is_whole(line: SymStep) -> bool:
    """Return whether an all-reduce reads and writes the same buffer, from its first element.

    The number of elements must be constant, or depend only on how many (token, selected expert)
    pairs a column of PEs processes.
    """
    at = address(line, "source")
    return at == address(line, "target") and not at.offset and varies_by_pairs_only(number(line, "elements"))


def _sums(line: SymStep) -> SymBuffer:
    """Return the buffer whose values an all-reduce adds up."""
    return address(line, "source").buffer


def _kernel_name(step: SymStep) -> str:
    """Return the name of the kernel that a step runs; "" for a transfer."""
    kernel = kernel_of(step)
    return "" if kernel is None else kernel.name


REWRITE: Final = Rewrite(
    name="joint-blocks",
    summary="The sums of the shared block travel in the same messages as those of the experts.",
    source="this project: sums along the same lines that do not wait for each other are sent in one message",
    position=20,
    apply=_apply,
    invalid=needs_shared_block,
)
