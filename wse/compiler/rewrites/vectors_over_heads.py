"""Rewrite: let vector instructions of attention run over heads instead of the elements of one head.

A column stores few features of each head, and a row stores few cache entries, but for many heads. A
vector over the elements of one head is then too short to amortise the cost of issuing the
instruction. Vectors over heads are longer and fewer. Their elements are not adjacent, so only one
element is processed per cycle. The order of every sum is unchanged, and a PE uses the variant with
fewer cycles.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import kernel_of
from wse.compiler.symbolic import SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Allow vector instructions over attention heads in all kernels that support them.

    Such an instruction processes one element of every head instead of all elements of one head. The
    steps are modified in place. ``setting`` is not used.
    """
    block_steps.steps[:] = [step.copy_with(over_heads=True) if _has_heads(step) else step for step in block_steps.steps]


def _has_heads(step: SymStep) -> bool:
    """Return whether the kernel of a step can vectorise over attention heads."""
    kernel = kernel_of(step)
    return kernel is not None and kernel.cycles_over_heads is not None


REWRITE: Final = Rewrite(
    name="vectors-over-heads",
    summary="Vector instructions of attention process one element of every head where that needs fewer of them.",
    source="loop interchange; memory descriptors of the WSE have strides (Cerebras SDK documentation, data structures)",
    position=150,
    apply=_apply,
)
