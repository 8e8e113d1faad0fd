"""Rewrite: unpack more quantised weights at a time if PEs have enough free memory.

A PE unpacks a few rows of a tile of codes into scratch memory, multiplies by them, and continues
with the next rows. Each iteration issues the unpacking vector instructions again: 5 for 8-bit
codes, 11 for 4-bit codes. Their vectors are short if a row has few outputs. With more scratch
memory, there are fewer iterations. The unpacked values and the order of sums do not change.

The search finds how many codes a layout can unpack at a time
(`wse.compiler.search.fitting.chunks`).
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.local_product import UNPACKED_CODES, scratch
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import WIDE_UNPACKING, Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import count, kernel_of, with_operands
from wse.compiler.symbolic import SymAddress, fixed_number
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that kernels unpack more quantised weights at a time.

    This needs a larger scratch buffer.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        setting: Number of codes (quantised weights) to unpack at a time.
    """
    for index, step in enumerate(block_steps.steps):
        kernel = kernel_of(step)
        if kernel is not None and "codes" in kernel.index:
            rows, codes = scratch(c, count(step, "K"), count(step, "N"), setting)
            block_steps.steps[index] = with_operands(step, rows=fixed_number(rows), codes=SymAddress(buffer=codes))


def _needs_codes(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a request; "" if it is valid.

    The weights must be quantised.
    """
    return "" if options.dtype in CODINGS else f"weights are {options.dtype} and need no unpacking"


REWRITE: Final = Rewrite(
    name=WIDE_UNPACKING,
    summary="More codes of quantised weights are unpacked at a time, in SRAM that a layout leaves free.",
    source="this project: the cost of starting an instruction is spread over the longest vector that fits",
    position=210,
    apply=_apply,
    invalid=_needs_codes,
    settings=tuple(UNPACKED_CODES * half_more // 2 << doublings for doublings in range(6) for half_more in (2, 3)),
)
