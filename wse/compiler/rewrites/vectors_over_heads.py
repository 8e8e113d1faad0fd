"""Kernels of attention whose vector operations go over heads: one element of each, instead of all of one.

A column stores few features of a head and a row few cache entries, but both hold them of many heads. So a vector over
the elements of a head is shorter than what issuing it costs, and there is a loop over heads around it. Over the heads
of a column vectors are longer and fewer. Their elements are not neighbours, so that no more than one is worked on in a
cycle. Every sum keeps its order, and a PE takes whichever of the two ways takes it fewer cycles.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import kernel_of
from wse.compiler.symbolic import SymStep


def _apply(c: Context, draft: Draft, setting: int) -> None:
    draft.steps[:] = [step.copy_with(over_heads=True) if _has_heads(step) else step for step in draft.steps]


def _has_heads(step: SymStep) -> bool:
    kernel = kernel_of(step)
    return kernel is not None and kernel.cycles_over_heads is not None


REWRITE: Final = Rewrite(
    name="vectors-over-heads",
    summary="Vector operations of attention take an element of every head of a column, where that makes them fewer.",
    source="loop interchange; memory descriptors of the WSE have strides (Cerebras SDK documentation, data structures)",
    position=150,
    apply=_apply,
)
