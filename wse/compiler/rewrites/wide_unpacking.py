"""Codes unpacked more at once, where PEs have room for what they become.

A PE unpacks a few rows of a tile of codes into scratch, multiplies with them, and goes on with the next rows. Each turn
starts the vector operations of unpacking anew, 5 for codes of 8 bits and 11 for codes of 4, whose vectors are short
where a row has few outputs. With more scratch there are fewer turns. What is unpacked, and the order of sums, is the
same.

The search finds how many codes a layout has room for (`wse.compiler.search.fitting.unpacking`).
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.lowering.local_product import UNPACKED_CODES, scratch
from wse.compiler.options import WIDE_UNPACKING, Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import count, kernel_of, with_operands
from wse.compiler.symbolic import SymAddress, fixed_number
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS


def _apply(c: Context, draft: Draft, setting: int) -> None:
    for index, step in enumerate(draft.steps):
        kernel = kernel_of(step)
        if kernel is not None and "codes" in kernel.index:
            rows, codes = scratch(c, count(step, "K"), count(step, "N"), setting)
            draft.steps[index] = with_operands(step, rows=fixed_number(rows), codes=SymAddress(buffer=codes))


def _needs_codes(spec: ModelSpec, options: Options) -> str:
    return "" if options.dtype in CODINGS else f"weights are {options.dtype}, which nothing has to unpack"


REWRITE: Final = Rewrite(
    name=WIDE_UNPACKING,
    summary="More codes of quantised weights are unpacked at once, into what SRAM a layout leaves free.",
    source="this project: what starting an operation costs is spread over as long a vector as there is room for",
    position=210,
    apply=_apply,
    invalid=_needs_codes,
    settings=tuple(UNPACKED_CODES * half_more // 2 << doublings for doublings in range(6) for half_more in (2, 3)),
)
